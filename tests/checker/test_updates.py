"""The replay of updates finds the faults of a document."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kubestow.checker.rollout import verify_rollout
from kubestow.models.documents.placement import Placement, Reason, RolloutPod, Unplaced, Wave
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.runtime.options import Options
from tests.objects import Object, node
from tests.solver.rollout.updates.test_updates import SURGE, old, rolling, stateful, workload

NODES = [node("n1", cpu="2"), node("n2", cpu="2"), node("n3", cpu="2")]
Change = Callable[[Placement], None]


def made(objects: list[Object]) -> tuple[Snapshot, Placement]:
    snapshot = from_objects(objects)
    return snapshot, roll_out(snapshot, "db", None, Options(deterministic=True))


def sets() -> list[Object]:
    return [*NODES, stateful(cpu="2"), *old("StatefulSet", "n1", "n2", "n3", cpu="2")]


def waits() -> list[Object]:
    return [*NODES, stateful(cpu="9"), *old("StatefulSet", "", cpu="9")]


def daemons() -> list[Object]:
    return [*NODES, workload("DaemonSet", **rolling(maxUnavailable=1)), *old("DaemonSet", "n1", "n2", "n3")]


def surge() -> list[Object]:
    return [*NODES[:2], workload("DaemonSet", cpu="2", **SURGE), *old("DaemonSet", "n1", "n2", cpu="2")]


def _swap(result: Placement) -> None:
    """The lower ordinal goes first."""
    assert result.rollout is not None
    result.rollout.waves[0].delete = ["default/db-1"]


def _two(result: Placement) -> None:
    """Two pods go at once."""
    assert result.rollout is not None
    result.rollout.waves[0].delete += ["default/db-1"]


def _crowded(result: Placement) -> None:
    """A pod is put onto a node that others fill."""
    assert result.rollout is not None
    result.rollout.waves[1].create[0].node = "n1"
    result.assignments[0].node = "n1"


def _old(result: Placement) -> None:
    assert result.rollout is not None
    result.rollout.waves[1].create[0].old = True


def _short(result: Placement) -> None:
    assert result.rollout is not None
    result.rollout.waves.pop()
    result.assignments.pop()


def _partition(result: Placement) -> None:
    assert result.rollout is not None
    result.rollout.partition = 1


def _unsaid(result: Placement) -> None:
    assert result.rollout is not None
    result.rollout.halted = "stuck somewhere"


def _early(result: Placement) -> None:
    """It is said to halt where it goes on."""
    assert result.rollout is not None
    rollout = result.rollout
    rollout.waves, result.assignments, rollout.complete, rollout.halted = [], [], False, "stuck at pod db-2"
    result.status, result.objective[0].value = "feasible", 0
    reason = [Reason("StatefulSet", 0, "never created")]
    result.unplaced = [Unplaced(f"default/db-{i}", reason) for i in range(3)]


def _without(result: Placement) -> None:
    assert result.rollout is not None
    result.rollout.withoutPod = ["n1"]


def _refused(result: Placement) -> None:
    assert result.rollout is not None
    result.rollout.refused = Reason("ResourceQuota", 0, "exceeded")


def _extra(result: Placement) -> None:
    """A pod of its own making."""
    assert result.rollout is not None
    result.rollout.waves.append(Wave(len(result.rollout.waves) + 1, [RolloutPod("default/db-9", "n1", 9)], [], []))


@pytest.mark.parametrize("objects", [sets, waits, daemons, surge])
def test_documents_of_updates_are_valid(objects: Callable[[], list[Object]]) -> None:
    assert verify_rollout(*made(objects())) == []


@pytest.mark.parametrize(
    ("objects", "change", "expected"),
    [
        (sets, _swap, "deletes the pod, and its controller does not"),
        (sets, _two, "deletes the pod, and its controller does not"),
        (sets, _crowded, "cpu"),
        (sets, _old, "of the other revision"),
        (sets, _short, "rollout.complete is true, it should be false"),
        (sets, _partition, "rollout.partition is 1"),
        (sets, _extra, "creates a pod that does not belong to the workload"),
        (sets, _early, "another old pod could go"),
        (waits, _unsaid, "does not say that the update waits for pod db-0"),
        (waits, _refused, "rollout.refused does not say"),
        (daemons, _two, "deletes the pod, and its controller does not"),
        (surge, _without, "the nodes without a pod are none"),
    ],
)
def test_what_is_wrong_is_found(objects: Callable[[], list[Object]], change: Change, expected: str) -> None:
    snapshot, result = made(objects())
    spoiled = msgspec.json.decode(msgspec.json.encode(result), type=Placement)
    change(spoiled)
    assert any(expected in f"{fault.rule} {fault.why}" for fault in verify_rollout(snapshot, spoiled))
