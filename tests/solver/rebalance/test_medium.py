"""Plans of medium random clusters: each is accepted by the independent checker, is no worse than no plan, and can be shown to people."""

from __future__ import annotations

import json
import random

import pytest

from kubestow.models.documents.rebalance_plan import RebalancePlan, to_builtins
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.report.terminal.canvas import Surface, render
from kubestow.report.terminal.rebalance_plan import plan_table
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import read_problem
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.runtime.options import Engine, Options
from tests.plans.medium import Medium

pytestmark = pytest.mark.full

_ENGINES: tuple[Engine, ...] = ("auto", "greedy", "lns", "exact")


def _planned(seed: int, medium: Medium, *, deterministic: bool = False) -> tuple[Snapshot, PlanOptions, RebalancePlan]:
    goals, drain, limits = medium.plan_options()
    engine = random.Random(seed).choice(_ENGINES)
    plan_options = PlanOptions(
        goals, drain, limits, Options(engine=engine, time_limit=0.5, workers=1, seed=seed, deterministic=deterministic)
    )
    snapshot = from_objects(medium.objects)
    return snapshot, plan_options, rebalance(snapshot, plan_options)  # raises InternalFault where the checker finds a fault


def _check(snapshot: Snapshot, asked: PlanOptions, plan: RebalancePlan) -> None:
    problem = read_problem(snapshot, asked)
    reached = tuple(tier.value for tier in plan.objective)
    assert reached >= PlanObjective(problem, asked.goals).of(problem.start)
    assert all(tier.value <= tier.bound for tier in plan.objective)
    limits = asked.limits
    named = [move for move in plan.moves if move.source is not None]
    assert limits.maxMoves is None or len(named) <= limits.maxMoves
    assert limits.maxEvictions is None or len(plan.evictions) <= limits.maxEvictions
    for goal, tier in (("repair", "rules"), ("drain", "drained")):
        has_obstacle = any(obstacle.goal == goal for obstacle in plan.obstacles)
        assert has_obstacle == any(entry.tier == tier and entry.value < 0 for entry in plan.objective)
    text = render(list(plan_table(plan, snapshot, Surface())), Surface()).decode()
    moved = sum(move.source is not None for move in plan.moves)
    assert f"{moved:,} move" in text or not plan.moves


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_of_a_medium_cluster_holds(seed: int) -> None:
    medium = Medium(seed, nodes=(6, 10), pods=(30, 50))
    _check(*_planned(seed, medium))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 220))
def test_plans_of_many_medium_clusters_hold(seed: int) -> None:
    _check(*_planned(seed, Medium(seed)))


@pytest.mark.parametrize("seed", range(40, 42))
def test_a_deterministic_plan_has_the_same_bytes_twice(seed: int) -> None:
    first, second = (
        json.dumps(to_builtins(_planned(seed, Medium(seed, nodes=(6, 8), pods=(30, 40)), deterministic=True)[2])) for _ in range(2)
    )
    assert first == second
