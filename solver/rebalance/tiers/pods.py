"""Tiers that count pods: remaining on drained nodes, breaking rules, placed, evicted, moved."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.rebalance.problem.end_state import EndState
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.target.rules import TargetRules
from kubestow.solver.rebalance.tiers.measures import Measures
from kubestow.solver.rebalance.tiers.tier import Tier
from kubestow.solver.rules.eligibility import fits


class DrainedTier(Tier):
    """Pods that remain on nodes to be drained."""

    name, goal = "drained", "drain"

    def value(self, measures: Measures, end: EndState) -> int:
        problem = measures.problem
        return -len(problem.stranded) - int(end.counts[np.ix_(problem.movable, problem.closed)].sum())

    def bound(self, measures: Measures) -> int:
        """Return the bound if as many pods of each budget leave as the plan's waves allow."""
        problem, stranded = measures.problem, len(measures.problem.stranded)
        leaving = (problem.start * problem.movable[:, None])[:, problem.closed].sum(axis=1)
        for budget, limit in problem.eviction_limits.items():
            stranded += max(0, int(leaving[problem.guarded == budget].sum()) - limit)
        return -stranded

    def encode(self, measures: Measures, rules: TargetRules) -> Points:
        problem, model, points = measures.problem, rules.model, Points()
        points.constant = -len(problem.stranded) - int(model.unmoved[np.ix_(problem.movable, problem.closed)].sum())
        for (g, n), variable in model.x.items():
            if problem.closed[n] and problem.movable[g]:
                points.add(variable, -1, 0, model.upper(g, n))
        return points


class BrokenRulesTier(Tier):
    """Rules that running pods break."""

    name, goal = "rules", "repair"

    def value(self, measures: Measures, end: EndState) -> int:
        return -sum(end.state.broken(counting=True).values())

    def encode(self, measures: Measures, rules: TargetRules) -> Points:
        """Count all pods of a class on a node as breaking a rule unless every literal of the rule holds."""
        problem, model, points = measures.problem, rules.model, Points()
        for (g, n, name), literals in rules.broken.items():
            if not problem.counted_rules(g, {name: literals}):
                continue
            variable, resting = model.x.get((g, n)), int(model.unmoved[g, n])
            if variable is None:
                points.constant -= 0 if literals else resting
                if literals and resting:
                    still = model.model.new_bool_var("")
                    for clear in literals:
                        model.model.add_bool_or([still, clear])
                    points.add(still, -resting, 0, 1)
            elif not literals:
                points.add(variable, -1, 0, model.upper(g, n))
            else:
                upper = model.upper(g, n)
                if (g, n, name) in rules.never_arriving:
                    variable = model.staying(g, n)
                pods = model.model.new_int_var(0, upper, "")
                for clear in literals:
                    model.model.add(pods >= variable - upper * clear)
                points.add(pods, -1, 0, upper)
        return points


class _PriorityTier(Tier):
    """Pods of one priority, counted by whether they have a node."""

    def _absent(self, chosen: Bools, rules: TargetRules) -> Points:
        """Return -1 for each pod of the chosen classes (bool[G]) without a node."""
        points = Points()
        for g, absent in rules.model.unplaced.items():
            if chosen[g]:
                points.add(absent, -1, 0, rules.model.fits[g])
        return points


class PlacedTier(_PriorityTier):
    """Pending pods that get a node."""

    name, goal = "placed", "admit"

    def _chosen(self, problem: RebalanceProblem) -> Bools:
        return np.asarray(problem.pending & (problem.cluster.priority == self.priority))

    def value(self, measures: Measures, end: EndState) -> int:
        return int(end.counts[self._chosen(measures.problem)].sum())

    def bound(self, measures: Measures) -> int:
        return int(fits(measures.problem.cluster, measures.room)[self._chosen(measures.problem)].sum())

    def encode(self, measures: Measures, rules: TargetRules) -> Points:
        chosen = self._chosen(measures.problem)
        points = self._absent(chosen, rules)
        points.constant = sum(rules.model.fits[g] for g in rules.model.unplaced if chosen[g])
        return points


class EvictionsTier(_PriorityTier):
    """Pods that are evicted for good."""

    name, goal = "evictions", "admit"

    def _chosen(self, problem: RebalanceProblem) -> Bools:
        return np.asarray(problem.evictable & (problem.cluster.priority == self.priority))

    def value(self, measures: Measures, end: EndState) -> int:
        chosen = self._chosen(measures.problem)
        return int(end.counts[chosen].sum()) - int(measures.problem.start[chosen].sum())

    def encode(self, measures: Measures, rules: TargetRules) -> Points:
        return self._absent(self._chosen(measures.problem), rules)


class MovesTier(Tier):
    """The total cost of moves, which prefers the least disruptive plan."""

    name = "moves"

    def value(self, measures: Measures, end: EndState) -> int:
        return -end.cost

    def bound_at(self, measures: Measures, reached: Mapping[str, int]) -> int:
        """Return an upper bound for plans that reach the given values of the earlier tiers.

        The nodes that are drained or freed have to be emptied.

        Args:
            reached: Values of the earlier tiers, by name.
        """
        problem = measures.problem
        leaving = problem.movable & ~problem.evictable  # evictions are no moves
        cost = (problem.cost * leaving) @ problem.start
        total = 0
        if "drained" in reached:
            closed = problem.start[np.ix_(leaving, problem.closed)].sum(axis=1)
            each = np.sort(np.repeat(problem.cost[leaving], closed))
            total = int(each[: max(0, len(each) - (-len(problem.stranded) - reached["drained"]))].sum())
            cost[problem.closed] = 0
        if "freed" in reached:
            enough = reached["freed"] + (0 if measures.price is None else int(measures.price.sum()))
            total += measures.packing.least_cost(measures.node_value, enough, cost)
        return -total

    def encode(self, measures: Measures, rules: TargetRules) -> Points:
        problem, model, points = measures.problem, rules.model, Points()
        came = model.unmoved_arrived.sum(axis=1)
        points.constant = -int((came * problem.cost)[problem.movable].sum())
        for g, variable in model.moved:
            points.add(variable, -int(problem.cost[g]), 0, int(variable.proto.domain[1]))
        return points

    def per_move(self, problem: RebalanceProblem) -> int:
        return int(problem.cost[problem.movable].min(initial=1))
