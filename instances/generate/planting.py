"""A placement built while a snapshot is drawn. It determines which rules can be met, and the nodes of running pods.

Workload after workload is spread evenly over the zones and nodes that its rules allow. No part of the solver is
used, so that neither can hide a fault of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kubestow.instances.generate.fleet import CPU, Bools, Fleet, Ints
from kubestow.instances.generate.workload import Wishes

UNLIMITED_PODS: Final = 1 << 40
#: Divisor: pods with hard rules request at most 1/6 of the CPUs of the nodes that their rules allow.
_MIN_CPU_RATIO: Final = 6


@dataclass
class Rule:
    """A hard rule: the pods' fields (``wishes``), and their meaning for the planted placement.

    Attributes:
        wishes: Fields of the pods.
        nodes: bool[N], True where the node selection allows it.
        zones: The only allowed zones (those of a provider), or None.
        per_node: Largest number of replicas per node.
        skew: Largest difference between zones, 0 for any.
        port: Host port that a pod takes.
        provider: Index of the workload that it has affinity to.
    """

    wishes: Wishes = field(default_factory=Wishes)
    nodes: Bools | None = None
    zones: tuple[int, ...] | None = None
    per_node: int = UNLIMITED_PODS
    skew: int = 0
    port: int | None = None
    provider: int | None = None


def fill(caps: Ints, count: int) -> Ints | None:
    """Distribute ``count`` items over places as evenly as possible, at most ``caps`` each; earlier places take the remainder.

    Returns:
        int64[K], or None if there is not enough room.
    """
    if int(caps.sum()) < count:
        return None
    ordered = np.sort(caps)
    sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(ordered)])
    # At level L, places with smaller caps are full. Find the largest L whose total does not exceed the count.
    places = len(caps)
    full = np.arange(places, dtype=np.int64)
    reached = sums[:-1] + ordered * (places - full)
    below = int(np.searchsorted(reached, count, side="right"))
    if below == places:
        return caps.copy()
    level = (count - int(sums[below])) // (places - below)
    given = np.minimum(caps, level)
    more = np.flatnonzero(caps > level)[: count - int(given.sum())]
    given[more] += 1
    return given


class Planter:
    """The state of the planted placement.

    Attributes:
        fleet: The nodes.
        free: Free amounts per node, int64[N, 5].
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.free = fleet.allocatable.copy()
        self._tainted = np.array([taint is not None for taint in fleet.taint], dtype=bool)
        # On these nodes the alignment of Guaranteed pods depends on the bind order.
        self._aligning = np.array([policy not in (None, "none") for policy in fleet.policy], dtype=bool)
        self._ports: dict[int, Bools] = {}

    def everywhere(self, demand: tuple[int, ...]) -> list[int]:
        """Plant one pod on every node, ignoring taints."""
        self.free -= np.array(demand, dtype=np.int64)
        return list(range(len(self.fleet)))

    def plant(self, demand: tuple[int, ...], replicas: int, rules: list[Rule], pool: Bools | None, *, guaranteed: bool) -> list[int]:
        """Return nodes of the replicas in a bind order in which each obeys the rules, or nothing if there is not enough room."""
        chosen = np.ones(len(self.fleet), dtype=bool) if pool is None else pool.copy()
        for rule in rules:
            if rule.nodes is not None:
                chosen &= rule.nodes
        open_ = chosen if pool is not None else chosen & ~self._tainted
        if rules and not self._easy(demand, replicas, rules, open_):
            return []
        caps = self._caps(demand, rules)
        caps[~open_] = 0
        if guaranteed:
            caps[self._aligning] = 0
        np.minimum(caps, replicas, out=caps)
        quotas = self._quotas(caps, replicas, rules, chosen)
        if quotas is None:
            return []
        found = self._in_turn(caps, quotas)
        np.subtract.at(self.free, found, np.array(demand, dtype=np.int64))
        for rule in rules:
            if rule.port is not None:
                self._ports[rule.port][found] = True
        return found

    def _easy(self, demand: tuple[int, ...], replicas: int, rules: list[Rule], nodes: Bools) -> bool:
        """Return True if the rules leave a wide choice, also in other placements where a provider may be in one zone only."""
        for rule in rules:
            if rule.zones:
                nodes = nodes & (self.fleet.zone == rule.zones[0])
        room = min(rule.per_node for rule in rules) * int(np.count_nonzero(nodes))
        return 2 * replicas <= room and _MIN_CPU_RATIO * replicas * demand[CPU] <= int(self.fleet.allocatable[nodes, CPU].sum())

    def zones_of(self, nodes: list[int]) -> tuple[int, ...]:
        """Return the zones of these nodes."""
        return tuple(sorted(set(self.fleet.zone[nodes].tolist())))

    def _caps(self, demand: tuple[int, ...], rules: list[Rule]) -> Ints:
        """Return the number of such pods that each node can take, int64[N]."""
        caps = np.full(len(self.fleet), min(rule.per_node for rule in (*rules, Rule())), dtype=np.int64)
        for r, amount in enumerate(demand):
            if amount:
                np.minimum(caps, self.free[:, r] // amount, out=caps)
        for rule in rules:
            if rule.port is not None:
                taken = self._ports.setdefault(rule.port, np.zeros(len(self.fleet), dtype=bool))
                np.minimum(caps, (~taken).astype(np.int64), out=caps)
        return np.maximum(caps, 0)

    def _quotas(self, caps: Ints, replicas: int, rules: list[Rule], chosen: Bools) -> Ints | None:
        """Return the replicas of each zone, int64[Z], or None if that is impossible."""
        size = self.fleet.n_zones
        room = np.zeros(size, dtype=np.int64)
        np.add.at(room, self.fleet.zone, caps)
        for rule in rules:
            if rule.zones is not None:
                allowed = np.zeros(size, dtype=bool)
                allowed[list(rule.zones)] = True
                room[~allowed] = 0
        quotas = fill(room, replicas)
        skew = min((rule.skew for rule in rules if rule.skew), default=0)
        if quotas is not None and skew:
            # Taints are ignored (nodeTaintsPolicy Ignore), so a zone may count although no pod can run there.
            counted = np.unique(self.fleet.zone[chosen])
            if int(quotas[counted].max()) - int(quotas[counted].min()) > skew:
                return None
        return quotas

    def _in_turn(self, caps: Ints, quotas: Ints) -> list[int]:
        """Return the nodes in order: least used first in each zone, one replica per zone in turn."""
        allocatable = self.fleet.allocatable[:, CPU]
        used = (allocatable - self.free[:, CPU]) * 1000 // allocatable
        steps: list[tuple[int, int, int]] = []  # round within the zone, zone, node
        for zone, quota in enumerate(quotas.tolist()):
            if quota:
                nodes = np.flatnonzero((self.fleet.zone == zone) & (caps > 0))
                nodes = nodes[np.argsort(used[nodes], kind="stable")]
                given = fill(caps[nodes], quota)
                assert given is not None  # a quota is at most the sum of the caps
                order = [n for level in range(int(given.max())) for n in nodes[given > level].tolist()]
                steps += [(turn, zone, n) for turn, n in enumerate(order)]
        return [n for _, _, n in sorted(steps)]
