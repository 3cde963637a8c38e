"""Why pods are left: what counts as impossible by itself, and bounds that follow from it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from kubestow.models.documents.placement import Placement
from kubestow.models.snapshot.snapshot import from_objects, load
from kubestow.solver.explain.per_node import explain
from kubestow.solver.explain.unplaced import asked, explain_left
from kubestow.solver.runtime.options import Engine, Options
from kubestow.solver.solve import place
from tests import tiny
from tests.objects import node, pod
from tests.solver.explain.questions import within
from tests.tiers import in_slow, sampled

ENGINES: tuple[Engine, ...] = get_args(Engine)


def solved(objects: list[tiny.Object], engine: Engine, *, from_scratch: bool = False) -> Placement:
    return place(from_objects(objects), Options(engine=engine, time_limit=5, workers=1, from_scratch=from_scratch))


def wants(app: str) -> tiny.Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize("engine", sampled(ENGINES, every=4))
def test_a_pod_that_another_waiting_pod_could_help_is_not_impossible(engine: Engine) -> None:
    """`a` needs `b`, which waits too and fits on the small node only, where both do not fit."""
    objects = [
        node("small", cpu="1"),
        node("large", cpu="4", labels={"kubernetes.io/hostname": "large"}),
        pod("b", cpu="1", labels={"app": "b"}, nodeSelector={"kubernetes.io/hostname": "small"}, priority=1),
        pod("a", cpu="1", affinity=wants("b")),
    ]
    found = solved(objects, engine)
    assert {u.pod for u in found.unplaced} == {"default/a"}
    lowest = next(t for t in found.objective if t.priority == 0)
    assert lowest.value == 0
    assert all(not cause.alone for cause in found.causes)
    assert "none runs" not in " ".join(fact.message for cause in found.causes for fact in cause.facts)


@pytest.mark.full
@pytest.mark.parametrize("seed", [17, in_slow(142), in_slow(160), in_slow(161)])
@pytest.mark.parametrize("kind", ["woven", "ring"])
def test_no_engine_claims_less_than_another_one_places(seed: int, kind: str) -> None:
    objects = tiny.with_gangs(tiny.mutual(seed, kind, pods=6), seed)
    found = {engine: solved(objects, engine) for engine in ENGINES}
    tiers = {engine: [(t.priority, t.value, t.bound) for t in result.objective if t.tier == "placed"] for engine, result in found.items()}
    first = [values[0] for values in tiers.values() if values]
    if first:  # lower tiers are bounded given the value of the higher ones
        assert max(value for _, value, _ in first) <= min(bound for _, _, bound in first)


def test_pods_that_never_preempt_have_a_cause_of_their_own() -> None:
    snapshot = load([str(Path(__file__).resolve().parents[3] / "instances" / "pending" / "preemption-never.yaml")])
    alone = explain_left(snapshot, asked(snapshot, explain(snapshot), whole=False), [], within(20))
    together = place(snapshot, Options(time_limit=5, workers=1)).causes
    for causes in ([cause for _, cause in alone], together):
        assert {cause.pods[0]: [way.message for way in cause.waysOut if way.change == "evict"] for cause in causes} == {
            "default/urgent": ["evict 1 pod of lower priority: default/big on n1; kube-scheduler never does: preemptionPolicy is Never"],
            "default/urgent2": ["evict 1 pod of lower priority: default/big on n1; kube-scheduler preempts such pods by itself"],
        }


def test_a_movable_pod_that_was_left_holds_nothing() -> None:
    """From scratch `m` waits; `q` is left since `m` got the room, not because it runs there."""
    objects = [
        node("n1", cpu="2"),
        pod("m", cpu="2", node_name="n1", owner="ReplicaSet/m", priority=0),
        pod("q", cpu="2", priority=1),
    ]
    found = solved(objects, "exact", from_scratch=True)
    assert [a.pod for a in found.assignments] == ["default/q"]
    assert [(c.pods, c.alone) for c in found.causes] == [(["default/m"], False)]
