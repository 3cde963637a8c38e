"""State of a placement during repair: the room, verdicts and distinct pods of each node, in arrays.

Classes are 0 to G - 1. Class G is "nothing": it requests nothing and is on every node, so that a move is an exchange with
it."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Cluster, Ints, domain_sum
from kubestow.models.kube.selectors import Bools
from kubestow.solver.devices.supply import supply
from kubestow.solver.devices.together import together
from kubestow.solver.rules.base import CapacityRule, Rule


class ClassExclusions:
    """Classes that keep each other off a node or a domain (:meth:`Rule.exclusions`)."""

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        self.cluster = cluster
        self.near: list[list[Ints]] = [[] for _ in cluster.classes]  # classes kept off the node itself
        self.wide: list[list[tuple[Ints, str]]] = [[] for _ in cluster.classes]  # classes kept off a domain of a key
        self.own_keys: list[list[str]] = [[] for _ in cluster.classes]  # keys in ``wide`` whose domains the class closes to itself
        exclusions = [exclusion for rule in rules for exclusion in rule.exclusions()]
        for classes, kept_off, key in sorted(exclusions, key=lambda exclusion: exclusion[2] is None):  # domains first
            for g in classes.tolist() if len(kept_off) else ():
                self._add(g, kept_off, key)

    def _add(self, g: int, kept_off: Ints, key: str | None) -> None:
        if key is None:
            self.near[g].append(kept_off)
            return
        codes, size = self.cluster.domains(key)
        if size == self.cluster.n_nodes and (codes >= 0).all():
            self.near[g].append(kept_off)
        else:
            self.wide[g].append((kept_off, key))
            if g in kept_off:
                self.own_keys[g].append(key)


class RepairState:
    """The placement under repair.

    Attributes:
        demand: Demand per pod, int64[G + 1, C], in units that divide all requests; pod slots last.
        room: Residual capacity, int64[N, C], in the same units. A placement fits if no entry is negative.
        block: Number of reasons against a class on a node other than room and spread constraints, int32[G + 1, N].
        on: Distinct movable classes of each node, int64[N, W]: "nothing" first, unused entries -1.
        active: Rules in the state of ``counts`` after :meth:`settle`.
        lonely: Classes whose devices are columns of ``room`` and are checked per node by :meth:`served`, bool[G].
    """

    def __init__(self, cluster: Cluster, active: Sequence[Rule], eligibility: Ints, counts: Ints) -> None:
        self.cluster, self.active = cluster, active
        size, width = cluster.n_nodes, cluster.n_classes
        self.nothing = width
        self._together = together(cluster)
        self.lonely = np.zeros(width, dtype=bool) if self._together is None else self._together.lonely
        fit = CapacityRule.of(active)
        self._blocking = [rule for rule in active if rule is not fit and not rule.settled]  # for ``block``
        settled = [type(rule)(cluster) for rule in active if rule.settled]  # in the current state, unlike ``active``
        self.settled = [[rule for rule in settled if rule.concerned(g)] for g in range(width)]
        self.exclusions = ClassExclusions(cluster, active)
        self.mobile = np.array([self._movable(g) for g in range(width)] + [True, False], dtype=bool)
        self._measure()
        self.block = np.zeros((width + 1, size), dtype=np.int32)
        self._possible = eligibility > 0
        self.block[:width] = ~self._possible
        self._lacks = np.zeros((width, size), dtype=bool)
        self._followers: list[list[int]] = [[] for _ in range(width)]
        self.counts = np.zeros_like(counts)
        self.unplaced = cluster.count.copy()
        self.on = np.full((size, 8), -1, dtype=np.int64)
        self.on[:, 0] = self.nothing
        self._unsettled: dict[tuple[int, int], int] = {}
        for g, n in zip(*(cells.tolist() for cells in np.nonzero(counts)), strict=True):
            self.put(g, n, int(counts[g, n]))
        self._unsettled.clear()
        if self._together is not None:
            for n in np.flatnonzero(counts.any(axis=0)).tolist():
                self._together.note(n, self._lonely_on(n))
        for h in (h for h in range(width) if self.mobile[h]):
            affinity = cluster.classes[h].affinity
            if affinity is not None:
                for g in np.flatnonzero(cluster.matches(affinity.full)).tolist():
                    self._followers[g].append(h)
                self._follow([h])

    def _movable(self, g: int) -> bool:
        """Return whether pods of a class may move. Providers of affinity and pods that share claims, for example, may not."""
        return all(rule.repairable(g) or (rule.supplied and self.lonely[g]) for rule in self._blocking)

    def _measure(self) -> None:
        """Fill ``demand`` and ``room``, without columns that no pod requests."""
        cluster = self.cluster
        demand, room = [], []
        for r in np.flatnonzero(cluster.demand.any(axis=0)).tolist():
            unit = gcd(*cluster.demand[:, r].tolist())
            demand.append(cluster.demand[:, r] // unit)
            room.append(np.maximum(cluster.free[:, r], 0) // unit)  # an overcommitted node still takes pods without requests
        for requested, there in zip(*(columns.T for columns in supply(cluster)), strict=True):
            demand.append(np.where(self.lonely, requested, 0))
            room.append(there)
        demand.append(np.ones(cluster.n_classes, dtype=np.int64))
        room.append(np.maximum(cluster.slots, 0))
        self.demand = np.vstack([np.array(demand, dtype=np.int64).T, np.zeros((1, len(demand)), dtype=np.int64)])
        self.room = np.array(room, dtype=np.int64).T.copy()

    def put(self, g: int, n: int, k: int) -> None:
        """Add k pods (or remove -k) of class g on node n, without checking any rule."""
        before = int(self.counts[g, n])
        self.counts[g, n] = before + k
        self.unplaced[g] -= k
        self.room[n] -= k * self.demand[g]
        self._unsettled[g, n] = self._unsettled.get((g, n), 0) + k
        for group in self.exclusions.near[g]:
            self.block[group, n] += k
        for group, key in self.exclusions.wide[g]:
            code = int(self.cluster.domains(key)[0][n])
            if code >= 0:
                self.block[np.ix_(group, self.cluster.members(key)[code])] += k
        for rule in self.settled[g]:
            rule.place(g, n, k)
        if self._followers[g]:
            self._follow(self._followers[g])
        if self.mobile[g] and (not before or not before + k):
            self._list(g, n, arrived=not before)

    def _list(self, g: int, n: int, *, arrived: bool) -> None:
        row = self.on[n]
        if arrived:
            empty = int(np.argmin(row))
            if row[empty] >= 0:
                self.on = np.hstack([self.on, np.full_like(self.on, -1)])
                row, empty = self.on[n], len(row)
            row[empty] = g
        else:
            row[int(np.argmax(row == g))] = -1

    def settle(self) -> None:
        """Bring the rules in ``active`` up to date."""
        for (g, n), k in self._unsettled.items():
            if k:
                for rule in self.active:
                    if rule.concerned(g):
                        rule.place(g, n, k) if k > 0 else rule.remove(g, n, -k)
        self._unsettled.clear()

    def _near_providers(self, g: int) -> Bools:
        """Return bool[N]: nodes whose domains, for every key of the class's required affinity, hold a matching pod."""
        cluster, affinity = self.cluster, self.cluster.classes[g].affinity
        assert affinity is not None
        found = np.ones(cluster.n_nodes, dtype=bool)
        matching = cluster.fixed_count(affinity.full) + self.counts[cluster.matches(affinity.full)].sum(axis=0)
        for key in affinity.keys:
            codes, size = cluster.domains(key)
            found &= np.append(domain_sum(codes, size, matching) > 0, False)[codes]
        return found

    def _follow(self, followers: Sequence[int]) -> None:
        """Update the verdicts of movable classes that must be near providers, which never move, after a provider arrives."""
        for h in followers:
            lacks = ~self._near_providers(h)
            self.block[h] += lacks.astype(np.int32) - self._lacks[h].astype(np.int32)
            self._lacks[h] = lacks

    def verdict(self, g: int) -> Bools:
        """Return bool[N]: nodes that accept one more pod of class g, apart from room."""
        fine: Bools = self.block[g] == 0
        if not self.mobile[g]:
            self.settle()
            for rule in self._blocking:
                if not (rule.supplied and self.lonely[g]):
                    fine &= ~rule.rejects(g)
        for rule in self.settled[g]:
            fine &= rule.obeyed(g)
        return fine

    def kept(self, classes: Sequence[int]) -> bool:
        """Return whether the rules on the settled state, such as spread constraints, are obeyed for these classes."""
        return all(rule.kept(g) for g in classes if g != self.nothing for rule in self.settled[g])

    def served(self, n: int) -> bool:
        """Return whether the devices of a node serve its pods together. An overfull node counts as served until it fits."""
        if self._together is None or (self.room[n] < 0).any():
            return True
        return self._together.fits(n, self._lonely_on(n))

    def _lonely_on(self, n: int) -> dict[int, int]:
        here = np.flatnonzero((self.counts[:, n] > 0) & self.lonely)
        return dict(zip(here.tolist(), self.counts[here, n].tolist(), strict=True))

    def blocked(self, ours: Ints, n: int, where: Ints) -> NDArray[np.int32]:
        """Return int32[len(ours), len(where)]: ``block`` on nodes ``where`` of classes on node n, with that pod removed from n."""
        found = self.block[ours[:, None], where]
        for i, g in enumerate(ours.tolist()):
            for key in self.exclusions.own_keys[g] if g != self.nothing else ():
                codes = self.cluster.domains(key)[0]
                if codes[n] >= 0:
                    found[i] -= codes[where] == codes[n]
        return found

    def clearable(self, g: int) -> Bools:
        """Return bool[N]: nodes where class g is blocked by other pods, which may be movable."""
        return np.asarray(self._possible[g] & (self.block[g] > 0) & ~self._lacks[g])

    def against(self, g: int, n: int, max_pods: int) -> list[tuple[int, int]] | None:
        """Return the movable pods, as (class, node), that keep class g off node n.

        Return None if there are none, more than ``max_pods``, or any that cannot move."""
        pods: dict[tuple[int, int], int] = {}
        groups = [(group, np.array([n])) for group in self.exclusions.near[g]]
        for group, key in self.exclusions.wide[g]:
            code = int(self.cluster.domains(key)[0][n])
            if code >= 0:
                groups.append((group, self.cluster.members(key)[code].astype(np.int64)))
        for group, nodes in groups:
            counts = self.counts[np.ix_(group, nodes)]
            if int(counts.sum()) > max_pods:
                return None
            for i, j in zip(*np.nonzero(counts), strict=True):
                pods[int(group[i]), int(nodes[j])] = int(counts[i, j])
        if not 0 < sum(pods.values()) <= max_pods or not all(self.mobile[h] for h, _ in pods):
            return None
        return [pod for pod, k in pods.items() for _ in range(k)]
