"""Annealing and neighbourhoods of :mod:`kubestow.solver.search` over end states of a plan: what they gain is what the tier ``improve``
gains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ortools.sat.python import cp_model

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.rebalance.improvement.worth import BEYOND, Worth
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.tiers.improvement import POINT
from kubestow.solver.rebalance.tiers.measures import Measures
from kubestow.solver.search.lns import Lns
from kubestow.solver.search.local_search import LocalSearch


class MovingSearch(LocalSearch):
    """``state``: of the pods now, which is consumed. ``limits``: int64[G, N], the most pods that may come to be on each node."""

    together = False  # on their way, too, somebody would have to provide for those that stand on them

    def __init__(self, measures: Measures, state: PlanState, limits: Ints, *, seed: int) -> None:
        self.problem: RebalanceProblem = measures.problem
        self.worth = Worth(self.problem, measures.preferences, measures.spread, state.counts)
        super().__init__(measures.preferences, state.rules, limits, state.counts, seed=seed, soft=self.worth)

    def _movable(self, g: int) -> bool:
        return self.loose(g) and int(np.count_nonzero((self.limits[g] > 0) | (self.counts[g] > 0))) > 1

    def loose(self, g: int) -> bool:
        """Pods that hold more or less than they ask for stay, too: what they leave behind is not what another one would take."""
        problem = self.problem
        return bool(problem.movable[g] or problem.pending[g]) and not problem.extra[g].any() and super().loose(g)

    def scale(self) -> int:
        return POINT * super().scale()

    def _points(self, classes: Sequence[int]) -> int:
        worth, problem = self.worth, self.problem
        came = np.maximum(self.counts - problem.start, 0)[list(classes)][problem.movable[list(classes)]]
        beyond = sum(int(np.maximum(made - most, 0).sum()) for _, most, made in worth.limits)
        balance = int(worth.balance.spread.cost(worth.balance.used).sum())
        return POINT * super()._points(classes) - worth.charge * int(came.sum()) - BEYOND * beyond - balance


class MovingLns(Lns):
    """Neighbourhoods in which balance counts as it changes with the first pod more on a node; what is kept of them is exact."""

    def __init__(self, search: MovingSearch, cpsat: CpSat) -> None:
        super().__init__(search, cpsat)
        self.worth, self.problem = search.worth, search.problem

    def points(self, encoding: PlacementModel) -> Points:
        found, model, worth = Points(), encoding.model, self.worth
        found.extend(super().points(encoding), POINT)
        added = {g: worth.balance.added(g) for g in sorted({g for g, _ in encoding.x})}
        moved: list[tuple[int, cp_model.IntVar]] = []
        for (g, n), variable in encoding.x.items():
            most = encoding.upper(g, n)
            found.add(variable, -int(added[g][n]), 0, most)
            home = max(0, int(self.problem.start[g, n] - self.search.counts[g, n]))
            if not self.problem.movable[g] or most <= home:
                continue
            arriving = variable
            if home:
                arriving = model.new_int_var(0, most - home, "")
                model.add(arriving >= variable - home)
            found.add(arriving, -worth.charge, 0, most - home)
            moved.append((g, arriving))
        for numbers, limit, made in worth.limits:
            for i in np.unique(numbers[[g for g, _ in moved]]).tolist():
                model.add(encoding.sum([v for g, v in moved if numbers[g] == i]) <= max(0, int(limit[i] - made[i])))
        return found
