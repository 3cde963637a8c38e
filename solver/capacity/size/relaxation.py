"""The linear relaxation on classes and brands: a bound on cost that is exact whatever the solver of linear programs answers.

It is the relaxation of :mod:`kubestow.solver.capacity.size.master` without whole numbers, for where that is too large to be solved with
them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.cluster.cluster import Ints
from kubestow.solver.bounds.safe_dual_bounds import Program, best_bound
from kubestow.solver.capacity.size.master import exclusive, groups_of
from kubestow.solver.capacity.size.menu import Menu


class _Rows:
    def __init__(self) -> None:
        self.rows: list[Ints] = []
        self.columns: list[Ints] = []
        self.values: list[Ints] = []
        self.limit: list[int] = []

    def add(self, columns: Ints, values: Ints, limit: int) -> None:
        self.rows.append(np.full(len(columns), len(self.limit), dtype=np.int64))
        self.columns.append(columns)
        self.values.append(values)
        self.limit.append(limit)


def least_cost(
    menus: Sequence[Menu],
    catalogue: Catalogue,
    ceiling: Ints,
    *,
    seconds: float,
    deterministic: bool,
    stop: threading.Event | None = None,
) -> int:
    """Return what no purchase that places everything costs less than, millionths. ``menus``: of the same brands; what is bought has to do
    for each of them. ``ceiling``: int64[B], nodes of each brand at most."""
    rows, brands = _Rows(), menus[0].brands
    upper = [ceiling]
    for menu in menus:
        upper.append(_add(rows, menu, sum(map(len, upper))))
    shapes = [brand.offers[0].shape.name for brand in brands]
    for name, limit in catalogue.most.items():
        own = np.array([b for b, other in enumerate(shapes) if other == name], dtype=np.int64)
        if len(own):
            rows.add(own, np.ones(len(own), dtype=np.int64), limit)
    excess = np.array([catalogue.excess[name] for name in shapes], dtype=np.int64)
    if (excess > 0).any():
        rows.add(np.arange(len(brands)), excess, 0)
    above = np.concatenate(upper)
    program = Program(
        np.concatenate(rows.rows), np.concatenate(rows.columns), np.concatenate(rows.values), np.array(rows.limit, dtype=np.int64), above
    )
    objective = np.zeros(len(above), dtype=np.int64)
    objective[: len(brands)] = [-brand.price for brand in brands]
    return max(0, -best_bound(program, objective, seconds=seconds, deterministic=deterministic, stop=stop))


def _add(rows: _Rows, menu: Menu, first: int) -> Ints:
    """Add what one menu asks of the nodes bought, the first columns; return the upper limits of its own columns, from ``first`` on."""
    brands = len(menu.brands)
    groups = groups_of(menu)
    units = np.array([int(np.gcd.reduce(column)) or 1 for column in menu.demand.T], dtype=np.int64)
    demand, room = menu.demand // units, menu.room // units
    at: Ints = np.full((len(menu.count), brands + len(groups)), -1, dtype=np.int64)
    most = np.concatenate([menu.most, *(group.most[:, None] for group in groups)], axis=1) if groups else menu.most
    used = most > 0
    at[used] = first + np.arange(np.count_nonzero(used))
    for g, count in enumerate(menu.count.tolist()):
        cells = at[g][at[g] >= 0]
        rows.add(cells, np.full(len(cells), -1, dtype=np.int64), -count)
    for k in range(brands + len(groups)):
        for r in range(demand.shape[1]):
            here = np.flatnonzero(used[:, k] & (demand[:, r] > 0))
            if not len(here):
                continue
            columns, values = at[here, k], demand[here, r]
            if k < brands:
                rows.add(np.append(columns, k), np.append(values, -room[k, r]), 0)
            else:
                rows.add(columns, values, int(groups[k - brands].room[r] // units[r]))
        if k < brands:
            fit = np.min(np.where(demand > 0, room[k] // np.maximum(demand, 1), 2**40), axis=1)
            for g in np.flatnonzero(used[:, k] & (menu.most[:, k] < np.minimum(fit, menu.count))).tolist():
                rows.add(np.array([at[g, k], k]), np.array([1, -int(menu.most[g, k])]), 0)
    for members in exclusive(menu):
        for k in range(brands):
            here = at[members, k][at[members, k] >= 0]
            if len(here) > 1:
                rows.add(np.append(here, k), np.append(np.ones(len(here), dtype=np.int64), -1), 0)
    return np.asarray(np.broadcast_to(menu.count[:, None], most.shape)[used])
