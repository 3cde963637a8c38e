"""The soft objective of a placement that changes pod by pod: the gain of one more pod on each node."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints, domain_sum, single
from kubestow.solver.objective.domain_evenness import counting
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import PreferenceTerm
from kubestow.solver.rules.base import on_nodes
from kubestow.solver.rules.batch_limits import Level

MAX_SINGLE_UPDATES = 3  #: Up to this many nodes are updated one by one; sums over all domains are as fast for more.


class _Layer:
    """All pair terms over one topologyKey.

    ``matched`` and ``owned``, int64[T, D + 1], count pending pods. The last column stays 0 for nodes without the key
    (code -1)."""

    def __init__(self, objective: Objective, key: str) -> None:
        self.key = key
        self.terms = [t for t in objective.pairs if objective.terms[t].key == key]
        first = objective.terms[self.terms[0]]
        self.codes: Ids = first.codes
        self.matched = np.zeros((len(self.terms), first.size + 1), dtype=np.int64)
        self.owned = np.zeros((len(self.terms), first.size + 1), dtype=np.int64)
        at = {t: i for i, t in enumerate(self.terms)}
        self.own: list[Ids] = []
        self.weights: list[Ints] = []
        self.matching: list[Ids] = []
        for g in range(objective.cluster.n_classes):
            own = [t for t in objective.owned[g] if t in at]
            self.own.append(np.array([at[t] for t in own], dtype=np.int32))
            weights = [objective.terms[t].multiplier * objective.terms[t].own[g] for t in own]
            self.weights.append(np.array(weights, dtype=np.int64))
            self.matching.append(np.array([at[t] for t in objective.matching[g] if t in at], dtype=np.int32))
        # points of a pair of pods of a class in one domain
        self.itself = [
            2 * int(weights[np.isin(own, matching)].sum())
            for own, weights, matching in zip(self.own, self.weights, self.matching, strict=True)
        ]
        self.single = single(self.codes, first.size)

    def touches(self, g: int) -> bool:
        return bool(len(self.own[g]) or len(self.matching[g]))

    def met(self, g: int, nodes: Ints) -> bool:
        """Return whether a pod matched by terms of the class is in the domain of any of these nodes."""
        return bool(self.matched[self.own[g]][:, self.codes[nodes]].any())

    def gain(self, g: int) -> Ints:
        """Return int64[N]: points of one more pod of the class."""
        points = np.zeros(self.matched.shape[1], dtype=np.int64)
        for t, weight in zip(self.own[g].tolist(), self.weights[g].tolist(), strict=True):
            points += weight * self.matched[t]
        for t in self.matching[g].tolist():
            points += self.owned[t]
        return points.take(self.codes)

    def place(self, g: int, n: int, k: int) -> None:
        d = self.codes[n]
        if d >= 0:
            self.matched[self.matching[g], d] += k
            self.owned[self.own[g], d] += k * self.weights[g]

    def place_many(self, g: int, nodes: Ints, pods: Ints) -> None:
        more = domain_sum(self.codes[nodes], self.matched.shape[1], pods)
        self.matched[self.matching[g]] += more
        self.owned[self.own[g]] += np.outer(self.weights[g], more)


class SoftState:
    """Counters of all soft families over a changing placement, initially empty.

    Attributes:
        room_charge: Maps a class to the points charged per node, int64[N], for the room of a pod. None for no charge.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        keys = dict.fromkeys(objective.terms[t].key for t in objective.pairs)
        layers = [_Layer(objective, key) for key in keys]
        self._layers = [[layer for layer in layers if layer.touches(g)] for g in range(objective.cluster.n_classes)]
        self._tallies: dict[int, Ints] = {}
        self.crowds = bool(counting(objective))

        self.room_charge: Callable[[int], Ints] | None = None

    def steady(self, g: int) -> Ints:
        """Return int64[N]: weighted points of a pod of class g on each node, without soft spread constraints."""
        points = self._alone(g)
        for layer in self._layers[g]:
            points = points + layer.gain(g)
        return points

    def gain(self, g: int) -> Ints:
        """Return int64[N]: weighted points that one more pod of class g adds on each node."""
        points = self.steady(g)
        for i in self.objective.feeds[g]:
            if (skew := self._skew_gain(i)) is not None:
                points = points + skew
        return points

    def away(self, g: int, home: int) -> Ints:
        """Return int64[N]: weighted points of a pod of class g on each node, after removing it from ``home``."""
        points = self._alone(g)
        for layer in self._layers[g]:
            points = points + layer.gain(g)
            if layer.itself[g] and (d := layer.codes[home]) >= 0:
                points[home if layer.single else layer.codes == d] -= layer.itself[g]
        for i in self.objective.feeds[g]:
            counts, d = self.counted(i), self.objective.tallies[i].codes[home]
            if d >= 0:
                counts[d] -= 1
            if (skew := self._skew_gain(i)) is not None:
                points = points + skew
            if d >= 0:
                counts[d] += 1
        return points

    def _alone(self, g: int) -> Ints:
        """Return int64[N]: points of a pod of class g on each node without other pending pods, minus its charge."""
        points = self.objective.node_points(g)
        return points if self.room_charge is None else points - self.room_charge(g)

    def _skew_gain(self, i: int) -> Ints | None:
        """Return int64[N]: the gain from constraint i. None while no domain is full."""
        tally, counts = self.objective.tallies[i], self.counted(i)
        if (highest := int(counts.max())) < tally.spread.max_skew:
            return None  # the minimum is at least 0
        floor = tally.floor(counts)
        limit = floor + tally.spread.max_skew
        if highest < limit:
            return None
        cost = tally.cost * tally.multiplier
        gain = -cost * (counts >= limit)
        lowest = np.flatnonzero(tally.usable & (counts == floor))
        if len(lowest) == 1:  # filling the only emptiest domain raises the limit of all domains
            gain[lowest[0]] = cost * int(np.count_nonzero(tally.counted & (counts > limit)))
        return on_nodes(gain, tally.codes)

    def crowding(self, g: int, home: int | None = None) -> Ints:
        """Return int64[N]: cost of one more pod of class g in the tier `topologySpread`.

        Args:
            home: Node that the pod leaves first. None if it is not placed.
        """
        cost = np.zeros(self.objective.cluster.n_nodes, dtype=np.int64)
        for i in self.objective.feeds[g] if self.crowds else ():
            codes = self.objective.tallies[i].codes
            cost += on_nodes(2 * self.counted(i) + 1, codes)
            if home is not None and codes[home] >= 0:
                cost -= 2 * (codes == codes[home])
        return cost

    def crowding_at(self, g: int, n: int) -> int:
        """Return :meth:`crowding` of one node, with no pod removed first."""
        cost = 0
        for i in self.objective.feeds[g] if self.crowds else ():
            d = self.objective.tallies[i].codes[n]
            if d >= 0:
                cost += 2 * int(self.counted(i)[d]) + 1
        return cost

    def place(self, g: int, n: int, k: int = 1) -> None:
        """Put k pods of class g on node n (remove them if k < 0)."""
        for layer in self._layers[g]:
            layer.place(g, n, k)
        for i in self.objective.feeds[g]:
            d = self.objective.tallies[i].codes[n]
            if d >= 0:
                self.counted(i)[d] += k

    def place_many(self, g: int, nodes: Ints, pods: Ints) -> None:
        """Put pods[i] pods of class g on nodes[i]."""
        if len(nodes) <= MAX_SINGLE_UPDATES:
            for n, k in zip(nodes.tolist(), pods.tolist(), strict=True):
                self.place(g, n, k)
            return
        for layer in self._layers[g]:
            layer.place_many(g, nodes, pods)
        for i in self.objective.feeds[g]:
            tally = self.objective.tallies[i]
            self.counted(i)[:] += domain_sum(tally.codes[nodes], tally.size, pods)

    def counted(self, i: int) -> Ints:
        """Return int64[D]: pods that tally i counts. Created on first use, because a cluster has tens of thousands of tallies."""
        found = self._tallies.get(i)
        if found is None:
            found = self._tallies[i] = self.objective.tallies[i].base.copy()
        return found

    # --- for construction -----------------------------------------------------------------------------------------------------

    def touches(self, g: int) -> bool:
        """Return whether the points of the class depend on the placement."""
        return bool(self._layers[g] or self.objective.feeds[g])

    def levels(self, g: int) -> list[Level]:
        """Return the levels of the soft constraints that count the class."""
        found = []
        for i in self.objective.feeds[g]:
            tally = self.objective.tallies[i]
            found.append(Level(tally.codes, self.counted(i), tally.usable, tally.spread.max_skew, False, tally.single, True))
        return found

    def shy(self, g: int) -> list[tuple[Ids, int]]:
        """Return (codes, size) of the keys over which pods of the class repel each other."""
        return [(t.codes, t.size) for t in self._own(g) if t.own[g] < 0]

    def flocking(self, g: int, nodes: Ints) -> list[str]:
        """Return the keys over which pods of the class attract each other, if none of these nodes has such a pod in its domain."""
        placed = {layer.key: layer for layer in self._layers[g]}
        return list(dict.fromkeys(t.key for t in self._own(g) if t.own[g] > 0 and not placed[t.key].met(g, nodes)))

    def flocks(self, g: int) -> bool:
        """Return whether pods of the class attract each other over some key."""
        return any(t.own[g] > 0 for t in self._own(g))

    def gregarious(self, g: int) -> bool:
        """Return whether pods of the class attract each other on one node."""
        return any(t.own[g] > 0 and single(t.codes, t.size) for t in self._own(g))

    def _own(self, g: int) -> list[PreferenceTerm]:
        """Return the terms of the class that match the class itself."""
        terms = (self.objective.terms[t] for t in self.objective.owned[g])
        return [t for t in terms if g in t.matches]
