"""Annealing and neighbourhoods of :mod:`kubestow.solver.search` over end states of a plan.

Their objective is the value of the tier ``improve``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.ortools import cp_model
from kubestow.solver.rebalance.improvement.improvement_state import LIMIT_PENALTY, ImprovementState
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.tiers.improvement import BALANCE_PER_POINT
from kubestow.solver.rebalance.tiers.measures import Measures
from kubestow.solver.search.lns import Lns
from kubestow.solver.search.local_search import LocalSearch


class MovingSearch(LocalSearch):
    """Local search over end states of a plan.

    Args:
        state: The state to start from; it is consumed.
        eligibility: The most pods that each node may hold at the end, int64[G, N].
    """

    together = False  # while pods move, the pods that they provide affinity for would miss them

    def __init__(self, measures: Measures, state: PlanState, eligibility: Ints, *, seed: int) -> None:
        self.problem: RebalanceProblem = measures.problem
        self.improvement = ImprovementState(self.problem, measures.preferences, measures.spread, state.counts)
        super().__init__(measures.preferences, state.rules, eligibility, state.counts, seed=seed, soft=self.improvement)

    def _movable(self, g: int) -> bool:
        return self.loose(g) and int(np.count_nonzero((self.eligibility[g] > 0) | (self.counts[g] > 0))) > 1

    def loose(self, g: int) -> bool:
        """Return True if the class may be moved. Classes with resized pods may not.

        Such pods leave behind other resources than an equal pod would take.
        """
        problem = self.problem
        return bool(problem.movable[g] or problem.pending[g]) and not problem.extra[g].any() and super().loose(g)

    def scale(self) -> int:
        return BALANCE_PER_POINT * super().scale()

    def _points(self, classes: Sequence[int]) -> int:
        improvement, problem = self.improvement, self.problem
        came = np.maximum(self.counts - problem.start, 0)[list(classes)][problem.movable[list(classes)]]
        beyond = sum(int(np.maximum(made - limit, 0).sum()) for _, limit, made in improvement.limits)
        balance = int(improvement.balance.spread.cost(improvement.balance.used).sum())
        return BALANCE_PER_POINT * super()._points(classes) - improvement.charge * int(came.sum()) - LIMIT_PENALTY * beyond - balance


class MovingLns(Lns):
    """Neighbourhoods with a linearised balance: each node's marginal cost is that of the first additional pod.

    Accepted changes are evaluated exactly.
    """

    def __init__(self, search: MovingSearch, cpsat: CpSat) -> None:
        super().__init__(search, cpsat)
        self.improvement, self.problem = search.improvement, search.problem

    def points(self, encoding: PlacementModel) -> Points:
        points, model, improvement = Points(), encoding.model, self.improvement
        points.extend(super().points(encoding), BALANCE_PER_POINT)
        added = {g: improvement.balance.added(g) for g in sorted({g for g, _ in encoding.x})}
        moved: list[tuple[int, cp_model.IntVar]] = []
        for (g, n), variable in encoding.x.items():
            upper = encoding.upper(g, n)
            points.add(variable, -int(added[g][n]), 0, upper)
            home = max(0, int(self.problem.start[g, n] - self.search.counts[g, n]))
            if not self.problem.movable[g] or upper <= home:
                continue
            arriving = variable
            if home:
                arriving = model.new_int_var(0, upper - home, "")
                model.add(arriving >= variable - home)
            points.add(arriving, -improvement.charge, 0, upper - home)
            moved.append((g, arriving))
        for numbers, limit, made in improvement.limits:
            for i in np.unique(numbers[[g for g, _ in moved]]).tolist():
                model.add(encoding.sum([v for g, v in moved if numbers[g] == i]) <= max(0, int(limit[i] - made[i])))
        return points
