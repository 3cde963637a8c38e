"""Runs of the executor on a small cluster: the requests and their order, and the ends of runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubestow.checker.journal.judge import judge_journal
from kubestow.live.api.answers import Object, ServerAnswer, Unreachable
from kubestow.live.apply.drift import Judge, Rejection
from kubestow.live.apply.fence import Pauses
from kubestow.live.apply.journal import Journal, RunOrigin
from kubestow.live.apply.run import Execution, RunListener, RunOptions, RunOutcome
from kubestow.models.documents.journal import read
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube.closed_nodes import CLOSED_BY
from kubestow.models.snapshot.snapshot import InputError
from tests.live.apply.fake_cluster import nodes
from tests.live.apply.small_cluster import LOST, SmallCluster, plan, refused, running, waiting

QUICK = RunOptions(timeout=60, pause=0.01)


def agreed(*_: object) -> list[Rejection]:
    return []


class Run:
    """One process that carries a document out; another one of the same path resumes it."""

    def __init__(self, world: SmallCluster, document: RebalancePlan | Placement, path: Path, judge: Judge = agreed) -> None:
        self.world, self.document, self.path, self.judge = world, document, path / "plan.journal.jsonl", judge
        self.before = world.snapshot()
        self.execution: Execution | None = None

    def __call__(self, options: RunOptions = QUICK, listener: RunListener | None = None) -> RunOutcome:
        return asyncio.run(self.go(options, listener))

    async def go(self, options: RunOptions = QUICK, listener: RunListener | None = None) -> RunOutcome:
        async with Journal.open(str(self.path), RunOrigin("r", self.document.snapshot.sha256, "here"), resume=True) as journal:
            world = self.world
            world._changed = asyncio.Event()
            self.execution = Execution(world, world, journal, self.document, self.before, self.judge, options, listener or RunListener())
            self.execution.fence.pauses = Pauses(settle=0.0, patience=0.05, again=0.01)
            outcome = await self.execution.run()
        closed = [node for node in world.objects("Node").values() if CLOSED_BY in (node["metadata"].get("annotations") or {})]
        assert [node["metadata"]["name"] for node in closed] == outcome.not_opened
        record = read(str(self.path))
        found = judge_journal(record, self.document, self.before, digest="r")
        assert [v for v in found.violations if v.node not in outcome.not_opened] == []
        assert found.summary is not None
        assert len(found.summary.left) == len(outcome.remaining_steps)
        return outcome


def sent(world: SmallCluster, last: str) -> list[str]:
    return [path.split("/")[-2] for _, path, _ in world.sent if path.endswith(last)]


def test_a_move_ends_on_the_planned_node(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2", "n3"), running("web-1", "n1"), running("web-2", "n1"))
    outcome = Run(world, plan((1, "web-1", "n1", "n3"), (1, "web-2", "n1", "n2")), tmp_path)()
    assert (outcome.state, outcome.remaining_steps, outcome.reasons) == ("done", [], [])
    assert sorted(world.of("ReplicaSet/web").values(), key=str) == ["n2", "n3"]
    assert world.bound_by_scheduler == []
    evictions = [body for _, path, body in world.sent if path.endswith("eviction")]
    assert sorted(body["deleteOptions"]["preconditions"]["uid"] for body in evictions if body) == ["uid-web-1", "uid-web-2"]
    assert not any(node["spec"].get("unschedulable") for node in world.objects("Node").values())


def test_a_document_with_nothing_to_do_changes_nothing(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    documents: list[RebalancePlan | Placement] = [plan(), placement()]
    for number, document in enumerate(documents):
        (tmp_path / str(number)).mkdir()
        assert Run(world, document, tmp_path / str(number))().state == "done"
    assert world.sent == []


def test_waves_come_one_after_the_other(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"), running("db-0", "n2", "StatefulSet/db"))
    outcome = Run(world, plan((1, "web-1", "n1", "n2"), (2, "db-0", "n2", "n1")), tmp_path)()
    assert outcome.state == "done"
    requests = [path.rpartition("/")[2] for _, path, _ in world.sent if path.endswith(("eviction", "binding"))]
    assert requests == ["eviction", "binding", "eviction", "binding"]
    assert world.at("db-0") == "n1"


def test_a_pod_that_stops_over_goes_on_under_its_new_name(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2", "n3"), running("web-1", "n1"))
    document = plan((1, "web-1", "n1", "n2"), (2, "web-1", "n2", "n3"))
    assert Run(world, document, tmp_path)().state == "done"
    assert world.of("ReplicaSet/web") == {"web-new2": "n3"}


def test_a_bare_pod_is_created_again_from_its_own_manifest(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("lone", "n1", None, ephemeralContainers=[{"name": "debug"}]))
    outcome = Run(world, plan((1, "lone", "n1", "n2")), tmp_path)()
    assert outcome.state == "done"
    assert world.at("lone") == "n2"
    (body,) = [body for method, path, body in world.sent if method == "POST" and path.endswith("/pods")]
    assert body is not None
    assert "resourceVersion" not in body["metadata"]
    assert not {"nodeName", "ephemeralContainers"} & body["spec"].keys()
    assert "status" not in body


def test_an_eviction_for_good_leaves_the_replacement_to_the_scheduler_in_the_end(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1"), running("web-1", "n1"))
    seen: list[int] = []
    world.on_request = lambda method, path: seen.append(len(world.pending()))
    assert Run(world, plan((1, "web-1", "n1", None)), tmp_path)().state == "done"
    assert 1 in seen
    assert world.bound_by_scheduler == [("web-new1", "n1")]


def test_a_budget_that_refuses_is_asked_again(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    world.refuses["eviction"] = [refused(429, "TooManyRequests")] * 3
    assert Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)().state == "done"


def test_a_budget_that_refuses_too_long_ends_the_run(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    world.refuses["eviction"] = [refused(429, "TooManyRequests", "the budget says no")] * 1000
    outcome = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)(RunOptions(timeout=0.05, pause=0.01))
    assert outcome.state == "stopped"
    assert "the budget says no" in outcome.message
    assert world.at("web-1") == "n1"
    assert outcome.standing == []


def test_any_other_refusal_ends_the_run_and_begins_nothing_more(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"), running("api-1", "n1", "ReplicaSet/api"))
    world.refuses["eviction"] = [refused(403, "Forbidden", "you may not")]
    outcome = Run(world, plan((1, "web-1", "n1", "n2"), (2, "api-1", "n1", "n2")), tmp_path)()
    assert (outcome.state, len(outcome.remaining_steps)) == ("stopped", 2)
    assert outcome.reasons == ["pod default/web-1 cannot be evicted: you may not"]
    assert world.at("api-1") == "n1"


@pytest.mark.parametrize("last", ["eviction", "binding"])
@pytest.mark.parametrize("after", [False, True])
def test_a_lost_answer_is_settled_by_looking(tmp_path: Path, last: str, after: bool) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    if after:  # carried out, and the answer is lost
        send = world._pod_request
        lost: list[str] = [last]

        def losing(kind: str, name: str, body: Object) -> ServerAnswer:
            answer = send(kind, name, body)
            if kind in lost:
                lost.remove(kind)
                raise Unreachable
            return answer

        world._pod_request = losing  # type: ignore[method-assign]
    else:
        world.refuses[last] = [LOST]
    assert Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)().state == "done"
    assert world.of("ReplicaSet/web") == {"web-new1": "n2"}


@pytest.mark.full
def test_a_pod_that_is_not_replaced_ends_the_run_with_what_became_of_it(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    world.makes = False
    outcome = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)(RunOptions(timeout=0.05))
    assert outcome.state == "stopped"
    assert outcome.reasons == ["pod default/web-1 was evicted, and ReplicaSet web has made no other one within 0.05 s"]
    assert outcome.standing == ["pod default/web-1 was evicted, and its replacement was not seen: the scheduler gives it a node"]


def test_a_pod_that_does_not_become_ready_ends_the_run(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    world.kubelets = False
    outcome = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)(RunOptions(timeout=0.05))
    assert outcome.reasons == ["pod default/web-new1 is bound to n2 and not Ready after 0.05 s"]
    assert outcome.standing == ["pod default/web-new1 is bound to n2, and not Ready"]


def test_a_pod_that_was_not_ready_before_need_not_be_afterwards(tmp_path: Path) -> None:
    sick = running("web-1", "n1")
    sick["status"]["conditions"][0]["status"] = "False"
    world = SmallCluster(*nodes("n1", "n2"), sick)
    world.kubelets = False

    bind = world.bind
    taken = {"status": {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}}
    world.bind = lambda name, node: (bind(name, node), world.edit("Pod", name, taken))  # type: ignore[assignment]
    assert Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)().state == "done"


def test_a_pod_that_its_kubelet_refuses_ends_the_run(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    world.kubelets = False
    bind = world.bind
    failed = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "no room"}}
    world.bind = lambda name, node: (bind(name, node), world.edit("Pod", name, failed))  # type: ignore[assignment]
    outcome = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)()
    assert outcome.reasons == ["pod default/web-new1 failed on n2: OutOfcpu no room"]


# --- drift ------------------------------------------------------------------------------------------------------------


def test_drift_before_the_first_wave_ends_the_run_before_anything_is_evicted(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    run = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)
    world.remove("Pod", "web-1")
    outcome = run()
    assert outcome.state == "stopped"
    assert "default/web-1" in outcome.message
    assert sent(world, "eviction") == []


def test_drift_between_waves_ends_the_run_there(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"), running("api-1", "n1", "ReplicaSet/api"))

    class Meddler(RunListener):
        def wave(self, number: int, steps: int) -> None:
            if number == 1:
                world.end("api-1")

    outcome = Run(world, plan((1, "web-1", "n1", "n2"), (2, "api-1", "n1", "n2")), tmp_path)(listener=Meddler())
    assert outcome.state == "stopped"
    assert [step.pod for step in outcome.done] == ["default/web-1"]
    assert sent(world, "eviction") == ["web-1"]


def test_a_target_that_changed_is_judged_again_before_a_pod_is_bound_there(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    asked: list[int] = []

    def judge(snapshot: object, document: Any) -> list[Rejection]:
        asked.append(len(document.moves))
        return [] if document.moves[0].source else [Rejection("no room for it", "default/web-new1", "n2")]

    def fill(method: str, path: str) -> None:
        if path.endswith("eviction"):
            world.put(running("daemon", "n2", "DaemonSet/agent"))

    world.on_request = fill
    outcome = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path, judge)()
    assert outcome.state == "stopped"
    assert "no room for it" in outcome.message
    assert sent(world, "binding") == []
    assert world.bound_by_scheduler == [("web-new1", "n1")]  # nodes are open again


# --- ends ---------------------------------------------------------------------------------------------------------------


def test_an_interrupt_finishes_what_is_begun_and_begins_nothing_more(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"), running("api-1", "n1", "ReplicaSet/api"))
    run = Run(world, plan((1, "web-1", "n1", "n2"), (2, "api-1", "n1", "n2")), tmp_path)

    def interrupt(method: str, path: str) -> None:
        if path.endswith("eviction") and run.execution is not None:
            run.execution.interrupt()

    world.on_request = interrupt
    outcome = run()
    assert outcome.state == "interrupted"
    assert list(world.of("ReplicaSet/web").values()) == ["n2"]
    assert world.at("api-1") == "n1"
    world.on_request = lambda method, path: None
    assert run().state == "done"  # resumed
    assert list(world.of("ReplicaSet/api").values()) == ["n2"]


def test_two_interrupts_end_at_once_and_open_the_nodes(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    world.ends_slowly = True
    run = Run(world, plan((1, "web-1", "n1", "n2")), tmp_path)

    def interrupt(method: str, path: str) -> None:
        if path.endswith("eviction") and run.execution is not None:
            run.execution.interrupt()
            asyncio.get_running_loop().call_later(0.01, run.execution.interrupt)

    world.on_request = interrupt
    outcome = run(RunOptions(timeout=60))
    assert outcome.state == "interrupted"
    assert outcome.not_opened == []


def test_a_run_up_to_a_wave_goes_on_later(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"), running("api-1", "n1", "ReplicaSet/api"))
    run = Run(world, plan((1, "web-1", "n1", "n2"), (2, "api-1", "n1", "n2")), tmp_path)
    assert run(RunOptions(timeout=60, wave=1)).state == "paused"
    assert world.at("api-1") == "n1"
    assert run().state == "done"


def test_a_drained_node_stays_cordoned_when_all_is_done(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), running("web-1", "n1"))
    assert Run(world, plan((1, "web-1", "n1", "n2"), drain=["n1"]), tmp_path)().state == "done"
    assert [node["metadata"]["name"] for node in world.objects("Node").values() if node["spec"].get("unschedulable")] == ["n1"]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(12))
def test_killed_at_any_request_and_resumed_it_reaches_the_same_end(tmp_path: Path, at: int, after: bool) -> None:
    pods = [running("web-1", "n1"), running("web-2", "n1"), running("lone", "n2", None), running("db-0", "n2", "StatefulSet/db")]
    world = SmallCluster(*nodes("n1", "n2", "n3"), *pods)
    document = plan((1, "web-1", "n1", "n3"), (1, "lone", "n2", "n3"), (2, "web-2", "n1", "n2"), (2, "db-0", "n2", "n1"))
    run = Run(world, document, tmp_path)
    killed(run, at, after)
    world.on_request = lambda method, path: None
    outcome = run()
    assert outcome.state == "done", outcome.message
    assert sorted(str(node) for node in world.of("ReplicaSet/web").values()) == ["n2", "n3"]
    assert (world.at("lone"), world.at("db-0")) == ("n3", "n1")
    assert world.bound_by_scheduler == []


#: Event loops of killed processes: the events that they wait for never come.
_GRAVES: list[object] = []


def killed(run: Run, at: int, after: bool) -> None:
    """Run until the given number of requests was sent. Then the process is gone: it sends nothing more and sees no answer."""
    world, count, dead = run.world, 0, False
    real = world.send
    loop = asyncio.new_event_loop()

    async def send(*args: Any, **more: Any) -> ServerAnswer:
        nonlocal count, dead
        count += 1
        if count == at + 1:
            if after:
                await real(*args, **more)
            dead = True
            loop.stop()
        if dead:
            await asyncio.Event().wait()
        return await real(*args, **more)

    world.send = send  # type: ignore[method-assign]
    journal = Journal.open(str(run.path), RunOrigin("r", run.document.snapshot.sha256, "here"), resume=True)

    async def go() -> None:
        execution = Execution(world, world, journal, run.document, run.before, run.judge, QUICK)
        execution.fence.pauses = Pauses(settle=0.0, patience=0.05, again=0.01)
        await execution.run()
        loop.stop()

    task = loop.create_task(go())
    loop.run_forever()
    _GRAVES.extend([loop, task, *asyncio.all_tasks(loop)])
    for each in asyncio.all_tasks(loop):
        each._log_destroy_pending = False  # type: ignore[attr-defined]
    journal._thread.shutdown()  # the lock lasts as long as something is being written
    os.close(journal._file)
    world.send = real  # type: ignore[method-assign]


# --- pending pods -------------------------------------------------------------------------------------------------------


def placement(*assignments: tuple[int, str, str], gang: str | None = None) -> Placement:
    found = [Assignment(f"default/{pod}", node, order, gang) for order, pod, node in assignments]
    return Placement(SnapshotRef("", 0, 0, 0), "greedy", "feasible", [], found)


def test_a_placement_is_bound_in_order_with_uids(tmp_path: Path) -> None:
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}}
    world = SmallCluster(*nodes("n1", "n2", unschedulable=True), waiting("a"), waiting("b"), waiting("c", affinity=near))
    outcome = Run(world, placement((1, "b", "n1"), (2, "a", "n2"), (3, "c", "n1")), tmp_path)()
    assert outcome.state == "done"
    assert (world.at("a"), world.at("b"), world.at("c")) == ("n2", "n1", "n1")
    bodies = [body for _, path, body in world.sent if path.endswith("binding") and body]
    assert [(body["metadata"]["name"], body["metadata"]["uid"]) for body in bodies] == [("b", "uid-b"), ("a", "uid-a"), ("c", "uid-c")]


def test_a_gang_is_not_begun_when_a_member_is_gone(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2", unschedulable=True), waiting("a"), waiting("b"))
    run = Run(world, placement((1, "a", "n1"), (1, "b", "n2"), gang="default/g"), tmp_path)
    world.remove("Pod", "b")
    outcome = run()
    assert outcome.state == "stopped"
    assert sent(world, "binding") == []


def test_a_gang_that_is_begun_is_finished(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2", unschedulable=True), waiting("a"), waiting("b"), waiting("c"))
    run = Run(world, placement((1, "a", "n1"), (1, "b", "n2"), (1, "c", "n2"), gang="default/g"), tmp_path)

    def interrupt(method: str, path: str) -> None:
        if path.endswith("/a/binding") and run.execution is not None:
            run.execution.interrupt()

    world.on_request = interrupt
    outcome = run(RunOptions(timeout=60, requests=1))
    assert outcome.state == "interrupted"
    assert (world.at("a"), world.at("b"), world.at("c")) == ("n1", "n2", "n2")


def claim(name: str, **spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_a_pod_with_an_unbound_claim_goes_through_the_scheduler_to_its_node(tmp_path: Path) -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    late = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"}, "provisioner": "p"}
    world = SmallCluster(
        *nodes("n1", "n2", "n3"), {**late, "volumeBindingMode": "WaitForFirstConsumer"}, claim("data", storageClassName="late"),
        waiting("a", volumes=volumes), waiting("b"),
    )  # fmt: skip
    world.scheduler = False
    world.on_request = lambda method, path: setattr(world, "scheduler", "/pods/" in path or world.scheduler)
    outcome = Run(world, plan((1, "a", None, "n2"), (1, "b", None, "n3")), tmp_path)()
    assert outcome.state == "done", outcome.message
    assert sent(world, "binding") == ["b"]
    assert world.bound_by_scheduler == [("a", "n2")]


def test_what_no_cluster_has_is_refused(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1"), running("a", "n1"), waiting("b"))
    cases: list[tuple[Callable[[], RebalancePlan | Placement], str]] = [
        (lambda: placement((1, "a", "n2")), "only a plan of rebalance moves pods"),
        (lambda: placement((1, "zzz", "n1")), "the snapshot has no pod default/zzz"),
    ]
    for document, said in cases:
        with pytest.raises(InputError, match=said):
            Run(world, document(), tmp_path)()
