"""A lower bound on the number of waves that holds for any order of steps.

No wave evicts more pods of a PodDisruptionBudget than the budget allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step


class LeastWaves(NamedTuple):
    """A lower bound on the number of waves.

    Attributes:
        waves: The lower bound.
        budget: The budget that requires it, an index into ``problem.budgets``.
        pods: Evictions under this budget.
    """

    waves: int
    budget: int
    pods: int


def least_waves(problem: RebalanceProblem, steps: Iterable[Step]) -> LeastWaves | None:
    """Return the lower bound that the budgets imply; None if no step needs a budget."""
    evictions: Counter[int] = Counter()
    for step in steps:
        budget = problem.budget[step.g]
        if budget is not None and step.a >= 0:
            evictions[budget] += step.k
    found = [LeastWaves(-(-pods // max(1, problem.budgets[b].allowed)), b, pods) for b, pods in sorted(evictions.items())]
    return max(found, key=lambda least: least.waves, default=None)
