"""An end state of a plan: where every pod is after all steps, and what it takes to get there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState


@dataclass
class EndState:
    """``counts``: int64[G, N], running pods; ``moves``, ``cost``: moves of running pods, and what they cost all together; ``known``: a
    state with these counts, if there is one at hand."""

    problem: RebalanceProblem
    counts: Ints
    moves: int
    cost: int
    known: PlanState | None = None

    @classmethod
    def of(cls, problem: RebalanceProblem, counts: Ints, known: PlanState | None = None) -> EndState:
        """Return the end state with the fewest moves that its counts ask for."""
        arrived = np.maximum(counts - problem.start, 0)
        arrived[problem.pending] = 0
        return cls(problem, counts, int(arrived.sum()), int(arrived.sum(axis=1) @ problem.cost), known)

    @cached_property
    def state(self) -> PlanState:
        """The state of every rule."""
        return self.known or state_of(self.problem, self.counts)


def steps_to(problem: RebalanceProblem, counts: Ints) -> list[Step]:
    """Return steps to an end state int64[G, N], as few as its counts ask for, in no order in which they would be accepted."""
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
    """Return the state with these counts, int64[G, N]."""
    state = PlanState(problem)
    for step in steps_to(problem, counts):
        state.apply(step)
    return state
