"""Bounds of a plan's tiers that hold before any search."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from solver.bounds.component_bounds import Components
from solver.rebalance.problem.objective import POINT, Tier, Values
from solver.rebalance.problem.problem import Case
from solver.rebalance.problem.state import State
from solver.rules.eligibility import fits


def bounds(case: Case, values: Values) -> list[int]:
    """By tier, a value that no plan exceeds: nothing left to do, everything placed, all demand on the fewest nodes."""
    return [_bound(case, values, tier) for tier in values.tiers]


def _bound(case: Case, values: Values, tier: Tier) -> int:
    if tier.name == "drained":
        return -len(case.left_over)
    if tier.name == "placed":
        return int(fits(case.cluster, values.room)[case.pending & (case.cluster.priority == tier.priority)].sum())
    if tier.name == "freed":
        return _freed(case, values)
    if tier.name == "improve":
        return _improved(case, values)
    return 0


def _freed(case: Case, values: Values) -> int:
    """The running pods need their demand somewhere: nodes that cannot be freed, then as few (or cheap) of the others as hold the rest."""
    cluster = case.cluster
    running = case.start.sum(axis=1)
    gone = np.where(case.evictable, 0, running)  # evicted pods need no room
    rest = case.freeable & ~case.closed
    kept = ~case.freeable & ~case.closed
    price = values.worth
    base = int(price[~case.freeable].sum())
    most = 0
    wanted = [*(int(x) for x in cluster.demand.T @ gone), int(gone.sum())]
    # an overcommitted node keeps what it has
    rooms = [*np.maximum(cluster.free + case.spare, case.start.T @ cluster.demand).T, np.maximum(cluster.slots, case.start.sum(axis=0))]
    for want, room in zip(wanted, rooms, strict=True):
        need = want - int(room[kept | case.closed].sum())
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
        return min(int(np.count_nonzero(case.freeable)) - most, values.enough)
    return -(base + most)


def _improved(case: Case, values: Values) -> int:
    """Preferences each at their best, and demand poured evenly over the nodes; every move costs, so none is made in vain."""
    cluster, objective = case.cluster, values.objective
    soft = 0
    if not objective.empty:
        soft = _pairs(case, values)
        if not State(case).broken():  # else pods may stand where no rule lets them
            could = np.maximum(values.room, case.start)
            left = cluster.per_priority(np.where(case.pending | case.evictable, cluster.count, 0))
            soft = min(soft, Components(cluster, objective, could, left).bound)
    return POINT * soft + values.spread.bound(case.start, complete=not case.evictable.any() and not case.pending.any())


def _pairs(case: Case, values: Values) -> int:
    """Every pod on the node that it likes most, near everybody that it likes."""
    cluster, objective = case.cluster, values.objective
    total = sum(int(cluster.count[g]) * max(0, int(objective.node_points(g).max(initial=0))) for g in range(cluster.n_classes))
    for term in objective.terms:
        matched = int(cluster.count[sorted(term.matches)].sum())
        for g, weight in term.own.items():
            if weight > 0:
                total += objective.multipliers[term.family] * weight * int(cluster.count[g]) * (matched - int(g in term.matches))
    return total
