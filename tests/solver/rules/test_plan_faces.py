"""The plan face of a rule: every rule has one, and the defaults plan safely for a rule without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.rules.gang_scheduling.rule import GangScheduling
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread
from kubestow.solver.runtime.options import Options
from tests.objects import node
from tests.plans import tiny
from tests.solver.rebalance.problem.test_problem import apart, running
from tests.tiers import sampled

Object = dict[str, Any]


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the plan faces of all rules out, except capacity, spread, which may exceed maxSkew as far as at the start, and gangs, which
    are no rule about single pods."""
    kept = (NodeResourcesFit, PodTopologySpread, GangScheduling)
    known = {kind: face for kind, face in rules.PLAN_FACES.items() if kind in kept}
    monkeypatch.setattr(rules, "PLAN_FACES", known)


def test_every_rule_that_depends_on_other_pods_declares_its_plan_face() -> None:
    assert [kind.name for kind in rules.ALL if not kind.static and kind not in rules.PLAN_FACES] == []


def _plan(objects: Sequence[Object], goals: tuple[str, ...], drain: tuple[str, ...] = (), limits: Limits | None = None) -> RebalancePlan:
    """A plan, which the checker accepts: otherwise an error is raised."""
    options = Options(workers=1, deterministic=True, time_limit=2.0)
    return rebalance(from_objects(objects), PlanOptions(goals, drain, limits or Limits(), options))


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("first", sampled(range(0, 32, 4), every=8))
def test_plans_are_valid_without_plan_faces(kind: str, first: int) -> None:
    for seed in range(first, first + 4):
        _plan(tiny.cluster(seed, kind), *tiny.plan_options(seed, kind))


@pytest.mark.parametrize("waves", [1, 2])
def test_pods_of_an_unknown_rule_move_alone(waves: int, request: pytest.FixtureRequest) -> None:
    """With the face of InterPodAffinity, both pods share a wave."""
    if waves == 2:
        request.getfixturevalue("unknown")
    pods = [running(name, "n0", labels={"app": name}, affinity=apart(f"foe-of-{name}", "zone")) for name in ("p", "q")]
    plan = _plan([node(name, labels={"zone": name}) for name in ("n0", "n1")] + pods, (), ("n0",))
    assert (len(plan.moves), plan.waves) == (2, waves)
