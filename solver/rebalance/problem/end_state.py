"""The end state of a plan: where every pod runs after all steps, and the moves that lead there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState


@dataclass
class EndState:
    """The placement after a plan's last step.

    Attributes:
        counts: Running pods per class and node, int64[G, N].
        moves: Number of moves of running pods.
        cost: Total cost of these moves.
        known: A plan state with these counts, if one exists already.
    """

    problem: RebalanceProblem
    counts: Ints
    moves: int
    cost: int
    known: PlanState | None = None

    @classmethod
    def of(cls, problem: RebalanceProblem, counts: Ints, known: PlanState | None = None) -> EndState:
        """Return the end state with the given counts and the fewest moves that reach them."""
        arrived = np.maximum(counts - problem.start, 0)
        arrived[problem.pending] = 0
        return cls(problem, counts, int(arrived.sum()), int(arrived.sum(axis=1) @ problem.cost), known)

    @cached_property
    def state(self) -> PlanState:
        """The plan state with these counts."""
        return self.known or state_of(self.problem, self.counts)


def steps_to(problem: RebalanceProblem, counts: Ints) -> list[Step]:
    """Return the fewest steps that lead to the counts int64[G, N]. Their order need not be an accepted one."""
    found = []
    for g in np.flatnonzero((counts != problem.start).any(axis=1)).tolist():
        change = counts[g] - problem.start[g]
        away = [n for n in np.flatnonzero(change < 0).tolist() for _ in range(-int(change[n]))]
        to = [n for n in np.flatnonzero(change > 0).tolist() for _ in range(int(change[n]))]
        size = max(len(away), len(to))
        pairs = zip([*away, *[-1] * (size - len(away))], [*to, *[-1] * (size - len(to))], strict=True)
        found += [Step(g, a, b) for a, b in pairs]
    return found


def state_of(problem: RebalanceProblem, counts: Ints) -> PlanState:
    """Return the plan state with the given counts, int64[G, N]."""
    state = PlanState(problem)
    for step in steps_to(problem, counts):
        state.apply(step)
    return state
