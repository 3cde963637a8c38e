"""The tier of improvement: preferences and even utilisation, less what the moves for them have to bring."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

import numpy as np

from solver.bounds.component_bounds import Components
from solver.cpsat.linear_sum import Points
from solver.objective import encoding
from solver.objective.tie_break import STEP, Spread, bend
from solver.rebalance.problem.end_state import EndState
from solver.rebalance.problem.problem import RebalanceProblem
from solver.rebalance.problem.state import PlanState
from solver.rebalance.target.model import TargetModel
from solver.rebalance.target.rules import TargetRules
from solver.rebalance.tiers.measures import Measures
from solver.rebalance.tiers.tier import Tier

#: Units of balance that are worth one weighted point of preferences.
POINT = 100
#: Rows of CP-SAT stay below this.
_LARGEST = 2**58


class Improvement(Tier):
    """Preferences and balance. Every move has to bring ``minGain`` points."""

    name, goal = "improve", "improve"

    def value(self, measures: Measures, end: EndState) -> int:
        soft = measures.preferences.total(measures.preferences.families(end.counts))
        return POINT * soft - self.per_move(measures.problem) * end.moves + measures.spread.value(end.counts)

    def bound(self, measures: Measures) -> int:
        """Return preferences each at their best, and demand poured evenly over the nodes; every move costs, so none is made in vain."""
        problem, cluster = measures.problem, measures.problem.cluster
        soft = 0
        if not measures.preferences.empty:
            soft = _pairs(measures)
            if not PlanState(problem).broken():  # otherwise pods may stay where no rule lets them
                could = np.maximum(measures.room, problem.start)
                left = cluster.per_priority(np.where(problem.pending | problem.evictable, cluster.count, 0))
                soft = min(soft, Components(cluster, measures.preferences, could, left).bound)
        complete = not problem.evictable.any() and not problem.pending.any()
        return POINT * soft + measures.spread.bound(problem.start, complete=complete)

    def encode(self, measures: Measures, rules: TargetRules) -> Points:
        """Raise OverflowError where utilisation is beyond what CP-SAT can sum."""
        problem, model, points = measures.problem, rules.model, Points()
        points.extend(encoding.encode(model, measures.preferences), POINT)
        points.extend(balance(model, measures.spread))
        points.constant -= self.per_move(problem) * int(model.rest_came[problem.movable].sum())
        for g, came in model.moved:
            points.add(came, -self.per_move(problem), 0, model.fits[g])
        return points

    def per_move(self, problem: RebalanceProblem) -> int:
        return POINT * problem.limits.minGain


def _pairs(measures: Measures) -> int:
    """Return the preferences with every pod on the node that it likes most, near all pods that it likes."""
    cluster, preferences = measures.problem.cluster, measures.preferences
    total = sum(int(cluster.count[g]) * max(0, int(preferences.node_points(g).max(initial=0))) for g in range(cluster.n_classes))
    for term in preferences.terms:
        matched = int(cluster.count[sorted(term.matches)].sum())
        for g, weight in term.own.items():
            if weight > 0:
                total += preferences.multipliers[term.family] * weight * int(cluster.count[g]) * (matched - int(g in term.matches))
    return total


def _kinks(first: int, end: int) -> Iterator[int]:
    """Pieces of the cost that get a tangent: all of the first ones, then ever fewer, which only loosens the bound."""
    k = first
    while k < end:
        yield k
        k += max(1, (k - first) // 32)


def balance(model: TargetModel, spread: Spread) -> Points:
    """Return the value of strategy spread, as :meth:`solver.objective.tie_break.Spread.encode`, on nodes that may hold more at the start
    than they have."""
    points, solver, problem = Points(), model.model, model.problem
    for n in range(model.cluster.n_nodes):
        for r in range(spread.demand.shape[1]):
            total = int(spread.total[n, r])
            if total <= 0:
                continue
            demand = spread.demand[:, r]
            used = int(spread.used[n, r]) + int(model.rest[:, n] @ demand)
            now = -(-1000 * used // total)
            asking = [g for g in model.classes_on(n) if demand[g]]
            lowest = int(bend(np.array([now]))[0])
            if not asking:
                points.constant -= lowest
                continue
            start = int(spread.used[n, r]) + int(problem.start[:, n] @ demand)
            most = max(now, 1000, -(-1000 * start // total))
            load = solver.new_int_var(now, most, "")
            unit = gcd(total, *(1000 * int(demand[g]) for g in asking))
            if total // unit * most > _LARGEST:
                raise OverflowError("utilisation beyond what CP-SAT can sum")
            weights = [1000 * int(demand[g]) // unit for g in asking]
            asked = model.weighted_sum([model.x[g, n] for g in asking], weights)
            solver.add(asked - -1000 * used // unit <= total // unit * load)
            highest = int(bend(np.array([most]))[0])
            cost = solver.new_int_var(lowest, highest, "")
            for k in _kinks(now // STEP, -(-most // STEP)):
                solver.add(cost >= (2 * k + 1) * load - STEP * k * (k + 1))
            points.add(cost, -1, lowest, highest)
    return points
