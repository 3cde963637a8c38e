"""How nodes can be filled to the last unit: per node the patterns (pods of each size) that leave no more of it than they may.

Sizes are the distinct amounts that pods ask for. Patterns are listed size after size. Tables of the sums over two resources that the sizes
still to come can reach keep to those that can be completed; further resources and the pod slots sort out at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import TypeAlias

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.eligibility import fits

#: Sizes, and cells of one table, beyond which nothing is listed.
SIZES, CELLS = 64, 4_000_000
_Table: TypeAlias = Bools


@dataclass(frozen=True)
class Sizes:
    """What pods ask for, in whole units of what any of them asks for.

    Attributes:
        demand: int64[K, C], the distinct amounts, large ones first; columns that nobody asks for are left out.
        of: int64[G], the size of each class; -1 where it asks for nothing.
        room: int64[N, C], what nodes offer; nothing where they take nobody.
        most: int64[K, N], pods of each size that each node can get.
        count: int64[K], pods of each size that fit somewhere.
    """

    demand: Ints
    of: Ints
    room: Ints
    most: Ints
    count: Ints

    @property
    def waste(self) -> Ints:
        """int64[C]: what is left over of all nodes when all pods are placed; less than nothing where they cannot all be."""
        return np.asarray(self.room.sum(axis=0) - self.demand.T @ self.count)


def sizes_of(cluster: Cluster, limits: Ints) -> Sizes:
    """Return the sizes of the pods of a cluster. ``limits``: int64[G, N], the most pods of each class that each node may get."""
    asked = np.flatnonzero(cluster.demand.any(axis=0)).tolist()
    units = np.array([gcd(*cluster.demand[:, r].tolist()) for r in asked], dtype=np.int64)
    useful: Bools = np.asarray(limits.any(axis=0))
    room = np.where(useful[:, None], np.maximum(cluster.free[:, asked], 0), 0) // units
    could = fits(cluster, limits)
    demand = cluster.demand[:, asked] // units
    some = np.flatnonzero(demand.any(axis=1))
    found, index = np.unique(demand[some], axis=0, return_inverse=True)
    share = (found / np.maximum(room.max(axis=0, initial=1), 1)).sum(axis=1)
    order = np.argsort(-share, kind="stable")
    of = np.full(cluster.n_classes, -1, dtype=np.int64)
    of[some] = np.argsort(order, kind="stable")[index.reshape(-1)]
    most = np.zeros((len(found), cluster.n_nodes), dtype=np.int64)
    np.add.at(most, of[some], np.minimum(limits, could[:, None])[some])
    count = np.zeros(len(found), dtype=np.int64)
    np.add.at(count, of[some], could[some])
    return Sizes(found[order], of, room, most, count)


@dataclass(frozen=True)
class Listing:
    """Which patterns are listed.

    Attributes:
        spare: int64[C], what a node may have left over.
        most: Patterns of a node; where there are more, so many of them at random.
        over: Whether time is up, asked before each node.
    """

    spare: Ints
    most: int
    over: Callable[[], bool] = lambda: False


def full_patterns(sizes: Sizes, slots: Ints, listing: Listing, rng: np.random.Generator) -> list[Ints] | None:
    """Return for each node patterns int64[P, K] that leave no more of it than they may; None where sizes are too many or sums too large to
    list them, or time is up.

    Where a node may have left over what all nodes together waste, and has fewer patterns than are listed at most, these are all that it can
    have if all pods are placed. ``slots``: int64[N], pods that nodes take at most."""
    if not 0 < len(sizes.count) <= SIZES:
        return None
    columns = _columns(sizes)
    top = sizes.room[:, columns].max(axis=0, initial=0)
    if prod(int(most) + 1 for most in top) > CELLS:
        return None
    tables = _reachable(sizes, columns, top, listing.spare[columns])
    known: dict[bytes, Ints] = {}
    found: list[Ints] = []
    for n in range(len(sizes.room)):
        if listing.over():
            return None
        most = np.minimum(sizes.most[:, n], sizes.count)
        key = sizes.room[n].tobytes() + most.tobytes() + slots[n : n + 1].tobytes()
        if key not in known:
            patterns = _node(sizes.demand[:, columns], most, sizes.room[n, columns], tables, listing.most, rng)
            rest = sizes.room[n] - patterns @ sizes.demand
            known[key] = patterns[((rest >= 0) & (rest <= listing.spare)).all(axis=1) & (patterns.sum(axis=1) <= slots[n])]
        found.append(known[key])
    return found


def _columns(sizes: Sizes) -> Ints:
    """The resources of the tables: the two that tell most sizes apart."""
    distinct = [len(np.unique(column)) for column in sizes.demand.T]
    return np.sort(np.argsort(-np.array(distinct, dtype=np.int64), kind="stable")[:2])


def _reachable(sizes: Sizes, columns: Ints, top: Ints, spare: Ints) -> list[_Table]:
    """The amounts up to ``top`` that sizes i, i + 1, … can use up but for what may be left over: a table for each i, and for no size."""
    first = np.zeros(tuple(top + 1), dtype=bool)
    first[tuple(slice(0, int(w) + 1) for w in np.minimum(spare, top))] = True
    found = [first]
    for demand, most in zip(sizes.demand[::-1][:, columns], sizes.most.max(axis=1, initial=0)[::-1], strict=True):
        table = found[-1]
        left, part = int(min(most, (top // np.maximum(demand, 1))[demand > 0].min(initial=most))), 1
        while left > 0:  # 1, 2, 4, … and the rest add up to every number of pods
            table = table | _shifted(table, demand * min(part, left))
            left, part = left - part, 2 * part
        found.append(table)
    return found[::-1]


def _shifted(table: _Table, by: Ints) -> _Table:
    moved = np.zeros_like(table)
    if (by < table.shape).all():
        kept = tuple(slice(0, size - b) for b, size in zip(by.tolist(), table.shape, strict=True))
        moved[tuple(slice(b, None) for b in by.tolist())] = table[kept]
    return moved


def _node(demand: Ints, most: Ints, room: Ints, tables: Sequence[_Table], listed: int, rng: np.random.Generator) -> Ints:
    """Patterns int64[P, K] of one node as far as the tables tell, size after size. ``demand``: int64[K, 2]; ``most``: int64[K]."""
    chosen = np.zeros((1, len(most)), dtype=np.int64)
    rest = room[None, :]
    if not tables[0][tuple(room)]:
        return chosen[:0]
    for i, after in enumerate(tables[1:]):
        grown, left = [chosen[:0]], [rest[:0]]
        for k in range(int(most[i]) + 1):
            now = rest - k * demand[i]
            inside = np.flatnonzero((now >= 0).all(axis=1))
            if not len(inside):
                break
            fine = inside[after[tuple(now[inside].T)]]
            more = chosen[fine]
            more[:, i] = k
            grown.append(more)
            left.append(now[fine])
        chosen, rest = np.concatenate(grown), np.concatenate(left)
        if len(chosen) > listed:
            kept = np.sort(rng.choice(len(chosen), listed, replace=False))
            chosen, rest = chosen[kept], rest[kept]
    return chosen
