"""Bounds of a plan's tiers that hold before any search."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from solver.bounds.component_bounds import Components
from solver.rebalance.problem.objective import POINT, PlanObjective, Tier
from solver.rebalance.problem.problem import RebalanceProblem
from solver.rebalance.problem.state import PlanState
from solver.rules.eligibility import fits


def bounds(problem: RebalanceProblem, values: PlanObjective) -> list[int]:
    """By tier, a value that no plan exceeds: nothing left to do, everything placed, all demand on the fewest nodes."""
    return [_bound(problem, values, tier) for tier in values.tiers]


def _bound(problem: RebalanceProblem, values: PlanObjective, tier: Tier) -> int:
    if tier.name == "drained":
        return -len(problem.left_over)
    if tier.name == "placed":
        return int(fits(problem.cluster, values.room)[problem.pending & (problem.cluster.priority == tier.priority)].sum())
    if tier.name == "freed":
        return _freed(problem, values)
    if tier.name == "improve":
        return _improved(problem, values)
    return 0


def _freed(problem: RebalanceProblem, values: PlanObjective) -> int:
    """The running pods need their demand somewhere: nodes that cannot be freed, then as few (or cheap) of the others as hold the rest."""
    cluster = problem.cluster
    running = problem.start.sum(axis=1)
    gone = np.where(problem.evictable, 0, running)  # evicted pods need no room
    rest = problem.freeable & ~problem.closed
    kept = ~problem.freeable & ~problem.closed
    price = values.worth
    base = int(price[~problem.freeable].sum())
    most = 0
    wanted = [*(int(x) for x in cluster.demand.T @ gone), int(gone.sum())]
    # an overcommitted node keeps what it has
    rooms = [
        *np.maximum(cluster.free + problem.spare, problem.start.T @ cluster.demand).T,
        np.maximum(cluster.slots, problem.start.sum(axis=0)),
    ]
    for want, room in zip(wanted, rooms, strict=True):
        need = want - int(room[kept | problem.closed].sum())
        nodes = np.flatnonzero(rest & (room > 0))
        cost = 0
        if values.price is None:
            for space in sorted((int(room[n]) for n in nodes), reverse=True):
                if need <= 0:
                    break
                need -= space
                cost += 1
        else:  # fractions of the cheapest per unit, rounded up
            exact = Fraction(0)
            for n in sorted(nodes.tolist(), key=lambda n: Fraction(int(price[n]), int(room[n]))):
                if need <= 0:
                    break
                exact += price[n].item() * Fraction(min(need, int(room[n])), int(room[n]))
                need -= int(room[n])
            cost = -((-exact.numerator) // exact.denominator)
        most = max(most, cost)
    if values.price is None:
        return min(int(np.count_nonzero(problem.freeable)) - most, values.enough)
    return -(base + most)


def _improved(problem: RebalanceProblem, values: PlanObjective) -> int:
    """Preferences each at their best, and demand poured evenly over the nodes; every move costs, so none is made in vain."""
    cluster, objective = problem.cluster, values.objective
    soft = 0
    if not objective.empty:
        soft = _pairs(problem, values)
        if not PlanState(problem).broken():  # else pods may stand where no rule lets them
            could = np.maximum(values.room, problem.start)
            left = cluster.per_priority(np.where(problem.pending | problem.evictable, cluster.count, 0))
            soft = min(soft, Components(cluster, objective, could, left).bound)
    return POINT * soft + values.spread.bound(problem.start, complete=not problem.evictable.any() and not problem.pending.any())


def _pairs(problem: RebalanceProblem, values: PlanObjective) -> int:
    """Every pod on the node that it likes most, near everybody that it likes."""
    cluster, objective = problem.cluster, values.objective
    total = sum(int(cluster.count[g]) * max(0, int(objective.node_points(g).max(initial=0))) for g in range(cluster.n_classes))
    for term in objective.terms:
        matched = int(cluster.count[sorted(term.matches)].sum())
        for g, weight in term.own.items():
            if weight > 0:
                total += objective.multipliers[term.family] * weight * int(cluster.count[g]) * (matched - int(g in term.matches))
    return total
