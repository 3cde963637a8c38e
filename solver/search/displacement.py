"""Where a group of classes displaces the least: of nodes that are alike for it, those whose other pods have to give way for little."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.search.local_search import LocalSearch

#: What it costs that someone would have no place at all.
NOWHERE = 1 << 40


class Displacement:
    """``classes``: those of the group, tied to no others by anything but room; ``pools``: int64[N], the same number where nodes differ
    in limits and room only."""

    def __init__(self, search: LocalSearch, classes: Sequence[int], pools: Ints) -> None:
        self._search, self._classes, self._pools = search, list(classes), pools
        own = search.counts[self._classes]
        demand = search.cluster.demand[self._classes]
        self._own, self._demand = own, demand
        self._free: Ints = search.fit.free + own.T @ demand  # int64[N, R]: were the group not there
        self._slots: Ints = search.fit.slots + own.sum(axis=0)
        self._others = [g for g in sorted(search.mobile.difference(self._classes)) if search.counts[g].any()]
        self._losses: dict[tuple[int, int], int] = {}

    def tied(self) -> tuple[Ints, Ints]:
        """Return int64[N, R] and int64[N]: room and slots of pods that lose something if they leave their nodes."""
        search = self._search
        counts = search.counts.copy()
        counts[self._classes] = 0
        for g in self._others:
            for n in np.flatnonzero(counts[g]).tolist():
                if not self._loss(g, n):
                    counts[g, n] = 0
        return counts.T @ search.cluster.demand, counts.sum(axis=0)

    def least(self, target: Ints) -> Ints:
        """Return int64[len(classes), N]: what ``target`` puts on one node each, on nodes of the same pools, the largest first."""
        found = np.zeros_like(target)
        need = target.T @ self._demand
        size = (need / np.maximum(self._search.cluster.allocatable.max(axis=0), 1)).max(axis=1)
        columns = sorted(np.flatnonzero(target.any(axis=0)).tolist(), key=lambda n: (-float(size[n]), n))
        taken = np.zeros(target.shape[1], dtype=bool)
        for column in columns:
            n = self._cheapest(target[:, column], need[column], (self._pools == self._pools[column]) & ~taken)
            if n is None:
                return target
            found[:, n] = target[:, column]
            taken[n] = True
        return found

    def _cheapest(self, pods: Ints, need: Ints, nodes: Bools) -> int | None:
        """Return the node, of some, where others lose least: bool[N]; None if none can hold so many."""
        search, total = self._search, int(pods.sum())
        cluster = search.cluster
        fits = nodes & (search.limits[self._classes] >= pods[:, None]).all(axis=0) & (cluster.slots >= total)
        fits &= ((cluster.free >= need) | (need == 0)).all(axis=1)
        if not fits.any():
            return None
        short = np.where(need > 0, need - self._free, 0)
        over = total - self._slots
        roomy = fits & (short <= 0).all(axis=1) & (over <= 0)
        stays = np.minimum(self._own, pods[:, None]).sum(axis=0)
        if roomy.any():  # where most of the group is, then where little is left
            rest = (self._free / np.maximum(cluster.allocatable.max(axis=0), 1)).sum(axis=1)
            return min(np.flatnonzero(roomy).tolist(), key=lambda n: (-int(stays[n]), float(rest[n]), n))
        return min(np.flatnonzero(fits).tolist(), key=lambda n: (self._cost(n, short[n], int(over[n])), -int(stays[n]), n))

    def _cost(self, n: int, short: Ints, over: int) -> int:
        """Return what others lose that leave a node until so much room (int64[R]) and so many slots are there."""
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
                cost += self._loss(g, n) + 1  # of equal ones, that which moves fewer pods
                short = short - cluster.demand[g]
                over -= 1
        return cost if (short <= 0).all() and over <= 0 else NOWHERE

    def _loss(self, g: int, n: int) -> int:
        """Return the points that a pod of a class loses if it has to leave a node, at least as things are."""
        if (g, n) not in self._losses:
            search = self._search
            points = search.soft.away(g, n)
            open_ = (search.limits[g] > 0) & ~search.fit.rejects(g)
            open_[n] = False
            self._losses[g, n] = max(0, int(points[n] - points[open_].max())) if open_.any() else NOWHERE
        return self._losses[g, n]
