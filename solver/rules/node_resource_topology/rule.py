"""NodeResourceTopologyMatch: pods that the kubelet's Topology Manager would reject with TopologyAffinityError.

The kubelet assigns zones first-fit to arriving pods. So its verdict depends on the bind order, which the
incremental face replays. The encoding states only what every order requires: some choice of zones holds all
pods.

Source: scheduler-plugins pkg/noderesourcetopology/filter.go; pkg/kubelet/cm/topologymanager.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.numa.topology_manager import Asks, Kubelet
from kubestow.solver.rules.base import UNLIMITED_PODS, Rule
from kubestow.solver.rules.batch_limits import UNLIMITED, BatchLimits
from kubestow.solver.rules.node_resource_topology.words import NumaWords


class NodeResourceTopologyMatch(NumaWords):
    """The single-numa-node and restricted policies of nodes with a topology. Other nodes never reject."""

    name = "NodeResourceTopologyMatch"
    first_come = True
    local = False  # a node's maximum depends on the order, see ``most``
    any_order = supplied = whole_units = tracks_moves = settled = survives_merging = for_good = False
    reads = ("containers",)
    arrivals_only = True  # the available amounts of zones already reflect running pods

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._nodes = _kubelets(cluster)
        self._asks: list[dict[int, Asks]] = [{} for _ in cluster.classes]
        nothing = np.zeros(cluster.n_nodes, dtype=bool)
        self._never = [nothing] * cluster.n_classes
        memo: dict[object, tuple[dict[int, Asks], Bools]] = {}
        for g, cls in enumerate(cluster.classes) if self._nodes else ():
            containers = cls.containers
            if containers is not None and (containers.per_container or containers.per_pod):
                key = (containers.per_container, containers.per_pod)
                if key not in memo:
                    memo[key] = self._read(g)
                self._asks[g], self._never[g] = memo[key]
        self._only = self._single_class_room()
        self._masks: dict[int, Bools] = {}
        self._stale: dict[int, set[int]] = {}

    def _read(self, g: int) -> tuple[dict[int, Asks], Bools]:
        """Return the aligned requests of the class by node, and the nodes that never accept it."""
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

    def _single_class_room(self) -> dict[int, int]:
        """Return the number of pods that each kubelet accepts, if only one class is aligned. Then the order does not matter."""
        concerned = [g for g, asks in enumerate(self._asks) if asks]
        if len(concerned) != 1:
            return {}
        g = concerned[0]
        count = int(self.cluster.count[g])
        room_of = {n: self._nodes[n].room(wanted, count) for n, wanted in self._asks[g].items() if not self._never[g][n]}
        self._never[g] = self._never[g].copy()
        self._never[g][[n for n, room in room_of.items() if not room]] = bool(count)
        return room_of

    def concerned(self, g: int) -> bool:
        """Return True if the kubelet of some node aligns pods of the class."""
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
        room = np.where(self.rejects(g), 0, UNLIMITED_PODS)
        for n, wanted in self._asks[g].items():
            if room[n]:
                room[n] = self._nodes[n].room(wanted, int(self.cluster.count[g]))
        return room

    def most(self, g: int) -> Ints:
        upper = np.full(self.cluster.n_nodes, UNLIMITED_PODS)
        for n, wanted in self._asks[g].items():
            limit = self._nodes[n].most(wanted)
            if limit is not None:
                upper[n] = limit
            if n in self._only:
                upper[n] = min(int(upper[n]), self._only[n])
        return upper

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

    order_links = Rule.order_links  # aligned classes may compete on any node

    def reaches(self, g: int) -> bool:
        return False

    def batch(self, g: int) -> BatchLimits:
        return UNLIMITED if self.cluster.classes[g].containers is None else BatchLimits(one_per_node=True)

    def repairable(self, g: int) -> bool:
        return self.cluster.classes[g].containers is None

    def movable(self, g: int) -> bool:
        return self.cluster.classes[g].containers is None

    def encode(self, encoding: PlacementModel) -> None:
        if not encoding.partial:  # neighbourhoods keep pods with zones where they are
            encoding.add_zones()
        for n, room in self._only.items():
            for g in encoding.classes_on(n):
                if self._asks[g] and room < encoding.upper(g, n):
                    with encoding.about(None, [g], n):
                        encoding.model.add(encoding.x[g, n] <= room)

    def message(self, g: int, rejected: Bools) -> str:
        nodes = [n for n in np.flatnonzero(rejected).tolist() if n in self._nodes]
        policies = sorted({self._nodes[n].tree.policy for n in nodes})
        lacks = {why: n for n in reversed(nodes) if (why := self._nodes[n].why_not(self._asks[g].get(n, ())))}
        why, n = next(reversed(lacks.items()), ("", 0))
        amounts = f" ({why})" if len(lacks) == 1 else f" (on {self.cluster.nodes.names[n]} {why})" if lacks else ""
        return f"no NUMA zones with room under the Topology Manager policy {' or '.join(policies)}{amounts}"

    def first_shortage(self, classes: Iterable[int], n: int) -> str:
        """Return the shortage of the first pod that a node rejects as pods of these classes arrive one after another; empty if none is.

        The state is unchanged.
        """
        kubelet, placed, why = self._nodes[n], list[int](), ""
        for g in classes:
            wanted = self._asks[g].get(n, ())
            for _ in range(int(self.cluster.count[g]) if wanted else 0):
                why = kubelet.why_not(wanted)
                if why:
                    break
                kubelet.take(g, wanted)
                placed.append(g)
            if why:
                break
        count = len(placed)
        for g in reversed(placed):
            kubelet.lose(g, {h: self._asks[h][n] for h in set(kubelet.placed)})
        return f"{f'after {count} pods ' if count and why else ''}{why}"


def _kubelets(cluster: Cluster) -> dict[int, Kubelet]:
    """Return the kubelets of nodes whose policy rejects pods."""
    if not any(tree.rejects for tree in cluster.trees.values()):
        return {}
    return {n: Kubelet(tree) for n, tree in cluster.trees.items() if tree.rejects}
