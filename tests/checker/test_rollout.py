from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest

from kubestow.checker.rollout import verify_rollout
from kubestow.models.documents.placement import Placement, Remedy, RolloutPod, Unplaced
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.runtime.options import Options
from tests.objects import Object, node
from tests.solver.rollout.rollouts import ZONE, apart, deployment, even, old, replica_set, rolling

Change = Callable[[Placement], None]


def objects(nodes: int = 4, strategy: Object | None = None) -> list[Object]:
    pods = [old(i, f"n{i}", affinity=apart()) for i in range(3)]
    return [
        *(node(f"n{i}") for i in range(nodes)),
        deployment(3, strategy=strategy or rolling(1, 0), affinity=apart()),
        replica_set(),
        *pods,
    ]


@cache
def solved(nodes: int = 4, recreate: bool = False) -> tuple[Snapshot, Placement]:
    snapshot = from_objects(objects(nodes, {"type": "Recreate"} if recreate else None))
    return snapshot, roll_out(snapshot, "web", None, Options(time_limit=20.0, workers=1))


def judged(change: Change, nodes: int = 4, *, recreate: bool = False) -> list[str]:
    """Return the checker's faults of a good rollout that was tampered with."""
    snapshot, placement = solved(nodes, recreate)
    placement = copy.deepcopy(placement)
    change(placement)
    return [f"{v.rule}: {v.why}" for v in verify_rollout(snapshot, placement)]


def moved(placement: Placement, wave: int, where: str) -> None:
    assert placement.rollout is not None
    entry = placement.rollout.waves[wave].create[0]
    next(a for a in placement.assignments if a.pod == entry.pod).node = where
    entry.node = where


def waves(placement: Placement) -> list[int]:
    assert placement.rollout is not None
    return [len(w.create) for w in placement.rollout.waves]


@pytest.mark.parametrize(("nodes", "recreate"), [(4, False), (3, False), (3, True)])
def test_what_the_solver_says_is_accepted(nodes: int, recreate: bool) -> None:
    assert judged(lambda placement: None, nodes, recreate=recreate) == []


def test_the_rollout_that_is_tampered_with() -> None:
    assert waves(solved()[1]) == [1, 1, 1]
    assert waves(solved(3, True)[1]) == [0, 3]
    assert waves(solved(3)[1]) == [0]


def _delete_early(placement: Placement) -> None:
    assert placement.rollout is not None
    first, second = placement.rollout.waves[:2]
    first.delete += second.delete
    second.delete = []


def _delete_new(placement: Placement) -> None:
    assert placement.rollout is not None
    placement.rollout.waves[2].delete.append(placement.rollout.waves[0].create[0].pod)


def _delete_stranger(placement: Placement) -> None:
    assert placement.rollout is not None
    placement.rollout.waves[0].delete.append("default/nobody")


def _create_early(placement: Placement) -> None:
    assert placement.rollout is not None
    first, second = placement.rollout.waves[:2]
    first.create += second.create
    second.create = []


def _wait_too_many(placement: Placement) -> None:
    assert placement.rollout is not None
    placement.rollout.waves[0].waiting = [placement.rollout.waves[1].create[0].pod]


def _twice(placement: Placement) -> None:
    assert placement.rollout is not None
    entry = placement.rollout.waves[0].create[0]
    placement.rollout.waves[2].create.append(RolloutPod(entry.pod, entry.node, 4))


def _unknown_pod(placement: Placement) -> None:
    assert placement.rollout is not None
    placement.rollout.waves[0].create[0].pod = placement.assignments[0].pod = "default/other"


def _forgotten(placement: Placement) -> None:
    assert placement.rollout is not None
    placement.rollout.waves.pop()
    placement.assignments.pop()


def _same_order(placement: Placement) -> None:
    assert placement.rollout is not None
    placement.rollout.waves[1].create[0].order = placement.assignments[1].order = 1


def _renumbered(placement: Placement) -> None:
    assert placement.rollout is not None
    placement.rollout.waves[1].wave = 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: moved(p, 0, "n0"), "InterPodAffinity: "),
        (lambda p: moved(p, 1, "nowhere"), "the snapshot has no such node"),
        (_delete_early, "2 pods are available after wave 1, at least 3 have to be"),
        (_delete_new, "no pod of an old revision that is there"),
        (_delete_stranger, "no pod of an old revision that is there"),
        (_create_early, "5 pods in wave 1, at most 4 are admitted"),
        (_wait_too_many, "5 pods in wave 1, at most 4 are admitted"),
        (_twice, "the pod has a node already"),
        (_unknown_pod, "no pod of the new revision"),
        (_forgotten, "rollout.complete is true, 1 old pods are left, 2 new ones run"),
        (_same_order, "the order numbers of the waves do not increase"),
        (lambda p: p.assignments.reverse(), "the assignments are not the pods of the waves"),
        (lambda p: p.unplaced.append(Unplaced("default/x", [])), "the pods that are listed as unplaced"),
        (lambda p: setattr(p.objective[0], "value", 2), "the tier of placed pods"),
        (lambda p: setattr(p.objective[0], "bound", 9), "the tier of placed pods"),
        (lambda p: setattr(p, "status", "feasible"), "the status feasible contradicts the rollout"),
        (lambda p: setattr(p.rollout, "maxSurge", 2), "rollout.maxSurge is 2, it should be 1"),
        (lambda p: setattr(p.rollout, "workload", "Deployment default/db"), "rollout.workload is Deployment default/db"),
        (lambda p: setattr(p.rollout, "strategy", "Recreate"), "rollout.strategy is Recreate"),
        (lambda p: setattr(p.rollout, "complete", False), "rollout.complete is false"),
        (lambda p: p.rollout and p.rollout.waysOut.append(Remedy("strategy", "x")), "a complete rollout has pods that are stuck"),
        (_renumbered, "wave 2 is numbered 7"),
        (lambda p: setattr(p.snapshot, "sha256", "0" * 64), "the document is of snapshot 000"),
        (lambda p: setattr(p.snapshot, "rollout", "db"), "no such Deployment"),
        (lambda p: setattr(p.snapshot, "rollout", None), "does not name it"),
        (lambda p: setattr(p, "rollout", None), "the document has no rollout"),
    ],
)  # fmt: skip
def test_faults_of_a_rollout_that_goes_through(change: Change, message: str) -> None:
    assert any(message in fault for fault in judged(change))


def _halt_after_one(placement: Placement) -> None:
    """Stop with a pod waiting that would have room."""
    found = placement.rollout
    assert found is not None
    found.waves[1].waiting = [found.waves[1].create[0].pod]
    found.waves[1].create, found.waves[1].delete = [], []
    del found.waves[2:], placement.assignments[1:]
    found.stuck = [Unplaced(found.waves[1].waiting[0], [])]
    found.complete = False
    placement.objective[0].value, placement.status = 1, "feasible"
    last = solved()[1].assignments[2].pod
    placement.unplaced = [*found.stuck, Unplaced(last, [])]


def test_a_halt_that_is_none() -> None:
    faults = judged(_halt_after_one)
    assert faults == ["Placement: the rollout is said to halt, and the waiting pod fits here"]


def _halt_before_deleting(placement: Placement) -> None:
    _halt_after_one(placement)
    found = placement.rollout
    assert found is not None
    found.waves[0].delete, found.waves[1].waiting, found.stuck = [], [], []
    found.waves.pop()


def test_a_halt_at_which_the_controller_could_go_on() -> None:
    assert "Placement: the rollout is said to halt, and another old pod could go" in judged(_halt_before_deleting)
    assert "Placement: the rollout is said to halt, and another new pod could be created" in judged(_no_wave, 3)


def _no_wave(placement: Placement) -> None:
    assert placement.rollout is not None
    placement.rollout.waves, placement.rollout.stuck = [], []


def test_a_pod_that_waits_does_not_vanish() -> None:
    def vanished(placement: Placement) -> None:
        assert placement.rollout is not None
        placement.rollout.waves.append(copy.deepcopy(placement.rollout.waves[0]))
        placement.rollout.waves[1].wave, placement.rollout.waves[1].waiting = 2, []

    faults = judged(vanished, 3)
    assert "Placement: a waiting pod is missing in wave 2" in faults
    assert "Placement: the pods that are stuck are not those that wait in the end" in faults


def test_recreate_waits_until_all_old_pods_are_gone() -> None:
    def early(placement: Placement) -> None:
        assert placement.rollout is not None
        placement.rollout.waves[0].create, placement.rollout.waves[1].create = (
            placement.rollout.waves[1].create[:1],
            placement.rollout.waves[1].create[1:],
        )

    faults = judged(early, 3, recreate=True)
    assert "Placement: wave 1 creates new pods while old ones are there" in faults


def test_a_manifest_has_to_be_the_same() -> None:
    snapshot = from_objects(objects())
    manifest = from_objects([deployment(3, strategy=rolling(2, 0), affinity=apart())])
    placement = roll_out(snapshot, "web", manifest, Options(time_limit=20.0, workers=1))
    assert verify_rollout(snapshot, placement, manifest) == []
    assert "rollout.maxSurge is 2, it should be 1" in [v.why for v in verify_rollout(snapshot, placement)]


def two_zones() -> list[Object]:
    """Three replicas in two zones, whose hard spread counts both revisions."""
    nodes = [node(f"{zone}{i}", labels={ZONE: zone}) for zone in "ab" for i in (1, 2)]
    pods = [old(i, name) for i, name in enumerate(("a1", "a2", "b1"))]
    return [*nodes, deployment(3, spread=[even(skew=2)]), replica_set(), *pods]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"skew": 2}, "the skew of the end is 3, not 2"),
        ({"counts": {"a": 2, "b": 1}}, "the matching pods of the end are"),
        ({"bound": 2}, "the skew 3 is above its bound 2"),
        ({"maxSkew": 1}, "is not the constraint that is described"),
        ({"waves": []}, "a worst end without waves, or of a rollout that has none"),
    ],
)
def test_a_worst_end_is_replayed_and_counted(change: dict[str, Any], why: str) -> None:
    snapshot = from_objects(two_zones())
    placement = roll_out(snapshot, "web", None, Options(time_limit=20.0, workers=1))
    assert placement.rollout is not None
    (end,) = placement.rollout.worstEnds
    assert verify_rollout(snapshot, placement) == []
    placement.rollout.worstEnds = [msgspec.structs.replace(end, **change)]
    assert any(why in violation.why for violation in verify_rollout(snapshot, placement))


def test_the_pods_of_a_worst_end_go_in_the_order_of_their_controller() -> None:
    objects = two_zones()
    objects[-1] = old(2, "b1", ready=False)  # goes first
    snapshot = from_objects(objects)
    placement = roll_out(snapshot, "web", None, Options(time_limit=20.0, workers=1))
    assert placement.rollout is not None
    assert verify_rollout(snapshot, placement) == []
    (end,) = placement.rollout.worstEnds
    first = next(wave for wave in end.waves if wave.delete)
    others = [wave for wave in end.waves if wave is not first and wave.delete]
    assert first.delete[0].endswith("-2")
    first.delete[0], others[0].delete[0] = others[0].delete[0], first.delete[0]
    assert any("its controller ranks first" in violation.why for violation in verify_rollout(snapshot, placement))
