"""Nodes where a group of classes displaces other pods at the least loss, among nodes that are alike for the group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.search.local_search import LocalSearch

HOMELESS_COST = 1 << 40  #: Points. Cost of a pod that would have no node at all.


class Displacement:
    """Displacement by one group.

    Args:
        classes: Classes of the group, which only room ties to others.
        pools: int64[N], equal numbers for nodes that differ only in eligibility and room.
    """

    def __init__(self, search: LocalSearch, classes: Sequence[int], pools: Ints) -> None:
        self._search, self._classes, self._pools = search, list(classes), pools
        own = search.counts[self._classes]
        demand = search.cluster.demand[self._classes]
        self._own, self._demand = own, demand
        self._free: Ints = search.fit.free + own.T @ demand  # int64[N, R], without the group
        self._slots: Ints = search.fit.slots + own.sum(axis=0)
        self._others = [g for g in sorted(search.mobile.difference(self._classes)) if search.counts[g].any()]
        self._losses: dict[tuple[int, int], int] = {}

    def immovable(self) -> tuple[Ints, Ints]:
        """Return the room int64[N, R] and the slots int64[N] of other placed pods that cannot move, or lose points if they do."""
        search = self._search
        counts = search.counts.copy()
        counts[self._classes] = 0
        for g in self._others:
            for n in np.flatnonzero(counts[g]).tolist():
                if not self._loss(g, n):
                    counts[g, n] = 0
        return counts.T @ search.cluster.demand, counts.sum(axis=0)

    def least_loss(self, target: Ints) -> Ints:
        """Return the placement ``target`` with the pods of each node moved to the node of the same pool where others lose least.

        The largest sets of pods choose first. If one set finds no node, return ``target`` itself.

        Args:
            target: Placement of the group, int64[len(classes), N].
        """
        found = np.zeros_like(target)
        need = target.T @ self._demand
        size = (need / np.maximum(self._search.cluster.allocatable.max(axis=0), 1)).max(axis=1)
        columns = sorted(np.flatnonzero(target.any(axis=0)).tolist(), key=lambda n: (-float(size[n]), n))
        assigned = np.zeros(target.shape[1], dtype=bool)
        for column in columns:
            n = self._cheapest(target[:, column], need[column], (self._pools == self._pools[column]) & ~assigned)
            if n is None:
                return target
            found[:, n] = target[:, column]
            assigned[n] = True
        return found

    def _cheapest(self, pods: Ints, need: Ints, nodes: Bools) -> int | None:
        """Return the candidate node where other pods lose least. None if no candidate can hold the pods.

        Args:
            pods: Pods of each class of the group, int64[len(classes)].
            need: Their total demand, int64[R].
            nodes: The candidates, bool[N].
        """
        search, total = self._search, int(pods.sum())
        cluster = search.cluster
        fits = nodes & (search.eligibility[self._classes] >= pods[:, None]).all(axis=0) & (cluster.slots >= total)
        fits &= ((cluster.free >= need) | (need == 0)).all(axis=1)
        if not fits.any():
            return None
        short = np.where(need > 0, need - self._free, 0)
        over = total - self._slots
        roomy = fits & (short <= 0).all(axis=1) & (over <= 0)
        stays = np.minimum(self._own, pods[:, None]).sum(axis=0)
        if roomy.any():  # prefer nodes with most of the group already, then with least residual capacity
            residual = (self._free / np.maximum(cluster.allocatable.max(axis=0), 1)).sum(axis=1)
            return min(np.flatnonzero(roomy).tolist(), key=lambda n: (-int(stays[n]), float(residual[n]), n))
        return min(np.flatnonzero(fits).tolist(), key=lambda n: (self._cost(n, short[n], int(over[n])), -int(stays[n]), n))

    def _cost(self, n: int, short: Ints, over: int) -> int:
        """Return an estimate of the points that other pods lose if some must leave node n. HOMELESS_COST if too few can.

        Pods that lose least per freed capacity leave first. Each costs one more point.

        Args:
            short: Capacity that must become free, int64[R]. Nothing is short where it is not positive.
            over: Number of slots that must become free.
        """
        cluster, cost = self._search.cluster, 0
        weight = np.where(short > 0, short, 0) / np.maximum(cluster.allocatable.max(axis=0), 1)
        order = []
        for g in self._others:
            if self._search.counts[g, n]:
                freed = float(np.minimum(cluster.demand[g], np.maximum(short, 0)) @ weight) + (1e-9 if over > 0 else 0)
                if freed > 0:
                    order.append((self._loss(g, n) / freed, g))
        for _, g in sorted(order):
            for _ in range(int(self._search.counts[g, n])):
                if (short <= 0).all() and over <= 0:
                    return cost
                cost += self._loss(g, n) + 1  # ties: move fewer pods
                short = short - cluster.demand[g]
                over -= 1
        return cost if (short <= 0).all() and over <= 0 else HOMELESS_COST

    def _loss(self, g: int, n: int) -> int:
        """Return a lower bound on the points that a pod of a class loses if it leaves a node now.

        HOMELESS_COST if no other node accepts it.
        """
        if (g, n) not in self._losses:
            search = self._search
            points = search.soft.away(g, n)
            open_ = (search.eligibility[g] > 0) & ~search.fit.rejects(g)
            open_[n] = False
            self._losses[g, n] = max(0, int(points[n] - points[open_].max())) if open_.any() else HOMELESS_COST
        return self._losses[g, n]
