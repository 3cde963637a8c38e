"""The gain of a move equals the difference of the tier's values, and moves beyond a limit gain nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.solver.rebalance.improvement.improvement_state import LIMIT_PENALTY, ImprovementState
from kubestow.solver.rebalance.problem.end_state import EndState
from kubestow.solver.rebalance.tiers.improvement import ImprovementTier
from kubestow.solver.rebalance.tiers.measures import Measures
from tests.objects import node
from tests.solver.rebalance.goals.test_improve import SOFT, preferring
from tests.solver.rebalance.problem.test_problem import budget, case_of, running


@pytest.mark.parametrize("kind", SOFT)
def test_gains_are_differences_of_the_tier(kind: str) -> None:
    checked = 0
    for seed in range(12):
        rng = random.Random(seed)
        problem = case_of(preferring(seed, kind), ["improve"], limits=Limits(minGain=rng.choice((0, 1, 7))))
        measures = Measures(problem)
        counts = problem.start.copy()
        found = ImprovementState(problem, measures.preferences, measures.spread, counts)
        for _ in range(15):
            g, n = rng.choice(np.argwhere(counts).tolist())
            away = found.away(g, n)
            before = ImprovementTier().value(measures, EndState.of(problem, counts))
            found.place(g, n, -1)
            gain = found.gain(g)
            for b in range(problem.cluster.n_nodes):
                after = counts.copy()
                after[g, n] -= 1
                after[g, b] += 1
                change = ImprovementTier().value(measures, EndState.of(problem, after)) - before
                assert away[b] - away[n] == gain[b] - gain[n] == change, (seed, g, n, b)
                checked += change != 0
            target = rng.randrange(problem.cluster.n_nodes)
            found.place(g, target, 1)
            counts[g, n] -= 1
            counts[g, target] += 1
    assert checked > 100


@pytest.mark.parametrize("limits", [Limits(maxMoves=1), Limits(maxMovesPerNamespace=1), Limits(maxMovesPerWorkload=1), Limits(maxWaves=1)])
def test_a_move_too_many_costs_more_than_anything_gains(limits: Limits) -> None:
    objects = [
        node("n0"),
        node("n1"),
        node("n2"),
        *(running(f"p{i}", "n0", labels={"app": "web"}, owner="ReplicaSet/web") for i in range(3)),
    ]
    problem = case_of([*objects, budget("web", "web", minAvailable=2)], ["improve"], limits=limits)
    measures = Measures(problem)
    found = ImprovementState(problem, measures.preferences, measures.spread, problem.start)
    assert found.away(0, 0).min() > -LIMIT_PENALTY // 2
    found.place(0, 0, -1)
    found.place(0, 1, 1)
    away = found.away(0, 0)
    assert away[0] > -LIMIT_PENALTY // 2
    assert (away[1:] < -LIMIT_PENALTY // 2).all()
    assert found.away(0, 1).min() > -LIMIT_PENALTY // 2  # who moved already may go elsewhere, or back
