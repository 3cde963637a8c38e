"""PodDisruptionBudgets over a sequence of steps.

A pod that was evicted for good stays missing, so the remaining allowance must suffice for later moves.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState


def respect_budgets(problem: RebalanceProblem, steps: Sequence[Step]) -> list[Step] | None:
    """Return the steps in an order in which every eviction and move finds an allowance in its budget, or None.

    If evictions for good use up a budget, its moves come before them.
    """
    if _holds(problem, steps):
        return list(steps)
    tight = {problem.budget[step.g] for step in steps if step.b < 0} - {None}
    late = [step for step in steps if step.b < 0 and problem.budget[step.g] in tight]
    found = [step for step in steps if step not in late] + late
    return found if _holds(problem, found) and _accepted(problem, found) else None


def _holds(problem: RebalanceProblem, steps: Sequence[Step]) -> bool:
    gone: dict[int, int] = {}
    for step in steps:
        budget = problem.budget[step.g]
        if budget is None or step.a < 0:
            continue
        allowed = problem.budgets[budget].allowed - gone.get(budget, 0)
        if allowed < (step.k if step.b < 0 else 1):
            return False
        if step.b < 0:
            gone[budget] = gone.get(budget, 0) + step.k
    return True


def _accepted(problem: RebalanceProblem, steps: Sequence[Step]) -> bool:
    """Return True if a changed order is still accepted, pod by pod. Gangs that bind as a unit are not checked."""
    state = PlanState(problem)
    for step in steps:
        for _ in range(step.k):
            if not state.accepts(step):
                return False
            state.apply(Step(step.g, step.a, step.b))
    return True
