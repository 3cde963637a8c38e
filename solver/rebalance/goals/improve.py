"""The goal improve: move pods to where preferences and even utilisation gain most.

Each move must gain at least the plan's ``minGain``. One preference point is worth :data:`BALANCE_PER_POINT` units of the
strategy spread. The gain of a move is exact: the pod is taken out, and its value is computed on every node.
"""

from __future__ import annotations

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.cluster.partition import equivalence
from kubestow.solver import rules
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.tie_break import SpreadStrategy
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.tiers.improvement import BALANCE_PER_POINT

#: Smallest gain of a move in the first sweep, as a multiple of the plan's least gain.
FIRST_GAIN_RATIO = 16
#: Divisor of the smallest gain from one sweep to the next.
GAIN_STEP_RATIO = 4
#: Sweeps end when fewer than 1 in this many pods moved in the last one.
PODS_PER_MOVE_AT_END = 200


class Balance:
    """The change of the strategy spread per added or removed pod. Its counters follow a placement int64[G, N]."""

    def __init__(self, spread: SpreadStrategy, counts: Ints) -> None:
        self.spread = spread
        self.used = spread.used + counts.T @ spread.demand
        same = equivalence(spread.demand)
        self._kind, kinds = same.of, spread.demand[same.firsts]
        self._asked = kinds[:, None, :]  # [K, 1, 2]: demands of the distinct kinds of classes
        self._added = (
            np.stack([self._costs(self.used, demand) for demand in kinds]) if len(kinds) else np.zeros((0, spread.cluster.n_nodes))
        )

    def _costs(self, used: Ints, demand: Ints) -> Ints:
        """Return the cost that pods with ``demand`` add on nodes that use ``used``."""
        return self.spread.cost(used + demand) - self.spread.cost(used)

    def put(self, g: int, n: int, k: int) -> None:
        """Add k pods of class g to node n."""
        self.used[n] += k * self.spread.demand[g]
        used = np.maximum(self.used[n], 0)
        self._added[:, n] = self.spread.cost_on(n, used + self._asked[:, 0, :]) - self.spread.cost_on(n, used[None, :])

    def added(self, g: int) -> Ints:
        """Return the cost of one more pod of class g on each node, int64[N]."""
        return np.array(self._added[self._kind[g]], dtype=np.int64)

    def freed(self, g: int, n: int) -> int:
        """Return the cost saved by removing one pod of class g from node n."""
        used = self.used[n]
        both = np.maximum(np.stack([used, used - self.spread.demand[g]]), 0)
        now, without = self.spread.cost_on(n, both).tolist()
        return int(now - without)


class Gains:
    """Preferences and balance of a placement. The counters follow the builder's steps."""

    def __init__(self, problem: RebalanceProblem, counts: Ints) -> None:
        self.problem = problem
        self.objective = Objective(problem.cluster, rules.build(problem.cluster))
        self.soft = None if self.objective.empty else SoftState(self.objective)
        self.balance = Balance(SpreadStrategy(problem.cluster), counts)
        if self.soft is not None:
            for g, n in zip(*(index.tolist() for index in np.nonzero(counts)), strict=True):
                self.soft.place(g, n, int(counts[g, n]))

    def put(self, g: int, n: int, k: int) -> None:
        """Add k pods of class g to node n."""
        if self.soft is not None:
            self.soft.place(g, n, k)
        self.balance.put(g, n, k)

    def moving(self, g: int, n: int) -> Ints:
        """Return the value of one pod of class g from node n on each node, n included, with itself taken out; int64[N]."""
        points: Ints = -self.balance.added(g)
        points[n] = -self.balance.freed(g, n)
        if self.soft is not None:
            points = points + BALANCE_PER_POINT * self.soft.away(g, n)
        return points


def improve(builder: MoveBuilder) -> None:
    """Sweep over the movable pods with a decreasing smallest gain, down to ``minGain``, until few pods move."""
    problem = builder.problem
    least = max(1, BALANCE_PER_POINT * problem.limits.minGain)
    gains = Gains(problem, builder.state.counts)
    wanted, seen = FIRST_GAIN_RATIO * least, dict[tuple[int, int], int]()
    few = int(problem.start[problem.movable].sum()) // PODS_PER_MOVE_AT_END
    while not builder.over():
        moved = _sweep(builder, gains, wanted, seen, every=not seen or wanted == least)
        if wanted == least and moved <= few:
            return
        wanted = max(least, wanted // GAIN_STEP_RATIO)


def _sweep(builder: MoveBuilder, gains: Gains, wanted: int, seen: dict[tuple[int, int], int], *, every: bool) -> int:
    """Make one pass in which pods go to their best node if they gain at least ``wanted``.

    Args:
        seen: Best gain when last examined, by (class, node).
        every: Examine every pod; otherwise only pods whose gain in ``seen`` is at least ``wanted``.

    Returns:
        The number of pods that moved.
    """
    problem, state = builder.problem, builder.state
    moved = 0
    for g in np.flatnonzero(problem.movable).tolist():
        for n in np.flatnonzero(state.counts[g]).tolist():
            if not every and seen.get((g, n), wanted) < wanted:
                continue
            while state.counts[g, n] and builder.within(g):
                if builder.over():
                    return moved
                utility = gains.moving(g, n)
                gain = utility - utility[n]
                target, best = -1, int(gain.max(initial=0))
                if best >= wanted:
                    mask = builder.places(g, n) & (gain > 0)
                    if mask.any():
                        target = int(np.argmax(np.where(mask, gain, 0)))
                        best = int(gain[target])
                seen[g, n] = best if target >= 0 or best < wanted else 0
                if target < 0 or best < wanted:
                    break
                gains.put(g, n, -1)
                gains.put(g, target, 1)
                builder.take(Step(g, n, target))
                moved += 1
    return moved
