"""The tiers of a plan as linear expressions over the model of its end state.

Their values are those of :mod:`solver.rebalance.problem.objective`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd

import numpy as np
from ortools.sat.python import cp_model

from solver.cpsat.linear_sum import Points
from solver.objective import encoding
from solver.objective.incremental_score import SoftState
from solver.objective.tie_break import STEP, Spread, bend
from solver.rebalance.problem.objective import POINT, PlanObjective, Tier
from solver.rebalance.target.model import TargetModel

#: Rows of CP-SAT stay below this.
_LARGEST = 2**58


def encode(
    model: TargetModel,
    broken: Mapping[tuple[int, int, str], list[cp_model.IntVar]],
    values: PlanObjective,
    soft: SoftState | None = None,
) -> list[Points]:
    """Each tier of ``values``, to be maximised; for a part of the instance up to what the rest adds. ``broken``: of
    :class:`solver.rebalance.target.rules.TargetRules`; ``soft``: the pods that stay, for a part with preferences.

    Raises:
        OverflowError: utilisation beyond what CP-SAT can sum.
    """
    return [_tier(model, broken, values, tier, soft) for tier in values.tiers]


def _tier(
    model: TargetModel,
    broken: Mapping[tuple[int, int, str], list[cp_model.IntVar]],
    values: PlanObjective,
    tier: Tier,
    soft: SoftState | None,
) -> Points:
    problem, points = model.problem, Points()
    if tier.name == "drained":
        points.constant -= len(problem.left_over) + int(model.rest[np.ix_(problem.movable, problem.closed)].sum())
        for (g, n), variable in model.x.items():
            if problem.closed[n] and problem.movable[g]:
                points.add(variable, -1, 0, model.upper(g, n))
    elif tier.name == "rules":
        _rules(model, broken, points)
    elif tier.name == "freed":
        _freed(model, values, points)
    elif tier.name == "improve":
        preferences = encoding.encode(model, values.objective, soft)
        _add(points, preferences, POINT)
        _add(points, balance(model, values.spread), 1)
        points.constant -= POINT * problem.limits.minGain * int(np.maximum(model.rest - problem.start, 0)[problem.movable].sum())
        for g, came in model.moved:
            points.add(came, -POINT * problem.limits.minGain, 0, model.fits[g])
    elif tier.name == "moves":
        came = np.maximum(model.rest - problem.start, 0).sum(axis=1)
        points.constant -= int((came * problem.cost)[problem.movable].sum())
        for g, variable in model.moved:
            points.add(variable, -int(problem.cost[g]), 0, int(variable.proto.domain[1]))
    else:
        chosen = problem.pending if tier.name == "placed" else problem.evictable
        for g, left in model.left.items():
            if chosen[g] and tier.priority in (None, int(problem.cluster.priority[g])):
                points.constant += model.fits[g] if tier.name == "placed" else 0
                points.add(left, -1, 0, model.fits[g])
    return points


def _add(points: Points, more: Points, factor: int) -> None:
    points.constant += factor * more.constant
    points.variables += more.variables
    points.weights += [factor * w for w in more.weights]
    points.least += factor * more.least
    points.most += factor * more.most


def _rules(model: TargetModel, broken: Mapping[tuple[int, int, str], list[cp_model.IntVar]], points: Points) -> None:
    """Pods that break each rule: all of a class on a node, unless every literal holds."""
    for (g, n, _), ways in broken.items():
        variable, resting = model.x.get((g, n)), int(model.rest[g, n])
        if variable is None:
            points.constant -= 0 if ways else resting
            if ways and resting:
                still = model.model.new_bool_var("")
                for clear in ways:
                    model.model.add_bool_or([still, clear])
                points.add(still, -resting, 0, 1)
        elif not ways:
            points.add(variable, -1, 0, model.upper(g, n))
        else:
            most = model.upper(g, n)
            pods = model.model.new_int_var(0, most, "")
            for clear in ways:
                model.model.add(pods >= variable - most * clear)
            points.add(pods, -1, 0, most)


def _freed(model: TargetModel, values: PlanObjective, points: Points) -> None:
    """A node is free or has room: rows of capacity say it for the relaxation, cells say it for sure."""
    problem, cluster = model.problem, model.cluster
    leaving = problem.movable | problem.pending
    prices = values.price
    if prices is not None:
        points.constant -= int(prices.sum())
    free_nodes: list[cp_model.IntVar] = []
    for n in np.flatnonzero(problem.freeable & ~model.rest[leaving].any(axis=0)).tolist():
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
        rows = [([1] * len(here), max(int(cluster.slots[n]), int(problem.start[:, n].sum())))]
        for r in range(len(cluster.resources)):
            demand = cluster.demand[:, r]
            rows.append(([int(demand[g]) for g in here], max(int(cluster.free[n, r]), int(problem.start[:, n] @ demand))))
        for weights, room in rows:
            unit = gcd(*weights)
            if unit and room > 0:
                model.model.add(model.weighted_sum([*variables, free], [*(w // unit for w in weights), room // unit]) <= room // unit)
    if problem.limits.maxFreed is not None and prices is None:  # a node that is free need not count as free
        model.model.add(model.sum(free_nodes) <= max(0, values.enough - points.constant))


def _kinks(first: int, end: int) -> Iterator[int]:
    """Pieces of the cost that get a tangent: all of the first ones, then ever fewer, which only loosens the bound."""
    k = first
    while k < end:
        yield k
        k += max(1, (k - first) // 32)


def balance(model: TargetModel, spread: Spread) -> Points:
    """The value of strategy spread, as :meth:`solver.objective.tie_break.Spread.encode`, on nodes that may hold more at the start than
    they have."""
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
