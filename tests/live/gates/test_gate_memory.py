"""Complete gangs do not stay behind the gate indefinitely, and each minute a message names the pods that are held."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubestow.live.gates.gate_memory import GateMemory, HoldReason
from kubestow.live.gates.gates import Gates, ReleaseOptions
from kubestow.live.gates.ready import Ready
from kubestow.live.gates.serve_lease import MAX_UIDS, WHOLE, serve
from kubestow.models.execution.template_nodes import GATE, TemplateNodes
from tests.api_server import Behaviour
from tests.live.gates.stage import Stage, workload
from tests.live.gates.test_serving import NODES, STEADY, until
from tests.objects import Object, node, pod
from tests.tiers import quick_where

LEASE = "kube-system/kubestow-serve"
SOON = ReleaseOptions(timeout=0.3, pause=0.01)
LATE = ReleaseOptions(timeout=600, pause=0.01)


def served(stage: Stage, folder: Path, use: Callable[[], Awaitable[None]], interval: float = 60.0) -> None:
    """Run a server while something is done; ``interval``: seconds between reminders."""

    async def both(gates: Gates) -> None:
        task = asyncio.create_task(serve(replace(gates, holding=GateMemory(interval)), "one", STEADY))
        try:
            await use()
            assert not task.done()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    stage.journaled = False
    stage.run(folder, both)


def lose(stage: Stage, *nodes: str) -> None:
    """Delete nodes and all pods of the gang at once."""
    with stage.world.core.lock:
        for name in nodes:
            stage.world.delete("Node", name)
        for name in stage.pods("web"):
            stage.world.delete("Pod", f"default/{name}", grace=0)


def gang(kind: str = "Deployment") -> Object:
    if kind == "Job":
        return workload(kind, parallelism=2, completions=2, backoffLimit=6)
    named: dict[str, Any] = {"serviceName": "web", "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    return workload(kind, replicas=2, **named)


async def whole(stage: Stage, nodes: dict[str, int]) -> None:
    stage.apply()
    await until(lambda: stage.counts("web") == nodes and len(stage.told.nodes) == sum(nodes.values()))


@pytest.mark.parametrize("kind", quick_where(["Deployment", "StatefulSet", "ReplicationController", "Job"], "Deployment".__eq__))
def test_a_gang_that_was_whole_goes_whole_to_where_the_scheduler_likes(tmp_path: Path, kind: str) -> None:
    stage = Stage(NODES, [gang(kind)], ["n1", "n2"], options=SOON)

    async def use() -> None:
        await whole(stage, {"n1": 1, "n2": 1})
        before = set(stage.pods("web"))
        lose(stage, "n2")
        await until(lambda: len(stage.pods("web")) == 2 and not stage.counts("web").get("", 0) and not stage.held())
        if kind != "StatefulSet":
            assert not before & set(stage.pods("web"))
        assert set(stage.pods("web").values()) <= {"n1", "n3"}
        await until(lambda: list(stage.told.nodes.values()).count(None) == 2)

    served(stage, tmp_path, use)


def test_it_waits_for_the_nodes_of_the_placement_until_time_is_up(tmp_path: Path) -> None:
    stage = Stage(NODES, [gang()], ["n1", "n2"], options=LATE)

    async def use() -> None:
        await whole(stage, {"n1": 1, "n2": 1})
        lose(stage, "n2")
        await until(lambda: any("there is no such node" in note for note in stage.told.notes))
        await asyncio.sleep(0.3)
        assert len(stage.held()) == 2
        stage.world.load([node("n2", cpu="4")])
        await until(lambda: stage.counts("web") == {"n1": 1, "n2": 1})

    served(stage, tmp_path, use)
    assert None not in stage.told.nodes.values()


@pytest.mark.full
def test_it_goes_at_once_where_none_of_its_nodes_is_left(tmp_path: Path) -> None:
    stage = Stage(NODES, [gang()], ["n1", "n2"], options=LATE)

    async def use() -> None:
        await whole(stage, {"n1": 1, "n2": 1})
        lose(stage, "n1", "n2")
        await until(lambda: stage.counts("web") == {"n3": 2})

    served(stage, tmp_path, use)


@pytest.mark.full
@pytest.mark.parametrize("harm", ["cordoned", "full", "closed"])
def test_a_node_that_is_there_and_takes_nobody_is_the_same(tmp_path: Path, harm: str) -> None:
    stage = Stage(NODES, [gang()], ["n1", "n2"], options=SOON)

    async def use() -> None:
        await whole(stage, {"n1": 1, "n2": 1})
        with stage.world.core.lock:
            if harm != "full":
                marks = {"kubestow.dev/closed-by": "abc 2026-11-22T12:00:00Z"} if harm == "closed" else {}
                stage.world.patch("Node", "n2", {"metadata": {"annotations": marks}, "spec": {"unschedulable": True}})
            lose(stage)
            if harm == "full":
                stage.world.load([pod("foreign", cpu="3500m", node_name="n2")])
        await until(lambda: len(stage.pods("web")) == 2 and not stage.counts("web").get("", 0))
        assert "n2" not in stage.counts("web")

    served(stage, tmp_path, use)


@pytest.mark.full
def test_a_gang_of_several_workloads_goes_whole(tmp_path: Path) -> None:
    pair = [
        workload("Deployment", "web", replicas=1),
        workload("StatefulSet", "db", replicas=1, serviceName="db", podManagementPolicy="Parallel"),
    ]
    for each in pair:
        each["spec"]["template"]["metadata"]["annotations"] = {"kubestow.dev/gang": "pair"}
    stage = Stage(NODES, pair, ["n1", "n2"], options=SOON)

    async def use() -> None:
        stage.apply()
        await until(lambda: (stage.counts("web"), stage.counts("db")) == ({"n1": 1}, {"n2": 1}) and len(stage.told.nodes) == 2)
        with stage.world.core.lock:
            lose(stage, "n2")
            stage.world.delete("Pod", "default/db-0", grace=0)
        await until(lambda: stage.held() == [] and "" not in {*stage.pods().values()} and len(stage.pods()) == 2)

    served(stage, tmp_path, use)


def test_a_gang_that_never_was_whole_stays_held(tmp_path: Path) -> None:
    stage = Stage(NODES, [gang()], ["n1", "n2"], options=ReleaseOptions(timeout=0.1, pause=0.01))
    stage.world.delete("Node", "n2")

    async def use() -> None:
        stage.apply()
        await until(lambda: any("it never was whole, and goes once it fits whole" in note for note in stage.told.notes))
        await asyncio.sleep(0.5)
        assert len(stage.held()) == 2

    served(stage, tmp_path, use, interval=0.2)


@pytest.mark.full
def test_pods_beyond_the_placement_do_not_make_a_held_gang_count_as_let_go(tmp_path: Path) -> None:
    stage = Stage(NODES, [gang()], ["n1", "n2"], options=ReleaseOptions(timeout=0.1, pause=0.01))
    stage.world.delete("Node", "n2")

    async def use() -> None:
        stage.apply()
        stage.world.patch("Deployment", "default/web", {"spec": {"replicas": 3}})
        await until(lambda: any("it goes after its gang" in note for note in stage.told.notes))
        assert len(stage.held()) == 3
        stage.world.load([node("n2", cpu="4")])
        await until(lambda: stage.held() == [] and "" not in stage.counts("web"))
        assert stage.counts("web")["n2"] >= 1

    served(stage, tmp_path, use, interval=0.2)


def test_fewer_pods_than_planned_go_to_the_nodes_that_are_there(tmp_path: Path) -> None:
    stage = Stage(NODES, [gang()], ["n1", "n2"], options=LATE)

    async def use() -> None:
        await whole(stage, {"n1": 1, "n2": 1})
        stage.world.patch("Deployment", "default/web", {"spec": {"replicas": 1}})
        await until(lambda: len(stage.pods("web")) == 1)
        lose(stage, "n1")
        await until(lambda: stage.counts("web") == {"n2": 1})

    served(stage, tmp_path, use)


# --- another server ---------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_next_server_knows_which_gangs_were_whole(tmp_path: Path) -> None:
    """The gang is lost while no server runs: only the Lease shows it."""
    stage = Stage(NODES, [gang()], ["n1", "n2"], options=SOON)

    async def first() -> None:
        await whole(stage, {"n1": 1, "n2": 1})

    async def second() -> None:
        await until(lambda: list(stage.told.nodes.values()).count(None) == 2)
        await until(lambda: "" not in stage.counts("web"))

    served(stage, tmp_path, first)
    found = stage.world.get("Deployment", "default/web")
    lease = stage.world.get("Lease", LEASE)
    assert found is not None
    assert lease is not None
    assert json.loads(lease["metadata"]["annotations"][WHOLE]) == [found["metadata"]["uid"]]
    lose(stage, "n2")
    served(stage, tmp_path, second)


@pytest.mark.full
@pytest.mark.parametrize("spoilt", ["", "[", "{}", '[1, null, "gone"]'])
def test_a_spoilt_annotation_is_no_harm(tmp_path: Path, spoilt: str) -> None:
    stage = Stage(NODES, [gang()], ["n1", "n2"], options=SOON)
    stage.world.create(
        {"kind": "Lease", "metadata": {"name": "kubestow-serve", "namespace": "kube-system", "annotations": {WHOLE: spoilt}}}
    )

    async def use() -> None:
        await whole(stage, {"n1": 1, "n2": 1})

    served(stage, tmp_path, use)
    lease = stage.world.get("Lease", LEASE)
    assert lease is not None
    assert len(json.loads(lease["metadata"]["annotations"][WHOLE])) == 1


def test_the_annotation_stays_below_what_an_object_may_have() -> None:
    assert MAX_UIDS * len('"00000000-0000-0000-0000-000000000000", ') < 256 * 1024


# --- reminders --------------------------------------------------------------------------------------------------------


def test_who_is_held_is_named_each_minute(tmp_path: Path) -> None:
    stage = Stage(NODES, [gang()], ["n1", "n2"], options=LATE)

    def reminders() -> list[str]:
        return [note for note in stage.told.notes if note.startswith("held behind the gate for")]

    async def use() -> None:
        await whole(stage, {"n1": 1, "n2": 1})
        assert reminders() == []
        lose(stage, "n2")
        await until(lambda: len(reminders()) >= 2)

    served(stage, tmp_path, use, interval=0.1)
    names = sorted(stage.pods("web"))
    for note in reminders():
        assert f"gang default/web (default/{names[0]}, default/{names[1]}): " in note
        assert "there is no such node" in note
        assert "; if that lasts, the scheduler finds it a node in " in note


def test_pods_that_the_server_refuses_are_named(tmp_path: Path) -> None:
    stage = Stage(NODES, [gang()], ["n1", "n2"], options=LATE, behaviour=Behaviour(forbidden=frozenset({("patch", "pods")})))

    async def use() -> None:
        stage.apply()
        await until(lambda: any(note.startswith("held behind") and "it cannot be let go: " in note for note in stage.told.notes))

    served(stage, tmp_path, use, interval=0.1)


def test_a_gang_that_is_not_all_there_is_named(tmp_path: Path) -> None:
    stage = Stage(NODES, [gang("Job")], ["n1", "n2"], options=LATE, behaviour=Behaviour(controllers=False))

    async def use() -> None:
        stage.apply()
        job = stage.world.get("Job", "default/web")
        assert job is not None
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": job["metadata"]["uid"], "controller": True}
        metadata = {"name": "web-0", "namespace": "default", "labels": {"app": "web"}, "ownerReferences": [owner]}
        stage.world.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": job["spec"]["template"]["spec"]})
        ending = ": gang default/web (default/web-0): Job default/web 1 of 2 pods are there; it goes once all are there"
        await until(lambda: any(note.startswith("held behind") and note.endswith(ending) for note in stage.told.notes))

    served(stage, tmp_path, use, interval=0.1)


def test_held_pods_of_other_placements_are_named(tmp_path: Path) -> None:
    stage = Stage(NODES, [gang()], ["n1", "n2"], options=LATE)

    def told() -> list[str]:
        return [note for note in stage.told.notes if "of no workload of this placement" in note]

    async def use() -> None:
        await whole(stage, {"n1": 1, "n2": 1})
        stage.world.create(pod("stranger", schedulingGates=[{"name": GATE}]))
        await until(lambda: bool(told()))
        stage.world.delete("Pod", "default/stranger", grace=0)

    served(stage, tmp_path, use, interval=0.1)
    assert told()[0].endswith("1 pod is of no workload of this placement, which does not let them go: default/stranger")


class Seen:
    """A cluster of held pods of one Job, as :class:`GateMemory` reads it."""

    def __init__(self, number: int) -> None:
        owner = [{"kind": "Job", "name": "j", "uid": "job", "controller": True}]
        self.pods = [pod(f"p{i}", schedulingGates=[{"name": GATE}]) for i in range(number)]
        for i, each in enumerate(self.pods):
            each["metadata"] |= {"uid": f"u{i}", "namespace": "default", "ownerReferences": owner}

    def named(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        return {"metadata": {"name": name, "uid": "job"}}

    def pods_of(self, owner_uid: str) -> list[Object]:
        return self.pods

    def objects(self, kind: str) -> dict[str, Object]:
        return {}

    def mentioning(self, kind: str, words: Any) -> list[Object]:
        return self.pods


@pytest.mark.parametrize(("number", "lines"), [(1, 1), (20, 20), (21, 21), (500, 21)])
def test_reminders_come_once_a_minute_and_are_few(number: int, lines: int) -> None:
    now = [0.0]
    cluster: Any = Seen(number)
    templates = [TemplateNodes("Job", "default", "j")]
    holding = GateMemory(60, lambda: now[0])
    why = {f"u{i}": HoldReason(f"u{i}", "no room", "later") for i in range(number)}
    found: list[tuple[float, int, str]] = []
    for now[0] in (0.0, 1.0, 59.0, 60.0, 61.0, 119.0, 120.0, 130.0, 185.0):
        holding.see(cluster, templates, Ready())
        told = holding.reminders(cluster, templates, why)
        found += [(now[0], len(told), told[0])] if told else []
    assert [at for at, _, _ in found] == [60.0, 120.0, 185.0]
    assert {number for _, number, _ in found} == {lines}
    assert [text for _, _, text in found] == [
        f"held behind the gate for {minutes} min: Pod default/p0: no room; later" for minutes in (1, 2, 3)
    ]


def test_a_pod_that_comes_back_is_counted_from_then_on() -> None:
    now = [0.0]
    cluster: Any = Seen(1)
    templates = [TemplateNodes("Job", "default", "j")]
    holding = GateMemory(60, lambda: now[0])
    holding.see(cluster, templates, Ready())
    pods, cluster.pods, now[0] = cluster.pods, [], 30.0
    holding.see(cluster, templates, Ready())
    cluster.pods, now[0] = pods, 61.0
    holding.see(cluster, templates, Ready())
    assert holding.reminders(cluster, templates, {}) == []
