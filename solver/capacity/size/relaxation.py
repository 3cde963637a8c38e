"""Bounds and proposals of the relaxation, shared by the searches of one snapshot and of a series.

The linear relaxation over classes and brands gives a lower bound on cost that is exact even if the LP solver is
not. It is the model of :mod:`kubestow.solver.capacity.size.master` without integrality, for instances too large
for an integer program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.cluster.cluster import Ints
from kubestow.solver.bounds.safe_dual_bounds import Program, best_bound
from kubestow.solver.capacity.size.brands import Menu
from kubestow.solver.capacity.size.master import Master, ceilings, exclusive, groups_of
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.ortools import cp_model
from kubestow.solver.runtime.run_context import RunContext

#: Fraction of the remaining time for one solve of the relaxation.
SOLVE_TIME_FRACTION = 0.25
#: Fraction of the remaining time for the linear relaxation.
LINEAR_TIME_FRACTION = 0.15


@dataclass
class Incumbent:
    """The best successful purchase so far, and bounds. Costs are in millionths."""

    cost: int = 0
    count: int = 0
    bound: int = 0
    least: int = 0  # lower bound on nodes at the incumbent's cost
    infeasible: bool = False

    @property
    def known(self) -> bool:
        """True if some purchase succeeded."""
        raise NotImplementedError

    @property
    def proved(self) -> bool:
        """True if no purchase is cheaper."""
        return self.known and self.cost <= self.bound


class Relaxed:
    """Bounds and proposals of the relaxation for one or several snapshots.

    Attributes:
        menus: One menu for each snapshot, all with the same brands.
        masters: The integer program of each menu.
    """

    incumbent: Incumbent
    masters: list[Master]

    def __init__(self, menus: Sequence[Menu], catalogue: Catalogue, request: SizeOptions, context: RunContext) -> None:
        self.menus, self.catalogue, self.request, self.context = menus, catalogue, request, context
        self.cpsat = CpSat(context)
        self.price = np.array([brand.price for brand in menus[0].brands], dtype=np.int64)
        self.ceiling = np.max([ceilings(menu, catalogue, request) for menu in menus], axis=0).tolist()

    def _linear(self) -> None:
        """Update the bound by the linear relaxation."""
        incumbent = self.incumbent
        if not incumbent.proved:
            bound = self.linear(range(len(self.menus)), self.context.deadline.remaining() * LINEAR_TIME_FRACTION)
            incumbent.bound = max(incumbent.bound, min(bound, incumbent.cost) if incumbent.known else bound)
            self._report()

    def linear(self, chosen: Sequence[int], seconds: float) -> int:
        """Return the bound of the linear relaxation of some snapshots, in millionths."""
        ceiling = np.array(self.ceiling, dtype=np.int64)
        if self.incumbent.known:
            ceiling = np.minimum(ceiling, self.incumbent.cost // np.maximum(self.price, 1) + 1)
        program, objective = _program([self.menus[i] for i in chosen], self.catalogue, ceiling)
        deterministic, stop = self.context.options.deterministic, self.context.stop
        bound = max(0, -best_bound(program, objective, seconds=seconds, deterministic=deterministic, stop=stop))
        self.context.deadline.charge(seconds)
        return bound

    @property
    def _sound(self) -> bool:
        return all(master.sound for master in self.masters)

    def _costs(self, end: float) -> None:
        """Try proposals, the cheapest first, until the remaining time is at most ``end``."""
        incumbent, first = self.incumbent, self.masters[0]
        while not self.context.over() and self.context.deadline.remaining() > end:
            answer = first.cheapest(self.cpsat, self.context.deadline.remaining() * SOLVE_TIME_FRACTION)
            if answer.status == cp_model.INFEASIBLE:
                if incumbent.known and self._sound:
                    incumbent.bound = incumbent.cost
                incumbent.infeasible = not incumbent.known and self._sound
                return
            if answer.bound is not None and self._sound:
                incumbent.bound = max(incumbent.bound, answer.bound * first.unit)
            self._report()
            if answer.solution is None or (incumbent.known and incumbent.bound >= incumbent.cost):
                return
            proposal = first.nodes(answer.solution)
            if answer.status == cp_model.OPTIMAL and answer.bound is not None:
                fewest = first.fewest(self.cpsat, answer.bound, self.context.deadline.remaining() * SOLVE_TIME_FRACTION)
                proposal = proposal if fewest.solution is None else first.nodes(fewest.solution)
            if self._packs(proposal) and not self._try(proposal):
                self._repair_failed(proposal)
                if incumbent.infeasible:
                    return

    def _counts(self) -> None:
        """Reduce the number of nodes at the same cost."""
        incumbent, first = self.incumbent, self.masters[0]
        while not self.context.over():
            answer = first.fewest(self.cpsat, incumbent.cost // first.unit, self.context.deadline.remaining() * SOLVE_TIME_FRACTION)
            if answer.status == cp_model.INFEASIBLE and self._sound:
                incumbent.least = incumbent.count
            if answer.bound is not None and self._sound:
                incumbent.least = max(incumbent.least, min(incumbent.count, answer.bound))
            if answer.solution is None or incumbent.least >= incumbent.count:
                return
            proposal = first.nodes(answer.solution)
            if self._packs(proposal):
                self._try(proposal)

    def _packs(self, counts: Sequence[int]) -> bool:
        """Return True unless packing refutes the proposal."""
        raise NotImplementedError

    def _try(self, counts: Sequence[int]) -> bool:
        """Try nodes of each brand, and cut the purchase off if it fails. Return True if every pod was placed."""
        raise NotImplementedError

    def _repair_failed(self, counts: Sequence[int]) -> None:
        """Turn a failed proposal into a purchase that succeeds, or find that none does."""
        raise NotImplementedError

    def _report(self) -> None:
        """Report that a bound may have improved."""


# --- the linear relaxation ------------------------------------------------------------------------------------------------


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


def _program(menus: Sequence[Menu], catalogue: Catalogue, ceiling: Ints) -> tuple[Program, Ints]:
    """Return the relaxation of the purchases that place everything, and the negated cost in millionths, which is to be maximised.

    Args:
        menus: Menus with the same brands. The purchase must suffice for every menu.
        ceiling: int64[B], the maximum number of nodes of each brand.
    """
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
    return program, objective


def _add(rows: _Rows, menu: Menu, first: int) -> Ints:
    """Add one menu's demands on the purchased nodes, which are the first columns.

    Returns:
        Upper limits of the menu's own columns, which begin at ``first``.
    """
    brands = len(menu.brands)
    groups = groups_of(menu)
    units = np.array([int(np.gcd.reduce(column)) or 1 for column in menu.demand.T], dtype=np.int64)
    demand, room = menu.demand // units, menu.room // units
    at: Ints = np.full((len(menu.count), brands + len(groups)), -1, dtype=np.int64)
    max_pods = np.concatenate([menu.max_pods, *(group.max_pods[:, None] for group in groups)], axis=1) if groups else menu.max_pods
    used = max_pods > 0
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
            for g in np.flatnonzero(used[:, k] & (menu.max_pods[:, k] < np.minimum(fit, menu.count))).tolist():
                rows.add(np.array([at[g, k], k]), np.array([1, -int(menu.max_pods[g, k])]), 0)
    for members in exclusive(menu):
        for k in range(brands):
            here = at[members, k][at[members, k] >= 0]
            if len(here) > 1:
                rows.add(np.append(here, k), np.append(np.ones(len(here), dtype=np.int64), -1), 0)
    return np.asarray(np.broadcast_to(menu.count[:, None], max_pods.shape)[used])
