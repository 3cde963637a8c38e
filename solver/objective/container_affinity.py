"""Points of container affinity: Σ over ordered pairs of containers on one node of A(C1, C2) · closeness.

On a node with one zone, or with unknown zones, all containers are as close as possible, so pairs score by their node
alone. Containers of fixed pods on a node with several zones have no known zone.

Source: specification of container affinity, sections 4 and 5."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.numa.containers import ContainerClass
from kubestow.models.numa.node_topology import NumaTree
from kubestow.solver.numa.zone_pools import closeness

Pools = tuple[int | None, ...]  # one per container; None: anywhere on the node


@dataclass
class AssignedZones:
    """NUMA zones of a placement.

    Attributes:
        pools: Per (class, node), for each pod there in bind order, the pool of each container.
        points: Raw points of container affinity.
        elsewhere: Nodes where the kubelet would take other zones than those chosen.
        zoneless: (class, container) with hints but without zones, because there were too many patterns.
    """

    pools: dict[tuple[int, int], list[Pools]] = field(default_factory=dict)
    points: int = 0
    elsewhere: list[int] = field(default_factory=list)
    zoneless: set[tuple[int, int]] = field(default_factory=set)


class ContainerPoints:
    """Points of hints between containers.

    Attributes:
        involved: Classes that some hint concerns.
        zoned: Nodes with more than one zone.
        max_points: Maximum points of closeness of two containers.
        stop: Event that ends choosing zones; unsolved nodes then keep the first choice.
        solved: Zones found by (node, pods in bind order, first choice), so that no node is solved twice.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.levels = cluster.policy.closeness
        on = bool(cluster.policy.multipliers.containerAffinity)
        self.involved = [g for g, c in enumerate(cluster.classes) if on and c.containers is not None and c.containers.involved()]
        self.zoned = {n for n, tree in cluster.trees.items() if len(tree.zones) > 1}
        self.max_points = self.levels.cache if any(tree.numa for tree in cluster.trees.values()) else self.levels.sameZone
        self._rows: dict[int, Ints] = {}
        self.stop: threading.Event | None = None
        self.solved: dict[tuple[int, tuple[int, ...], tuple[Pools, ...]], list[Pools]] = {}

    @property
    def repels(self) -> bool:
        """True if hints keep containers apart on nodes with zones.

        A container that finds no room in zones because of other pods costs less than in the zone it would have to take.
        So a group may score more with other pods present than alone."""
        classes = map(self.class_of, self.involved if self.zoned else ())
        return any(w < 0 for cls in classes for w in (*(w for *_, w in cls.inner), *(w for own in cls.entries for _, w in own)))

    def class_of(self, g: int) -> ContainerClass:
        found = self.cluster.classes[g].containers
        assert found is not None
        return found

    def predicates(self, classes: Iterable[int]) -> list[int]:
        """Return the predicates that some container of the classes owns and some container satisfies."""
        owned: set[int] = set()
        hit: set[int] = set()
        for g in classes:
            cls = self.class_of(g)
            owned.update(p for own in cls.entries for p, _ in own)
            hit.update(p for own in cls.hits for p in own)
        return sorted(owned & hit)

    def owners(self, predicate: int, classes: Iterable[int]) -> list[tuple[int, int, int]]:
        """Return (class, container, weight) of the owners of a predicate."""
        return [(g, i, w) for g in classes for i, own in enumerate(self.class_of(g).entries) for p, w in own if p == predicate]

    def satisfying(self, predicate: int, classes: Iterable[int]) -> list[tuple[int, int]]:
        """Return (class, container) of the containers that satisfy a predicate."""
        return [(g, i) for g in classes for i, own in enumerate(self.class_of(g).hits) if predicate in own]

    def static(self, g: int) -> Ints:
        """Return int64[N]: raw points of one pod of the class against fixed pods on each node.

        On nodes with at most one zone, they include the points of hints within the pod.
        """
        if g not in self._rows:
            cls, fixed = self.class_of(g), self.cluster.fixed_containers
            met = np.zeros(self.cluster.n_nodes, dtype=np.int64)
            for own in cls.entries:
                for predicate, weight in own:
                    met += weight * fixed.satisfying.get(predicate, 0)
            for predicates in cls.hits:
                for predicate in predicates:
                    met += fixed.owning.get(predicate, 0)
            zoned = np.zeros(self.cluster.n_nodes, dtype=bool)
            zoned[list(self.zoned)] = True
            inner = self.levels.sameZone * sum(w for _, _, w in cls.inner)
            self._rows[g] = np.where(zoned, met * self.levels.sameNode, met * self.levels.sameZone + inner).astype(np.int64)
        return self._rows[g]

    def inside(self, g: int, tree: NumaTree, pools: Sequence[int | None]) -> int:
        """Return the points of the default-scope hints within one pod on a node with zones."""
        return sum(w * closeness(tree, self.levels, pools[i], pools[j]) for i, j, w in self.class_of(g).inner)

    def on_node(self, n: int, pods: Sequence[tuple[int, Pools]]) -> int:
        """Return the sum of :meth:`per_pod`: the raw points of all pending pods on one node."""
        return sum(self.per_pod(n, pods))

    def per_pod(self, n: int, pods: Sequence[tuple[int, Pools]]) -> list[int]:
        """Return the raw points of container affinity of each pending pod on one node, in the order of ``pods``.

        A pair of pending pods counts for the owner of the hint, a pair with a fixed pod for the pending one.

        Args:
            n: The node.
            pods: All pending pods on it: the class, and the pool of each container.
        """
        tree = self.cluster.trees[n] if n in self.zoned else None
        points = []
        satisfying: dict[int, list[tuple[int, int, int | None]]] = {}
        for k, (g, pools) in enumerate(pods):
            points.append(int(self.static(g)[n]) + (self.inside(g, tree, pools) if tree is not None else 0))
            for i, predicates in enumerate(self.class_of(g).hits):
                for predicate in predicates:
                    satisfying.setdefault(predicate, []).append((k, i, pools[i]))
        for k, (g, pools) in enumerate(pods):
            for i, own in enumerate(self.class_of(g).entries):
                for predicate, weight in own:
                    for other, j, met in satisfying.get(predicate, ()):
                        if (k, i) != (other, j):
                            points[k] += weight * (self.levels.sameZone if tree is None else closeness(tree, self.levels, pools[i], met))
        return points
