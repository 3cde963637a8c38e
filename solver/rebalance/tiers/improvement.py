"""The tier of improvement: preferences and even utilisation, less the charge for moves."""

from __future__ import annotations

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.objective import encoding
from kubestow.solver.rebalance.problem.end_state import EndState
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.target.rules import TargetRules
from kubestow.solver.rebalance.tiers.measures import Measures
from kubestow.solver.rebalance.tiers.tier import Tier

#: Units of balance per weighted point of preferences.
BALANCE_PER_POINT = 10_000


class ImprovementTier(Tier):
    """Preferences and balance. Every move must gain at least ``minGain`` points."""

    name, goal = "improve", "improve"

    def value(self, measures: Measures, end: EndState) -> int:
        soft = measures.preferences.total(measures.preferences.families(end.counts))
        return BALANCE_PER_POINT * soft - self.per_move(measures.problem) * end.moves + measures.spread.value(end.counts)

    def bound(self, measures: Measures) -> int:
        """Return the upper bound with each preference at its best, demand spread evenly, and no moves."""
        soft = 0
        if not measures.preferences.empty:
            soft = _pairs(measures)
            if measures.components is not None:  # otherwise pods may stay where no rule allows them
                soft = min(soft, measures.components.bound)
        return BALANCE_PER_POINT * soft + measures.most_balance

    def encode(self, measures: Measures, rules: TargetRules) -> Points:
        """Encode preferences, balance and the charge for moves.

        Raises:
            OverflowError: Utilisation exceeds the numbers that CP-SAT can sum.
        """
        problem, model, points = measures.problem, rules.model, Points()
        points.extend(encoding.encode(model, measures.preferences), BALANCE_PER_POINT)
        points.extend(measures.spread.encode(model, model.unmoved, _fullest(measures)))
        points.constant -= self.per_move(problem) * int(model.unmoved_arrived[problem.movable].sum())
        for g, came in model.moved:
            points.add(came, -self.per_move(problem), 0, model.fits[g])
        return points

    def per_move(self, problem: RebalanceProblem) -> int:
        return BALANCE_PER_POINT * problem.limits.minGain


def _fullest(measures: Measures) -> Ints:
    """Return an upper bound on the usage of each node at the end, Python integers [N, 2].

    It is the usage at the start, or that with the pods that can arrive next to waiting resizes.
    """
    problem, spread = measures.problem, measures.spread
    used, width = spread.used.astype(object), spread.used.shape[1]
    room, free = problem.room[:, :width], problem.cluster.free[:, :width]
    return np.asarray(np.maximum(used + problem.start.T @ spread.demand, np.where(room > free, used + room, 0)))


def _pairs(measures: Measures) -> int:
    """Return an upper bound on the weighted preference points: every pod on its best node, near all pods that it prefers."""
    cluster, preferences = measures.problem.cluster, measures.preferences
    total = sum(int(cluster.count[g]) * max(0, int(preferences.node_points(g).max(initial=0))) for g in range(cluster.n_classes))
    for term in preferences.terms:
        matched = int(cluster.count[sorted(term.matches)].sum())
        for g, weight in term.own.items():
            if weight > 0:
                total += term.multiplier * weight * int(cluster.count[g]) * (matched - int(g in term.matches))
    return total
