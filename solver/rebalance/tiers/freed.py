"""The tier of consolidation: the number of freed nodes, or the price of the nodes that are not freed."""

from __future__ import annotations

from math import gcd

import numpy as np

from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.objective.tie_break import cheapest
from kubestow.solver.ortools import cp_model
from kubestow.solver.rebalance.problem.end_state import EndState
from kubestow.solver.rebalance.target.rules import TargetRules
from kubestow.solver.rebalance.tiers.measures import Measures
from kubestow.solver.rebalance.tiers.tier import Tier


class FreedTier(Tier):
    """Freed nodes; with a price label, the negative price of the nodes that are not freed."""

    name, goal = "freed", "consolidate"

    def value(self, measures: Measures, end: EndState) -> int:
        free = measures.freed(end.counts)
        return min(int(free.sum()), measures.enough) if measures.price is None else -int(measures.price[~free].sum())

    def bound(self, measures: Measures) -> int:
        """Return an upper bound from capacity.

        The running pods use the nodes that cannot be freed, then the fewest (or cheapest) others that hold
        their remaining demand. This is checked for each resource alone, and for all together with the node
        classes that accept each pod.
        """
        problem, cluster = measures.problem, measures.problem.cluster
        gone = np.where(problem.evictable, 0, problem.start.sum(axis=1))  # evicted pods need no capacity
        kept = ~problem.freeable | problem.closed
        wanted = [*(int(x) for x in cluster.demand.T @ gone), int(gone.sum())]
        # an overcommitted node keeps its load
        rooms = [
            *np.maximum(problem.room, problem.start.T @ cluster.demand).T,
            np.maximum(cluster.slots, problem.start.sum(axis=0)),
        ]
        lowest_kept = 0
        for want, room in zip(wanted, rooms, strict=True):
            need = want - int(room[kept].sum())
            lowest_kept = max(lowest_kept, cheapest(measures.node_value[~kept], room[~kept], need))
        known = int(measures.node_value[problem.freeable].sum())
        free = min(known - lowest_kept, measures.packing.max_value(measures.node_value))
        return min(free, measures.enough) if measures.price is None else free - int(measures.price.sum())

    def encode(self, measures: Measures, rules: TargetRules) -> Points:
        """Return the points for freed nodes. Add variables and rows that say which nodes are free.

        Rows of single cells make the model exact; rows of capacity tighten its relaxation.
        """
        problem, model, points = measures.problem, rules.model, Points()
        leaving = problem.movable | problem.pending
        prices = measures.price
        if prices is not None:
            points.constant -= int(prices.sum())
        free_nodes: list[cp_model.IntVar] = []
        for n in np.flatnonzero(problem.freeable & ~model.unmoved[leaving].any(axis=0)).tolist():
            price = 1 if prices is None else int(prices[n])
            here = [g for g in model.classes_on(n) if leaving[g]]
            if not here:
                points.constant += price
                continue
            free = model.model.new_bool_var("")
            points.add(free, price, 0, 1)
            free_nodes.append(free)
            variables = [model.x[g, n] for g in here]
            for g, variable in zip(here, variables, strict=True):
                model.model.add(variable + model.upper(g, n) * free <= model.upper(g, n))
            for weights, room in _rows(rules, n, here):
                unit = gcd(*weights)
                if unit and room > 0:
                    model.model.add(model.weighted_sum([*variables, free], [*(w // unit for w in weights), room // unit]) <= room // unit)
        if problem.limits.maxFreed is not None and prices is None:  # a free node need not count as free
            model.model.add(model.sum(free_nodes) <= max(0, measures.enough - points.constant))
        return points


def _rows(rules: TargetRules, n: int, classes: list[int]) -> list[tuple[list[int], int]]:
    """Return the demand of each class and the capacity of node n, for pod slots and then for each resource."""
    cluster, start = rules.problem.cluster, rules.problem.start[:, n]
    rows = [([1] * len(classes), max(int(cluster.slots[n]), int(start.sum())))]
    for r in range(len(cluster.resources)):
        demand = cluster.demand[:, r]
        rows.append(([int(demand[g]) for g in classes], max(int(rules.problem.room[n, r]), int(start @ demand))))
    return rows
