"""A round waits before it plans: for everything begun since the snapshot, and for nothing that may last indefinitely."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubestow.commands.apply import unfinished_pods
from kubestow.commands.apply.unfinished_pods import UnfinishedPods, used_up
from kubestow.models.documents.placement import SnapshotRef
from kubestow.models.documents.rebalance_plan import Obstacle, RebalancePlan, Summary
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.objects import Object, node, pod

REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu."}


class Fake:
    """Objects by kind and uid, as a live cluster has them."""

    def __init__(self, *objects: Object) -> None:
        self.items = list(objects)
        self.refreshed = 0

    def objects(self, kind: str) -> dict[str, Object]:
        return {each["metadata"]["uid"]: each for each in self.items if each["kind"] == kind}

    async def refresh(self) -> None:
        self.refreshed += 1


def made(name: str, node_name: str | None = "n1", ready: bool = True, **status: Any) -> Object:
    found = pod(name, node_name=node_name) if node_name else pod(name)
    found["metadata"] |= {"uid": f"uid-{name}", "namespace": "default"}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}] if node_name else status.pop("conditions", [])
    found["status"] = {"phase": "Running" if node_name else "Pending", "conditions": conditions, **status}
    return found


def leaving(name: str) -> Object:
    found = made(name)
    found["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:00Z"
    return found


def replica_set(replicas: int, fails: bool = False) -> Object:
    conditions = [{"type": "ReplicaFailure", "status": "True"}] if fails else []
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    metadata = {"name": "web", "namespace": "default", "uid": "uid-web"}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec, "status": {"conditions": conditions}}


def found(now: list[Object], before: list[Object]) -> list[str]:
    return UnfinishedPods(Fake(*now), from_objects([node("n1"), *before])).find()


@pytest.mark.parametrize(
    ("each", "text"),
    [
        (made("p", ready=False), "pod default/p is not Ready yet"),
        (leaving("p"), "pod default/p is being deleted"),
        (made("p", None), "pod default/p has no node yet"),
        (made("p", None, conditions=[REFUSED]), "pod default/p has no node yet"),
    ],
)
def test_what_was_begun_since_the_snapshot_is_waited_for_and_what_was_so_before_is_not(each: Object, text: str) -> None:
    assert found([each], []) == [text]
    assert found([each], [made("p")]) == [text]  # it was well before
    assert found([each], [each]) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_gated_ones_and_ready_ones_are_not_waited_for(phase: str) -> None:
    gated = made("g", None)
    gated["spec"]["schedulingGates"] = [{"name": "x"}]
    assert found([made("over", ready=False, phase=phase), gated, made("well")], []) == []


def test_controllers_that_lack_pods_are_waited_for_unless_they_lacked_them_before_or_cannot_make_any() -> None:
    assert found([replica_set(2)], []) == ["ReplicaSet default/web has 0 of 2 pods"]
    assert found([replica_set(2)], [replica_set(2)]) == []
    assert found([replica_set(2, fails=True)], []) == []
    assert found([replica_set(0)], []) == []


def test_a_pod_that_the_scheduler_refuses_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = made("p", None)
    way = UnfinishedPods(Fake(waiting), Snapshot())
    assert way.find() == ["pod default/p has no node yet"]
    waiting["status"]["conditions"] = [REFUSED]
    assert way.find() == []
    old = UnfinishedPods(Fake(waiting), Snapshot())  # it was refused when more nodes were closed, maybe
    assert old.find() == ["pod default/p has no node yet"]
    monkeypatch.setattr(unfinished_pods, "_RETRY_SECONDS", 0.0)
    assert old.find() == []


def test_waiting_ends_when_all_has_arrived_or_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfinished_pods, "_POLL_SECONDS", 0.001)
    late = made("p", ready=False)
    cluster = Fake(late)
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        late["status"]["conditions"] = [{"type": "Ready", "status": "True"}]

    asyncio.run(UnfinishedPods(cluster, Snapshot()).arrived(60, tell))
    assert told == ["waiting up to 60 s for: pod default/p is not Ready yet"]
    told.clear()
    asyncio.run(UnfinishedPods(Fake(made("p", ready=False)), Snapshot()).arrived(0, told.append))
    assert told == ["no longer waiting for: pod default/p is not Ready yet"]
    told.clear()
    asyncio.run(UnfinishedPods(Fake(made("p")), Snapshot()).arrived(60, told.append))
    assert told == []


def guarded(allowed: int, desired: int, healthy: int, name: str = "b") -> list[Object]:
    pods = [made(f"p{i}") for i in range(3)]
    status = {"currentHealthy": healthy, "desiredHealthy": desired, "disruptionsAllowed": allowed, "expectedPods": 3}
    spec = {"minAvailable": desired, "selector": {}}
    return [*pods, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"},
                    "spec": spec, "status": status}]  # fmt: skip


def plan(*pods: str) -> RebalancePlan:
    obstacles = [Obstacle("drain", "it stays", each) for each in pods]
    nothing = Summary(emptyNodes=0, pending=0)
    return RebalancePlan(SnapshotRef("", 1, 3, 0), ["drain"], "greedy", "feasible", [], [], [], nothing, nothing, obstacles=obstacles)


def test_budgets_that_are_used_up_keep_pods_that_obstacles_name() -> None:
    used, never, free = (from_objects(guarded(*each)) for each in ((0, 2, 2), (0, 3, 3), (1, 2, 3)))
    assert used_up(used, plan("default/p0"), Snapshot()) == ["default/b"]
    assert used_up(used, plan("default/other"), Snapshot()) == []
    assert used_up(used, plan(), free) == ["default/b"]  # it was open before
    assert used_up(used, plan(), used) == []
    assert used_up(never, plan("default/p0"), Snapshot()) == []
    assert used_up(free, plan("default/p0"), Snapshot()) == []
    twice = from_objects([*guarded(0, 2, 2), guarded(0, 2, 2, "c")[-1]])
    assert used_up(twice, plan("default/p0"), Snapshot()) == []
