"""Patterns (pods of each size) that fill a node to the last unit, or leave no more than an allowed amount.

Sizes are the distinct requests of pods. Patterns are listed size by size. Tables of the sums over two resources that the
remaining sizes can reach prune patterns that cannot be completed. Further resources and pod slots are checked at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import TypeAlias

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.partition import equivalence
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.eligibility import fits

#: Sizes, and cells of one table. Nothing is listed for larger instances.
MAX_SIZES, MAX_TABLE_CELLS = 64, 4_000_000
_Table: TypeAlias = Bools


@dataclass(frozen=True)
class Sizes:
    """Distinct requests of pods, in units that divide all requests.

    Attributes:
        demand: Distinct requests, int64[K, C], large ones first; without columns that no pod requests.
        of: Size of each class, int64[G]; -1 if it requests nothing.
        room: Capacity of the nodes, int64[N, C]; 0 on nodes that take no pod.
        upper: Maximum pods of each size on each node, int64[K, N].
        count: Pods of each size that fit somewhere, int64[K].
    """

    demand: Ints
    of: Ints
    room: Ints
    upper: Ints
    count: Ints

    @property
    def waste(self) -> Ints:
        """Residual capacity of all nodes with all pods placed, int64[C]. Negative if they do not all fit."""
        return np.asarray(self.room.sum(axis=0) - self.demand.T @ self.count)


def sizes_of(cluster: Cluster, eligibility: Ints) -> Sizes:
    """Return the pod sizes of a cluster.

    Args:
        eligibility: Maximum pods of each class on each node, int64[G, N].
    """
    requested = np.flatnonzero(cluster.demand.any(axis=0)).tolist()
    units = np.array([gcd(*cluster.demand[:, r].tolist()) for r in requested], dtype=np.int64)
    useful: Bools = np.asarray(eligibility.any(axis=0))
    room = np.where(useful[:, None], np.maximum(cluster.free[:, requested], 0), 0) // units
    could = fits(cluster, eligibility)
    demand = cluster.demand[:, requested] // units
    some = np.flatnonzero(demand.any(axis=1))
    same = equivalence(demand[some])
    distinct = demand[some][same.firsts]
    share = (distinct / np.maximum(room.max(axis=0, initial=1), 1)).sum(axis=1)
    order = np.argsort(-share, kind="stable")
    of = np.full(cluster.n_classes, -1, dtype=np.int64)
    of[some] = np.argsort(order, kind="stable")[same.of]
    upper = np.zeros((len(distinct), cluster.n_nodes), dtype=np.int64)
    np.add.at(upper, of[some], np.minimum(eligibility, could[:, None])[some])
    count = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(count, of[some], could[some])
    return Sizes(distinct[order], of, room, upper, count)


@dataclass(frozen=True)
class Listing:
    """Parameters of a listing.

    Attributes:
        spare: Residual capacity that a node may have, int64[C].
        max_patterns: Maximum patterns of a node. If there are more, a random sample is kept.
        over: Returns True when time is up. Checked before each node.
    """

    spare: Ints
    max_patterns: int
    over: Callable[[], bool] = lambda: False


def full_patterns(sizes: Sizes, slots: Ints, listing: Listing, rng: np.random.Generator) -> list[Ints] | None:
    """Return for each node the patterns int64[P, K] that leave no more than the allowed residual capacity.

    Return None if there are too many sizes, if the sums are too large, or if time is up. If a node may leave the total
    waste of all nodes, and has fewer patterns than the maximum, the list is complete. It then contains every pattern that
    the node can have when all pods are placed.

    Args:
        slots: Maximum pods of each node, int64[N].
    """
    if not 0 < len(sizes.count) <= MAX_SIZES:
        return None
    columns = _columns(sizes)
    top = sizes.room[:, columns].max(axis=0, initial=0)
    if prod(int(n) + 1 for n in top) > MAX_TABLE_CELLS:
        return None
    tables = _reachable(sizes, columns, top, listing.spare[columns])
    search = _NodeSearch(sizes.demand[:, columns], tables, listing.max_patterns, rng)
    known: dict[bytes, Ints] = {}
    found: list[Ints] = []
    for n in range(len(sizes.room)):
        if listing.over():
            return None
        upper = np.minimum(sizes.upper[:, n], sizes.count)
        key = sizes.room[n].tobytes() + upper.tobytes() + slots[n : n + 1].tobytes()
        if key not in known:
            patterns = search.patterns(upper, sizes.room[n, columns])
            residual = sizes.room[n] - patterns @ sizes.demand
            known[key] = patterns[((residual >= 0) & (residual <= listing.spare)).all(axis=1) & (patterns.sum(axis=1) <= slots[n])]
        found.append(known[key])
    return found


def _columns(sizes: Sizes) -> Ints:
    """Return the two resources in which most sizes differ. They index the tables."""
    distinct = [len(np.unique(column)) for column in sizes.demand.T]
    return np.sort(np.argsort(-np.array(distinct, dtype=np.int64), kind="stable")[:2])


def _reachable(sizes: Sizes, columns: Ints, top: Ints, spare: Ints) -> list[_Table]:
    """Return, for each i, a table of the amounts up to ``top`` that sizes i, i + 1, … can use up, except for ``spare``."""
    first = np.zeros(tuple(top + 1), dtype=bool)
    first[tuple(slice(0, int(w) + 1) for w in np.minimum(spare, top))] = True
    tables = [first]
    for demand, upper in zip(sizes.demand[::-1][:, columns], sizes.upper.max(axis=1, initial=0)[::-1], strict=True):
        table = tables[-1]
        remaining, part = int(min(upper, (top // np.maximum(demand, 1))[demand > 0].min(initial=upper))), 1
        while remaining > 0:  # 1, 2, 4, … and the remainder add up to every number of pods
            table = table | _shifted(table, demand * min(part, remaining))
            remaining, part = remaining - part, 2 * part
        tables.append(table)
    return tables[::-1]


def _shifted(table: _Table, by: Ints) -> _Table:
    moved = np.zeros_like(table)
    if (by < table.shape).all():
        kept = tuple(slice(0, size - b) for b, size in zip(by.tolist(), table.shape, strict=True))
        moved[tuple(slice(b, None) for b in by.tolist())] = table[kept]
    return moved


@dataclass(frozen=True)
class _NodeSearch:
    """The listing of the patterns of one node after the other.

    Attributes:
        demand: Demand of a pod of each size, int64[K, 2].
        tables: See :func:`_reachable`.
        max_patterns: Maximum number of patterns. If one size leads to more, a random sample is kept.
    """

    demand: Ints
    tables: Sequence[_Table]
    max_patterns: int
    rng: np.random.Generator

    def patterns(self, upper: Ints, room: Ints) -> Ints:
        """Return patterns int64[P, K] of a node: the numbers of pods of each size that the tables allow.

        Args:
            upper: Maximum number of pods of each size, int64[K].
            room: Room of the node, int64[2].
        """
        chosen = np.zeros((1, len(upper)), dtype=np.int64)
        residual = room[None, :]
        if not self.tables[0][tuple(room)]:
            return chosen[:0]
        for i, after in enumerate(self.tables[1:]):
            grown, residuals = [chosen[:0]], [residual[:0]]
            for k in range(int(upper[i]) + 1):
                now = residual - k * self.demand[i]
                inside = np.flatnonzero((now >= 0).all(axis=1))
                if not len(inside):
                    break
                fine = inside[after[tuple(now[inside].T)]]
                more = chosen[fine]
                more[:, i] = k
                grown.append(more)
                residuals.append(now[fine])
            chosen, residual = np.concatenate(grown), np.concatenate(residuals)
            if len(chosen) > self.max_patterns:
                kept = np.sort(self.rng.choice(len(chosen), self.max_patterns, replace=False))
                chosen, residual = chosen[kept], residual[kept]
        return chosen
