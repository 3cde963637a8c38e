"""Final messages of a run describe the cluster: running pods, closed nodes, workloads that were scaled down, refused tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubestow.live.api.answers import Object, ServerAnswer, Unauthorized
from kubestow.live.apply.drift import Rejection
from kubestow.live.apply.moving.missing_replacements import why_none
from kubestow.live.apply.run import RunOptions
from kubestow.live.apply.steps import PodOrigin
from kubestow.models.kube.closed_nodes import CLOSED_BY
from tests.api_server import Server
from tests.live.apply.applying import Applying
from tests.live.apply.fake_cluster import nodes
from tests.live.apply.random_clusters import posed
from tests.live.apply.small_cluster import SmallCluster, plan, refused, running
from tests.live.apply.test_run import Run

#: Far longer than any of these runs takes: what ends at once does not wait for it.
LONG = RunOptions(timeout=600.0, pause=0.01)
SHORT = RunOptions(timeout=0.05, pause=0.01)
DENIED = "the API server refuses the credentials: Unauthorized (HTTP 401)"


def owner(kind: str, name: str = "web", above: str = "", **fields: Any) -> Object:
    metadata: Object = {"name": name, "namespace": "default", "uid": f"{kind}-{name}"}
    if above:
        metadata["ownerReferences"] = [{"kind": "Deployment", "name": above, "uid": f"Deployment-{above}", "controller": True}]
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, **fields}


def on_eviction(world: SmallCluster, action: Callable[[], object]) -> None:
    """Do something when a pod is evicted, which is not replaced then."""
    world.makes = False

    def hear(method: str, path: str) -> None:
        if path.endswith("eviction"):
            action()

    world.on_request = hear


def test_a_workload_that_is_scaled_to_0_ends_the_wait_at_once_and_is_named(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"), owner("ReplicaSet", above="shop", spec={"replicas": 1}))
    on_eviction(world, lambda: world.edit("ReplicaSet", "web", {"spec": {"replicas": 0}}))
    began = time.monotonic()
    outcome = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)(LONG)
    said = "pod default/web-1 was evicted, and nothing takes its place: ReplicaSet web of Deployment shop was scaled to 0"
    assert (outcome.state, outcome.reasons, outcome.standing) == ("stopped", [said], [said])
    assert outcome.message == f"0 of 1 steps are done; {said}"
    assert time.monotonic() - began < LONG.timeout / 10


def test_a_workload_that_is_deleted_ends_the_wait_at_once(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"), owner("ReplicaSet", spec={"replicas": 1}))
    on_eviction(world, lambda: world.remove("ReplicaSet", "web"))
    outcome = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)(LONG)
    assert outcome.reasons == ["pod default/web-1 was evicted, and nothing takes its place: ReplicaSet web is gone"]


COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
CURRENT = {"replicas": 1, "observedGeneration": 2}


@pytest.mark.parametrize(
    ("kind", "pod", "found", "living", "said"),
    [
        ("ReplicaSet", "web-1", {"spec": {"replicas": 1}}, 0, ""),
        ("ReplicaSet", "web-1", {"spec": {}}, 0, ""),
        ("ReplicaSet", "web-1", {"spec": {"replicas": 0}}, 2, "was scaled to 0"),
        ("ReplicaSet", "web-1", {"spec": {"replicas": 1}}, 1, ""),  # its status does not say so yet
        ("ReplicaSet", "web-1", {"spec": {"replicas": 1}, "status": CURRENT, "generation": 2}, 1, "already has 1 of 1 pods"),
        ("ReplicaSet", "web-1", {"spec": {"replicas": 1}, "status": CURRENT, "generation": 2}, 0, ""),
        ("ReplicaSet", "web-1", {"spec": {"replicas": 1}, "status": CURRENT, "generation": 3}, 1, ""),
        ("StatefulSet", "web-2", {"spec": {"replicas": 3}}, 3, ""),
        ("StatefulSet", "web-2", {"spec": {"replicas": 2}}, 2, "was scaled to 2"),
        ("StatefulSet", "web-0", {"spec": {"replicas": 2}}, 2, ""),
        ("StatefulSet", "web-5", {"spec": {"replicas": 2, "ordinals": {"start": 4}}}, 0, ""),
        ("Job", "web-x", {"spec": {"parallelism": 2}}, 0, ""),
        ("Job", "web-x", {"spec": {"parallelism": 0}}, 0, "was scaled to 0"),
        ("Job", "web-x", {"spec": {"suspend": True}}, 0, "was suspended"),
        ("Job", "web-x", {"spec": {}, "status": COMPLETE}, 0, "has ended"),
        ("Rollout", "web-x", {"spec": {"replicas": 0}}, 0, ""),  # of a kind whose rules are not known
    ],
)
def test_which_controllers_make_no_other_pod(kind: str, pod: str, found: Object, living: int, said: str) -> None:
    made = owner(kind, spec=found["spec"], status=found.get("status") or {})
    made["metadata"]["generation"] = found.get("generation", 1)
    world = SmallCluster(made, *(running(f"other-{k}", "n1", f"{kind}/web") for k in range(living)))
    origin = PodOrigin(f"default/{pod}", "uid", (kind, "web", f"{kind}-web"))
    assert why_none(world, origin) == (f"{kind} web {said}" if said else "")


def test_a_pod_that_runs_elsewhere_by_the_end_is_not_without_a_node(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))

    def judge(snapshot: object, document: Any) -> list[Rejection]:
        return [] if document.moves[0].source else [Rejection("no room for it", "default/web-new1", "n2")]

    def fill(method: str, path: str) -> None:
        if path.endswith("eviction"):
            world.put(running("daemon", "n2", "DaemonSet/agent"))

    world.on_request = fill
    outcome = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path, judge)()
    assert outcome.standing == ["pod default/web-new1, which takes the place of default/web-1, runs on n1 and not on n2"]
    assert "without a node" not in outcome.message
    assert "no node" not in outcome.message


def test_where_no_node_could_be_opened_nothing_says_that_the_scheduler_gives_one(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    world.makes = False
    send = world.send

    async def refusing(method: str, path: str, body: Any = None, **more: Any) -> ServerAnswer:
        if "/nodes/" in path and method == "PATCH" and body["metadata"].get("annotations") == {CLOSED_BY: None}:
            return refused(403, "Forbidden", "you may not")
        return await send(method, path, body, **more)

    world.send = refusing  # type: ignore[method-assign]
    outcome = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)(SHORT)
    assert outcome.not_opened == ["n1", "n2"]
    assert outcome.standing == ["pod default/web-1 was evicted, and its replacement was not seen: no node is open for it"]


def test_a_token_that_is_refused_is_said_once(tmp_path: Path) -> None:
    pods = [running(f"{name}-1", "n1", f"ReplicaSet/{name}") for name in ("web", "api", "db")]
    world = SmallCluster(*nodes("n1", "n2"), *pods)
    send, revoked = world.send, [False]

    async def refusing(method: str, path: str, body: Any = None, **more: Any) -> ServerAnswer:
        revoked[0] = revoked[0] or path.endswith("binding")
        if revoked[0]:
            raise Unauthorized(ServerAnswer(401, {"reason": "Unauthorized", "message": "Unauthorized"}))
        return await send(method, path, body, **more)

    async def refresh() -> None:
        if revoked[0]:
            raise Unauthorized(ServerAnswer(401, {"reason": "Unauthorized", "message": "Unauthorized"}))

    world.send = refusing  # type: ignore[method-assign]
    world.refresh = refresh  # type: ignore[method-assign]
    outcome = Run(world, plan(*((1, pod["metadata"]["name"], "n1", "n2") for pod in pods)), tmp_path)()
    assert (outcome.state, outcome.reasons, outcome.not_opened) == ("stopped", [DENIED], ["n1", "n2"])
    assert outcome.message.count("401") == 1
    assert all("had no node when it was last seen: no node is open for it" in each for each in outcome.standing)


@pytest.mark.full
@pytest.mark.parametrize("number", [3, 5, 7])
def test_a_token_that_is_revoked_in_the_middle_is_said_once_over_http(number: int, tmp_path: Path) -> None:
    case = posed("drain", 1)
    with Server(case.world) as server:
        case.world.on_request(number, lambda: server.revoked.add("client"))
        outcome = asyncio.run(asyncio.wait_for(Applying(server, case.document, case.snapshot, tmp_path).go(), 120))
        server.revoked.clear()
    assert (outcome.state, outcome.reasons) == ("stopped", [DENIED])
    assert outcome.not_opened
    assert outcome.message.count("401") == 1
    assert not any("the scheduler gives it" in each for each in outcome.standing)
