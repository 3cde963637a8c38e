"""Upper bound on all groups together, by a linear program over the room that they share.

Columns: x[c, k], pods of class c on nodes of kind k. The multipliers of the capacity rows are prices of room. See
docs/algorithms/groups-and-shared-room.md (Shadow prices)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Cluster, Ids, Ints, domain_sum
from kubestow.models.cluster.partition import equivalence
from kubestow.models.kube.selectors import Bools
from kubestow.solver.bounds import safe_dual_bounds
from kubestow.solver.bounds.safe_dual_bounds import BUILD_NONZEROS_PER_SECOND, MAX_COLUMNS, PROGRAM_SECONDS, Program, best_bound, optimum
from kubestow.solver.cpsat.linear_sum import MAX_SUM
from kubestow.solver.cpsat.run import CpSat

#: (class, kind of node) pairs. Larger tables are not built.
MAX_PAIRS = 5_000_000
MAX_CHARGE = 2.0**40  #: Points charged for the room of one pod.

Floats = NDArray[np.float64]
_Array = TypeVar("_Array", Ints, Bools)


class GroupBound(NamedTuple):
    """Bounds of one group.

    Attributes:
        classes: Class indices.
        bound: Upper bound on the points of the classes.
        nodes: Upper bound on the points from single nodes.
        other_points: Upper bound on all other points.
    """

    classes: list[int]
    bound: int
    nodes: int
    other_points: int


@dataclass(frozen=True)
class RoomPrices:
    """Shadow prices of node capacity. They guide a search and prove nothing.

    Attributes:
        kinds: Kind of each node, int32[N].
        each: Points per unit of each resource on each kind, float64[K, R + 1]; pod slots last.
        demand: Demand per pod in these units, int64[G, R + 1].
    """

    kinds: Ids
    each: Floats
    demand: Ints

    def charges(self, share: float) -> Callable[[int], Ints]:
        """Return a function that maps a class to its charges int64[N]: the fraction ``share`` of the price of a pod's room
        on each node."""
        rows: dict[int, Ints] = {}

        def charge(g: int) -> Ints:
            if g not in rows:
                rows[g] = np.rint(np.minimum(share * (self.each @ self.demand[g]), MAX_CHARGE)).astype(np.int64)
            return rows[g].take(self.kinds)

        return charge


class SharedRoom:
    """Joint upper bound on groups of classes that share the room of the nodes.

    Args:
        rows: Points of a pod on each node, int64[N] per class.
        eligibility: Maximum pods of each class on each node, int64[G, N].
        unplaced: Per priority, number of pods that fit somewhere and may stay unplaced.

    Attributes:
        prices: Shadow prices. None until :meth:`bound` finds some.
    """

    def __init__(self, cluster: Cluster, rows: Sequence[Ints], eligibility: Ints, unplaced: dict[int, int]) -> None:
        self.prices: RoomPrices | None = None
        self._table = _table(cluster, rows, eligibility, unplaced)

    def bound(self, groups: Sequence[GroupBound], cpsat: CpSat) -> int | None:
        """Return the upper bound on the points of all groups together, and set ``prices`` if simplex solves the program.

        Return None if room limits no group, if there are too many kinds of classes and nodes, or if simplex fails.
        """
        made = None if self._table is None else _RoomColumns(self._table, groups)
        if made is None or made.size > MAX_COLUMNS or not made.tight or made.all_fit():
            return None
        program, objective = made.program()
        cpsat.deadline.charge(len(program.rows) / BUILD_NONZEROS_PER_SECOND)
        other_points = sum(group.other_points for group in groups)
        if len(program.rows) > safe_dual_bounds.SIMPLEX_LIMIT:
            seconds = min(PROGRAM_SECONDS, cpsat.deadline.remaining())
            return other_points + best_bound(
                program, objective, seconds=seconds, deterministic=cpsat.options.deterministic, stop=cpsat.stop
            )
        solution = optimum(program, objective)
        if solution is None:
            return None
        _, multipliers = solution
        self.prices = made.prices(multipliers) or self.prices
        return other_points + program.bound(objective, multipliers)


@dataclass(frozen=True)
class _RoomTable:
    """A cluster by K kinds of nodes and kinds of classes.

    Attributes:
        kinds: Kind of each node, int32[N].
        row: Per class, index of its points. Equal for classes with equal points.
        where: Per class, index of its eligible nodes. Equal for classes with the same nodes.
        points: Points per kind, int64[K], by index in ``row``.
        most: Per class, maximum pods on each kind, int64[K].
        demand: Demand per pod, int64[G, R + 1], in units that divide all requests; pod slots last.
        room: Capacity per kind, int64[K, R + 1], in the same units.
        fit: Pods per class that fit, int64[G].
        priority: int64[G].
        left: See :class:`SharedRoom`.
    """

    kinds: Ids
    row: list[int]
    where: list[int]
    points: list[Ints]
    upper: list[Ints]
    demand: Ints
    room: Ints
    fit: Ints
    priority: Ints
    unplaced: dict[int, int]


def _table(cluster: Cluster, rows: Sequence[Ints], eligibility: Ints, unplaced: dict[int, int]) -> _RoomTable | None:
    """Return the table of a cluster. None if there are no classes, or too many pairs, or if sums could overflow.

    Args:
        rows: Points of a pod on each node, int64[N] per class.
        eligibility: int64[G, N].
        unplaced: See :class:`SharedRoom`.
    """
    if not len(rows):
        return None
    fit = np.minimum(cluster.count, eligibility.sum(axis=1))
    points, row = _distinct(rows)
    possible, where = _distinct(limit > 0 for limit in eligibility)
    nodes = equivalence(*points, *possible)
    kinds, first, size = nodes.of.astype(np.int32), nodes.firsts, len(nodes)
    demand = np.concatenate([cluster.demand, np.ones((cluster.n_classes, 1), dtype=np.int64)], axis=1)
    units = np.array([gcd(*column) or 1 for column in demand.T.tolist()])
    demand //= units
    total = [sum(d * k for d, k in zip(column, fit.tolist(), strict=True)) for column in demand.T.tolist()]
    if not 0 < cluster.n_classes * size <= MAX_PAIRS or max(total) >= MAX_SUM:
        return None
    upper = [np.minimum(domain_sum(kinds, size, limit), n) for limit, n in zip(eligibility, fit.tolist(), strict=True)]
    free = np.maximum(np.concatenate([cluster.free, cluster.slots[:, None]], axis=1), 0) // units
    sums = [[0] * len(total) for _ in first]
    for k, each in zip(kinds.tolist(), free.tolist(), strict=True):
        sums[k] = [a + b for a, b in zip(sums[k], each, strict=True)]  # Python integers do not overflow
    room = np.array([[min(a, b) for a, b in zip(each, total, strict=True)] for each in sums], dtype=np.int64)
    return _RoomTable(kinds, row, where, [r[first] for r in points], upper, demand, room, fit, cluster.priority, unplaced)


def _distinct(rows: Iterable[_Array]) -> tuple[list[_Array], list[int]]:
    """Return the distinct arrays, and for each array the index of the one that it equals."""
    numbers: dict[bytes, int] = {}
    first: list[_Array] = []
    which = []
    for row in rows:
        if (number := numbers.setdefault(row.tobytes(), len(numbers))) == len(first):
            first.append(row)
        which.append(number)
    return first, which


class _RoomColumns:
    """The columns of the program: merged classes, each on every kind of node where it is eligible.

    Classes are merged if they have equal points, nodes, demand and priority. Classes of a group whose bound is below the
    sum of its single bounds are only merged within the group.

    Attributes:
        size: Number of columns for pods.
        tight: (kind of node, resource) of the capacity rows that may bind.
    """

    def __init__(self, table: _RoomTable, groups: Sequence[GroupBound]) -> None:
        self._table, self._groups = table, groups
        merged: dict[Hashable, list[int]] = {}
        cuts = []
        for i, group in enumerate(groups):
            cut = i if group.bound < group.nodes + group.other_points else -1
            for g in group.classes:
                key = cut, table.row[g], table.where[g], table.demand[g].tobytes(), int(table.priority[g])
                if key not in merged:
                    cuts.append(cut)
                merged.setdefault(key, []).append(g)
        self._cuts, self._members = cuts, list(merged.values())
        self._upper = np.stack([np.sum([table.upper[g] for g in classes], axis=0) for classes in self._members])
        self.size = int(np.count_nonzero(self._upper))
        self._first = np.array([classes[0] for classes in self._members])
        self._demand = table.demand[self._first]
        self._points = np.stack([table.points[table.row[g]] for g in self._first.tolist()])
        self.tight: list[tuple[int, int]] = [(k, r) for k, r in np.argwhere(self._upper.T @ self._demand > table.room).tolist()]

    def all_fit(self) -> bool:
        """Return True if a quick greedy check places all pods on the kinds with most points. False does not prove the contrary."""
        table, room = self._table, self._table.room.astype(np.float64)
        best = self._points.astype(np.float64)
        best[self._upper == 0] = -np.inf
        top = (best == best.max(axis=1, keepdims=True)) & (self._upper > 0)
        for c in np.argsort(top.sum(axis=1), kind="stable").tolist():  # classes with the fewest choices first
            requested = self._demand[c] > 0
            pods = np.floor((room[:, requested] / self._demand[c][requested]).min(axis=1)) * top[c]
            pods = np.minimum(pods, self._upper[c])
            wanted = int(table.fit[self._members[c]].sum())
            if pods.sum() < wanted:
                return False
            room -= np.outer(pods * (wanted / max(1.0, pods.sum())), self._demand[c])
        return True

    def prices(self, multipliers: Floats) -> RoomPrices | None:
        """Return the shadow prices of capacity. None if all are 0.

        Args:
            multipliers: Dual multipliers of the program's rows, float64[M].
        """
        each = np.zeros(self._table.room.shape)
        for row, (k, r) in enumerate(self.tight):
            each[k, r] = np.nan_to_num(max(0.0, float(multipliers[row])), posinf=0.0)
        return RoomPrices(self._table.kinds, each, self._table.demand) if each.any() else None

    def program(self) -> tuple[Program, Ints]:
        """Return the linear program whose optimum bounds the points of all groups from single nodes, and its objective.

        The first rows are the capacity rows, in the order of ``tight``. Columns beyond ``size`` take the points above a
        group's bound off again.

        Returns:
            The program to maximise, and the coefficient of each column, in points.
        """
        table, first = self._table, self._first
        which, kinds = np.nonzero(self._upper)
        columns = np.arange(self.size, dtype=np.int64)
        points = self._points[which, kinds]
        rows, cols, values = [], [], []
        limits: list[int] = []

        def add(chosen: Ints, coefficients: Ints, limit: int) -> None:
            rows.append(np.full(len(chosen), len(limits), dtype=np.int64))
            cols.append(chosen)
            values.append(coefficients)
            limits.append(limit)

        for k, r in self.tight:
            here = columns[kinds == k]
            here = here[self._demand[which[here], r] > 0]
            add(here, self._demand[which[here], r], int(table.room[k, r]))
        fit = [int(table.fit[classes].sum()) for classes in self._members]
        starts = np.searchsorted(which, np.arange(len(self._members) + 1))
        own = [columns[a:b] for a, b in pairwise(starts.tolist())]
        staying: dict[int, list[int]] = {}
        for c, chosen in enumerate(own):
            priority = int(table.priority[first[c]])
            add(chosen, np.ones(len(chosen), dtype=np.int64), fit[c])
            if table.unplaced.get(priority, 0):
                staying.setdefault(priority, []).append(c)
            else:
                add(chosen, np.full(len(chosen), -1, dtype=np.int64), -fit[c])
        for priority, classes in staying.items():
            chosen = np.concatenate([own[c] for c in classes])
            add(chosen, np.full(len(chosen), -1, dtype=np.int64), table.unplaced[priority] - sum(fit[c] for c in classes))
        upper, objective = [self._upper[which, kinds]], [points]
        cut: dict[int, list[int]] = {}
        for c, i in enumerate(self._cuts):
            if i >= 0:
                cut.setdefault(i, []).append(c)
        for i, classes in cut.items():  # points above a group's bound do not count
            chosen = np.concatenate([own[c] for c in classes])
            group = self._groups[i]
            best = sum(int(np.maximum(points[own[c]], 0) @ self._upper[c][kinds[own[c]]]) for c in classes)
            over = np.array([self.size + len(upper) - 1])
            add(np.append(chosen, over), np.append(points[chosen], -1), group.bound - group.other_points)
            upper.append(np.array([max(0, best + group.other_points - group.bound)]))
            objective.append(np.array([-1]))
        matrix = np.concatenate(rows), np.concatenate(cols), np.concatenate(values)
        return Program(*matrix, np.array(limits, dtype=np.int64), np.concatenate(upper)), np.concatenate(objective)
