"""The value of the tier ``improve`` while a placement changes pod by pod.

It consists of preference points, balance, and the charge for moves.
"""

from __future__ import annotations

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.tie_break import SpreadStrategy
from kubestow.solver.rebalance.goals.improve import Balance
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.tiers.improvement import BALANCE_PER_POINT

#: Penalty of a move beyond the limits of the plan; exceeds the gain of any pod.
LIMIT_PENALTY = 10**14


class ImprovementState(SoftState):
    """Counters of the preferences, with :meth:`gain` and :meth:`away` in units of the tier ``improve``.

    A pod that arrives on a node where it did not run at the start is a move; a pod that returns is none.

    Args:
        counts: The placement at the start of the search, int64[G, N].
    """

    def __init__(self, problem: RebalanceProblem, objective: Objective, spread: SpreadStrategy, counts: Ints) -> None:
        super().__init__(objective)
        self.problem = problem
        self.balance = Balance(spread, counts)
        self.counts = counts.copy()
        self.charge = BALANCE_PER_POINT * problem.limits.minGain
        for g, n in zip(*(index.tolist() for index in np.nonzero(counts)), strict=True):
            super().place(g, n, int(counts[g, n]))
        limits, every = problem.limits, np.zeros(problem.cluster.n_classes, dtype=np.int64)
        #: Per limit of the plan: group of each class int64[G], most moves and moves so far, int64[groups] each.
        self.limits: list[tuple[Ints, Ints, Ints]] = []
        arrived = np.where(problem.movable, np.maximum(counts - problem.start, 0).sum(axis=1), 0)
        for ids, limit in (
            (every, limits.maxMoves), (problem.namespaces, limits.maxMovesPerNamespace), (problem.workloads, limits.maxMovesPerWorkload),
        ):  # fmt: skip
            if limit is not None:
                numbers = np.unique(ids, return_inverse=True)[1].reshape(-1)
                made = np.bincount(numbers, weights=arrived).astype(np.int64)
                self.limits.append((numbers, np.full(len(made), limit, dtype=np.int64), made))
        if problem.eviction_limits:
            gone = np.where(problem.evictable, (problem.start - counts).sum(axis=1), 0)
            numbers = problem.guarded + 1  # 0: no budget
            size = len(problem.budgets) + 1
            made = np.bincount(numbers, weights=arrived + gone, minlength=size).astype(np.int64)
            self.limits.append((numbers, np.array([LIMIT_PENALTY, *problem.eviction_limits.values()], dtype=np.int64), made))

    def place(self, g: int, n: int, k: int = 1) -> None:
        super().place(g, n, k)
        self.balance.put(g, n, k)
        before = self.moved(g, n)
        self.counts[g, n] += k
        if self.limits and (change := self.moved(g, n) - before):
            for numbers, _, made in self.limits:
                made[numbers[g]] += change

    def moved(self, g: int, n: int) -> int:
        """Return the number of pods of class g that moved to node n."""
        return max(0, int(self.counts[g, n] - self.problem.start[g, n])) if self.problem.movable[g] else 0

    def gain(self, g: int) -> Ints:
        """Return the value of one more pod of class g on each node, int64[N]."""
        points = BALANCE_PER_POINT * super().gain(g) - self.balance.added(g)
        if self.problem.movable[g]:
            points -= np.where(self.counts[g] >= self.problem.start[g], self._price(g), 0)
        return points

    def away(self, g: int, home: int) -> Ints:
        """Return the value of a pod of class g on each node once it is taken from its home, int64[N]."""
        added = self.balance.added(g)
        added[home] = self.balance.freed(g, home)
        points = BALANCE_PER_POINT * super().away(g, home) - added
        if self.problem.movable[g]:
            came = self.counts[g] >= self.problem.start[g]
            came[home] = back = bool(self.counts[g, home] > self.problem.start[g, home])
            points -= np.where(came, self._price(g, int(back)), 0)
        return points

    def _price(self, g: int, back: int = 0) -> int:
        """Return the charge for one more move of the class, once ``back`` of the moves so far are taken back."""
        beyond = any(made[numbers[g]] - back >= limit[numbers[g]] for numbers, limit, made in self.limits)
        return self.charge + (LIMIT_PENALTY if beyond else 0)
