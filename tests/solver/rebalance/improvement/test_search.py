"""The search of large clusters for `improve`, on tiny ones: no better than the optimum, its bound never below it, and the same twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance import search as searching
from kubestow.solver.rebalance.improvement import search as improving
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, read_problem
from kubestow.solver.rebalance.result import PlanSearchResult
from kubestow.solver.rebalance.search import search
from kubestow.solver.rebalance.tiers.improvement import BALANCE_PER_POINT, ImprovementTier
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from tests.objects import node
from tests.plans import tiny
from tests.solver.rebalance.goals.test_improve import SOFT, preferring
from tests.solver.rebalance.goals.test_move_builder import accepted
from tests.solver.rebalance.problem.test_problem import running
from tests.tiers import thinned

pytestmark = pytest.mark.full
Object = dict[str, Any]


Engine = Literal["auto", "exact", "greedy", "lns"]


def _run(
    objects: Sequence[Object], engine: Engine, goals: Sequence[str] = ("improve",), drain: Sequence[str] = (),
    limits: Limits | None = None, *, seconds: float = 1.0, seed: int = 0,
) -> tuple[RebalanceProblem, PlanObjective, PlanSearchResult]:  # fmt: skip
    options = Options(engine=engine, time_limit=seconds, workers=1, deterministic=True, seed=seed)
    plan_options = PlanOptions(tuple(goals), tuple(drain), limits or Limits(), options)
    problem = read_problem(from_objects(objects), plan_options)
    values = PlanObjective(problem, goals)
    return problem, values, search(problem, values, plan_options.goals, RunContext.start(options))


def _agrees(objects: Sequence[Object], goals: Sequence[str], drain: Sequence[str], limits: Limits) -> tuple[bool, bool]:
    """Compare with the exact engine; (whether that proved anything, whether the search reached as much)."""
    problem, values, known = _run(objects, "exact", goals, drain, limits, seconds=20.0)
    _, _, found = _run(objects, "lns", goals, drain, limits)
    if all(cls.gang is None for cls in problem.cluster.classes):
        assert accepted(problem, found.steps)
    if not known.proved:
        return False, False
    assert found.values <= known.values
    tier = next(t for t, of in enumerate(values.tiers) if isinstance(of, ImprovementTier))
    if found.values[:tier] == known.values[:tier]:
        assert found.bounds[tier] >= known.values[tier]
    return True, found.values[: tier + 1] == known.values[: tier + 1]


@pytest.mark.parametrize("kind", thinned(SOFT, 3))
def test_no_better_than_the_optimum_and_no_bound_below_it(kind: str) -> None:
    reached = proved = 0
    for seed in range(2):
        for least, max_moves in ((0, None), (1, None), (3, 2)):
            known, same = _agrees(preferring(seed, kind), ["improve"], (), Limits(minGain=least, maxMoves=max_moves))
            proved, reached = proved + known, reached + same
    assert 2 * reached >= proved > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*SOFT, *tiny.KINDS])
def test_the_same_at_length(kind: str) -> None:
    reached = proved = 0
    for seed in range(30):
        goals, drain, limits = ((), (), Limits()) if kind in SOFT else tiny.plan_options(seed, kind)
        limits.minGain = seed % 3
        known, same = _agrees(preferring(seed, kind) if kind in SOFT else tiny.cluster(seed, kind), (*goals, "improve"), drain, limits)
        proved, reached = proved + known, reached + same
    assert 2 * reached >= proved > 0


def _swap() -> list[Object]:
    """Two pods that would each gain much on the other's node, which is too small for both; a third node holds one pod."""
    nodes = [*(node(f"n{i}", cpu="1", labels={"at": f"n{i}"}) for i in range(2)), node("spare", cpu="1")]
    pods = []
    for i in range(2):
        there = {"matchExpressions": [{"key": "at", "operator": "In", "values": [f"n{1 - i}"]}]}
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "preference": there}]}}
        pods.append(running(f"p{i}", f"n{i}", cpu="1", memory="1Ki", affinity=affinity))
    return [*nodes, *pods]


def test_pods_change_places_where_no_single_move_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Construction finds nothing: the first move of three loses."""
    monkeypatch.setattr(searching, "MAX_EXACT_CELLS", 0)
    problem, values, found = _run(_swap(), "auto", seconds=2.0)
    assert _run(_swap(), "greedy")[2].steps == []
    assert accepted(problem, found.steps)
    assert (found.engine, len(found.steps), found.values[-1]) == ("lns", 3, -3)
    assert found.values[0] // BALANCE_PER_POINT > values.of(problem.start)[0] // BALANCE_PER_POINT + 90


def test_limits_hold() -> None:
    for max_moves, moves in ((2, 0), (3, 3)):  # two moves of the three are worth nothing
        assert len(_run(_swap(), "lns", limits=Limits(maxMoves=max_moves), seconds=2.0)[2].steps) == moves


def test_two_runs_of_a_seed_are_the_same() -> None:
    first, second = (_run(preferring(3, "mixed"), "lns", seed=5)[2] for _ in range(2))
    assert (first.steps, first.values, first.bounds) == (second.steps, second.values, second.bounds)


def test_what_has_no_order_of_steps_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the spare node the two can never change places."""
    full = [*_swap()[:2], *_swap()[3:]]
    monkeypatch.setattr(improving, "PARAMETERS", improving.ImprovementParameters(max_idle_turns=15))
    found = _run(full, "lns", seconds=2.0)[2]
    assert found.steps == []
    assert any("no order of steps" in note for note in found.notes)
