"""A placement built while a snapshot is drawn: it tells which rules can be met, and where pods run that are to be running.

Workload after workload, each spread evenly over the zones and nodes that its rules leave. Nothing of the solver is used, so that neither
can hide a fault of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kubestow.instances.generate.fleet import CPU, Bools, Fleet, Ints
from kubestow.instances.generate.workload import Wishes

UNLIMITED: Final = 1 << 40
#: Pods with hard rules ask for at most this part of the CPUs of the nodes that are left to them.
_EASE: Final = 6


@dataclass
class Rule:
    """A hard rule: ``wishes`` is what the pods say, the rest what it means for the planted placement.

    ``nodes``: bool[N], where the node selection allows it. ``zones``: the only zones allowed (those of a provider). ``per_node``: most
    replicas on a node. ``skew``: largest difference between zones, 0 for any. ``port``: a port of the node that a pod takes.
    ``provider``: index of the workload that it wants to be near.
    """

    wishes: Wishes = field(default_factory=Wishes)
    nodes: Bools | None = None
    zones: tuple[int, ...] | None = None
    per_node: int = UNLIMITED
    skew: int = 0
    port: int | None = None
    provider: int | None = None


def fill(caps: Ints, count: int) -> Ints | None:
    """Return how many of ``count`` go to each place (int64[K], at most ``caps``), as evenly as may be; earlier places get what is left
    over. None if there is no room."""
    if int(caps.sum()) < count:
        return None
    ordered = np.sort(caps)
    sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(ordered)])
    # With everybody at level L the places with smaller caps are full: the largest L that is not too many in all.
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
    """The state of the planted placement: what is ``free`` on each node, int64[N, 5], and who holds which port."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.free = fleet.allocatable.copy()
        self._tainted = np.array([taint is not None for taint in fleet.taint], dtype=bool)
        # Guaranteed pods are aligned there in ways that depend on the order of binding.
        self._aligning = np.array([policy not in (None, "none") for policy in fleet.policy], dtype=bool)
        self._ports: dict[int, Bools] = {}

    def everywhere(self, demand: tuple[int, ...]) -> list[int]:
        """Plant one pod on every node, whatever its taints."""
        self.free -= np.array(demand, dtype=np.int64)
        return list(range(len(self.fleet)))

    def plant(self, demand: tuple[int, ...], replicas: int, rules: list[Rule], pool: Bools | None, *, guaranteed: bool) -> list[int]:
        """Return nodes of the replicas in a bind order in which each obeys the rules, or nothing if there is no room."""
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
        """Return whether rules leave a wide choice, in other placements too: a provider may be in one zone only."""
        for rule in rules:
            if rule.zones:
                nodes = nodes & (self.fleet.zone == rule.zones[0])
        room = min(rule.per_node for rule in rules) * int(np.count_nonzero(nodes))
        return 2 * replicas <= room and _EASE * replicas * demand[CPU] <= int(self.fleet.allocatable[nodes, CPU].sum())

    def zones_of(self, nodes: list[int]) -> tuple[int, ...]:
        """Return the zones that these nodes are in."""
        return tuple(sorted(set(self.fleet.zone[nodes].tolist())))

    def _caps(self, demand: tuple[int, ...], rules: list[Rule]) -> Ints:
        """Return how many such pods each node takes, int64[N]."""
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
        """Return the replicas of each zone, int64[Z], or None if that cannot be."""
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
            # Taints do not matter here (nodeTaintsPolicy Ignore): a zone may count where no pod can go.
            counted = np.unique(self.fleet.zone[chosen])
            if int(quotas[counted].max()) - int(quotas[counted].min()) > skew:
                return None
        return quotas

    def _in_turn(self, caps: Ints, quotas: Ints) -> list[int]:
        """Return the nodes in order: least used first in each zone, one replica after the other through the zones."""
        allocatable = self.fleet.allocatable[:, CPU]
        used = (allocatable - self.free[:, CPU]) * 1000 // allocatable
        steps: list[tuple[int, int, int]] = []  # round inside the zone, zone, node
        for zone, quota in enumerate(quotas.tolist()):
            if quota:
                nodes = np.flatnonzero((self.fleet.zone == zone) & (caps > 0))
                nodes = nodes[np.argsort(used[nodes], kind="stable")]
                given = fill(caps[nodes], quota)
                assert given is not None  # a quota is at most the sum of the caps
                order = [n for level in range(int(given.max())) for n in nodes[given > level].tolist()]
                steps += [(turn, zone, n) for turn, n in enumerate(order)]
        return [n for _, _, n in sorted(steps)]
