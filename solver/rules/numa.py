"""NodeResourceTopologyMatch: pods that the kubelet's Topology Manager would reject with TopologyAffinityError.

The kubelet takes zones first-fit as pods arrive, so whether it accepts depends on the bind order: the incremental face replays it.
The encoding says what holds in every order: some choice of zones holds all pods.

Source: scheduler-plugins pkg/noderesourcetopology/filter.go; pkg/kubelet/cm/topologymanager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from models.cluster import Cluster, Ints
from models.containers import INIT, ZoneAsk
from models.selectors import Bools
from models.topology import Tree
from solver import zone_pools
from solver.rules.base import PLENTY, Rule

if TYPE_CHECKING:
    from solver.encoding import Encoding


class _Node:
    """The zones of one node whose policy rejects: what is left, and the pods placed, in order."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.placed: list[int] = []
        self.free = self._fresh()

    def _fresh(self) -> zone_pools.Free:
        return [dict(zone) for zone in self.tree.available]

    def accepts(self, wanted: tuple[ZoneAsk, ...]) -> bool:
        return zone_pools.first_fit(self.tree, [dict(zone) for zone in self.free], wanted) is not None

    def replay(self, wanted: dict[int, tuple[ZoneAsk, ...]]) -> None:
        self.free = self._fresh()
        for g in self.placed:
            zone_pools.first_fit(self.tree, self.free, wanted[g])


class NodeResourceTopologyMatch(Rule):
    """Single-numa-node and restricted policies of the nodes that have a topology; other nodes never reject."""

    name = "NodeResourceTopologyMatch"
    local = False  # what one node takes at most depends on the order, see ``most``

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._nodes = {n: _Node(tree) for n, tree in cluster.trees.items() if tree.rejects}
        self._hard = np.zeros(cluster.n_nodes, dtype=bool)
        self._hard[list(self._nodes)] = True
        self._asks: list[dict[int, tuple[ZoneAsk, ...]]] = [{} for _ in cluster.classes]
        self._never = [np.zeros(0, dtype=bool)] * cluster.n_classes
        nothing = np.zeros(cluster.n_nodes, dtype=bool)
        memo: dict[object, tuple[dict[int, tuple[ZoneAsk, ...]], Bools]] = {}
        for g, cls in enumerate(cluster.classes):
            found = cls.containers
            if found is None or not self._nodes or not (found.per_container or found.per_pod):
                self._never[g] = nothing
                continue
            key = (found.per_container, found.per_pod)
            if key not in memo:
                memo[key] = self._read(g)
            self._asks[g], self._never[g] = memo[key]
        self._masks: dict[int, Bools] = {}
        self._stale: dict[int, set[int]] = {}

    def _read(self, g: int) -> tuple[dict[int, tuple[ZoneAsk, ...]], Bools]:
        cls = self.cluster.classes[g].containers
        assert cls is not None
        never = np.zeros(self.cluster.n_nodes, dtype=bool)
        asks = {}
        for n, node in self._nodes.items():
            status = self.cluster.snapshot.nodes[n].status
            allocatable = dict.fromkeys((status.allocatable or {}) if status is not None else (), 0)
            if zone_pools.lacking(cls, node.tree, allocatable) or zone_pools.items(cls, node.tree, hints=False) is None:
                never[n] = True
            wanted = zone_pools.asks(cls, node.tree)
            if wanted:
                asks[n] = wanted
        return asks, never

    def touches(self, g: int) -> bool:
        """Whether the kubelet of some node aligns pods of the class."""
        return bool(self._asks[g])

    def concerned(self, g: int) -> bool:
        return self.touches(g)

    def never(self, g: int) -> Bools:
        return self._never[g]

    def rejects(self, g: int) -> Bools:
        if not self._asks[g]:
            return self._never[g]
        mask = self._masks.get(g)
        if mask is None:
            mask = self._masks[g] = self._never[g].copy()
            self._stale[g] = set(self._asks[g])
        stale = self._stale[g]
        for n in stale:
            if not self._never[g][n]:
                mask[n] = not self._nodes[n].accepts(self._asks[g][n])
        stale.clear()
        return mask.copy()

    def room(self, g: int) -> Ints:
        room = np.where(self.rejects(g), 0, PLENTY)
        for n, wanted in self._asks[g].items():
            if room[n]:
                free = [dict(zone) for zone in self._nodes[n].free]
                k = 0
                while k < self.cluster.count[g] and zone_pools.first_fit(self._nodes[n].tree, free, wanted) is not None:
                    k += 1
                room[n] = k
        return room

    def most(self, g: int) -> Ints:
        """Zones together hold no more than the sum of what they have."""
        most = np.full(self.cluster.n_nodes, PLENTY)
        for n, wanted in self._asks[g].items():
            tree = self._nodes[n].tree
            per_pod: dict[str, int] = {}
            for ask in wanted:
                if ask.container != INIT:
                    for name, amount in ask.amounts:
                        per_pod[name] = per_pod.get(name, 0) + amount
            whole = (1 << len(tree.zones)) - 1
            for name, amount in per_pod.items():
                most[n] = min(most[n], zone_pools.total(tree, whole, name) // amount)
        return most

    def _changed(self, n: int) -> None:
        for stale in self._stale.values():
            stale.add(n)
        for g in self._stale:
            self._stale[g] &= self._asks[g].keys()

    def place(self, g: int, n: int, k: int = 1) -> None:
        wanted = self._asks[g].get(n)
        if wanted is None:
            return
        node = self._nodes[n]
        for _ in range(k):
            zone_pools.first_fit(node.tree, node.free, wanted)
            node.placed.append(g)
        self._changed(n)

    def remove(self, g: int, n: int, k: int = 1) -> None:
        if n not in self._asks[g]:
            return
        node = self._nodes[n]
        for _ in range(k):
            node.placed.pop(len(node.placed) - 1 - node.placed[::-1].index(g))
        node.replay({h: self._asks[h][n] for h in set(node.placed)})
        self._changed(n)

    def order_links(self) -> list[list[int]]:
        """Aligned classes matter to each other wherever they may meet."""
        touching = [g for g in range(self.cluster.n_classes) if self.touches(g)]
        return [touching] if touching else []

    def encode(self, encoding: Encoding) -> None:
        encoding.add_zones()

    def message(self, g: int, rejected: Bools) -> str:
        policies = sorted({self._nodes[n].tree.policy for n in np.flatnonzero(rejected).tolist() if n in self._nodes})
        return f"no NUMA zones with room under the Topology Manager policy {' or '.join(policies)}"
