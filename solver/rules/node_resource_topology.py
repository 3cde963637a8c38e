"""NodeResourceTopologyMatch: pods that the kubelet's Topology Manager would reject with TopologyAffinityError.

The kubelet takes zones first-fit as pods arrive, so whether it accepts depends on the bind order: the incremental face replays it.
The encoding says what holds in every order: some choice of zones holds all pods.

Source: scheduler-plugins pkg/noderesourcetopology/filter.go; pkg/kubelet/cm/topologymanager.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from models.cluster.cluster import Cluster, Ints
from models.kube.selectors import Bools
from solver.rules.base import PLENTY, Rule

if TYPE_CHECKING:
    from solver.cpsat.model import PlacementModel
    from solver.numa.topology_manager import Asks, Kubelet


class NodeResourceTopologyMatch(Rule):
    """Single-numa-node and restricted policies of the nodes that have a topology; other nodes never reject."""

    name = "NodeResourceTopologyMatch"
    local = False  # what one node takes at most depends on the order, see ``most``
    arrivals_only = True  # what running pods hold of their zones is in what the zones have available

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._nodes = _kubelets(cluster)
        self._asks: list[dict[int, Asks]] = [{} for _ in cluster.classes]
        nothing = np.zeros(cluster.n_nodes, dtype=bool)
        self._never = [nothing] * cluster.n_classes
        memo: dict[object, tuple[dict[int, Asks], Bools]] = {}
        for g, cls in enumerate(cluster.classes) if self._nodes else ():
            found = cls.containers
            if found is not None and (found.per_container or found.per_pod):
                key = (found.per_container, found.per_pod)
                if key not in memo:
                    memo[key] = self._read(g)
                self._asks[g], self._never[g] = memo[key]
        self._masks: dict[int, Bools] = {}
        self._stale: dict[int, set[int]] = {}

    def _read(self, g: int) -> tuple[dict[int, Asks], Bools]:
        """Return what each node's kubelet aligns of a pod of the class, and where it never can."""
        cls = self.cluster.classes[g].containers
        assert cls is not None
        never = np.zeros(self.cluster.n_nodes, dtype=bool)
        asks = {}
        for n, kubelet in self._nodes.items():
            status = self.cluster.snapshot.nodes[n].status
            allocatable = dict.fromkeys((status.allocatable or {}) if status is not None else (), 0)
            never[n] = kubelet.never(cls, allocatable)
            wanted = kubelet.asks(cls)
            if wanted:
                asks[n] = wanted
        return asks, never

    def concerned(self, g: int) -> bool:
        """Return whether the kubelet of some node aligns pods of the class."""
        return bool(self._asks[g])

    def broken_by(self, g: int, nodes: Ints) -> Bools:
        return np.zeros(len(nodes), dtype=bool)

    def alike(self, g: int) -> Hashable:
        return g if self._asks[g] or self._never[g].any() else None

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
                room[n] = self._nodes[n].room(wanted, int(self.cluster.count[g]))
        return room

    def most(self, g: int) -> Ints:
        most = np.full(self.cluster.n_nodes, PLENTY)
        for n, wanted in self._asks[g].items():
            limit = self._nodes[n].most(wanted)
            if limit is not None:
                most[n] = limit
        return most

    def _changed(self, n: int) -> None:
        for g, stale in self._stale.items():
            if n in self._asks[g]:
                stale.add(n)

    def place(self, g: int, n: int, k: int = 1) -> None:
        wanted = self._asks[g].get(n)
        if wanted is not None:
            for _ in range(k):
                self._nodes[n].take(g, wanted)
            self._changed(n)

    def remove(self, g: int, n: int, k: int = 1) -> None:
        if n in self._asks[g]:
            for _ in range(k):
                self._nodes[n].lose(g, {h: self._asks[h][n] for h in set(self._nodes[n].placed)})
            self._changed(n)

    def path(self) -> object:
        return tuple(kubelet.path() for kubelet in self._nodes.values())

    def order_links(self) -> list[list[int]]:
        """Return aligned classes matter to each other wherever they may meet."""
        touching = [g for g in range(self.cluster.n_classes) if self.concerned(g)]
        return [touching] if touching else []

    def encode(self, encoding: PlacementModel) -> None:
        if not encoding.partial:  # parts leave pods with zones where they are
            encoding.add_zones()

    def message(self, g: int, rejected: Bools) -> str:
        policies = sorted({self._nodes[n].tree.policy for n in np.flatnonzero(rejected).tolist() if n in self._nodes})
        return f"no NUMA zones with room under the Topology Manager policy {' or '.join(policies)}"


def _kubelets(cluster: Cluster) -> dict[int, Kubelet]:
    """Of the nodes whose policy rejects."""
    if not any(tree.rejects for tree in cluster.trees.values()):
        return {}
    from solver.numa.topology_manager import Kubelet

    return {n: Kubelet(tree) for n, tree in cluster.trees.items() if tree.rejects}
