"""How many waves steps take at least, whatever their order: no wave evicts more pods of a PodDisruptionBudget than that allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step


class LeastWaves(NamedTuple):
    """``waves``: at least; ``budget``: the one that asks for most, an index into ``problem.budgets``; ``pods``: its evictions."""

    waves: int
    budget: int
    pods: int


def least_waves(problem: RebalanceProblem, steps: Iterable[Step]) -> LeastWaves | None:
    """Return what the budgets ask for; None where no step needs one."""
    asked: Counter[int] = Counter()
    for step in steps:
        budget = problem.budget[step.g]
        if budget is not None and step.a >= 0:
            asked[budget] += step.k
    found = [LeastWaves(-(-pods // max(1, problem.budgets[b].allowed)), b, pods) for b, pods in sorted(asked.items())]
    return max(found, key=lambda least: least.waves, default=None)
