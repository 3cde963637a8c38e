"""What pods ask of nodes and nothing else: the packing problem that is left when rules across pods are set aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.eligibility import demand_with_slots, fits, room_with_slots
from kubestow.solver.rules.node_resources_fit import NodeResourcesFit

#: What nodes have and pods want of a resource, in all, is below this.
LARGEST = 2**60
#: Next to nothing is at most such a part of all room: one of so many.
NOTHING = 1_000


@dataclass
class Demands:
    """Shapes: K classes, N nodes, R resources that some of the classes ask for (pod slots last), each in the largest unit of which they
    all ask for whole numbers: what a node has beyond such units nobody can use.

    Attributes:
        classes: int64[K], indices of the cluster's classes.
        count: int64[K], pods of each that fit somewhere.
        demand: int64[K, R].
        priority: int64[K].
        room: int64[N, R], what nodes have for these pods; not negative.
        allowed: bool[K, N], where pods of each class may be.
    """

    classes: Ints
    count: Ints
    demand: Ints
    priority: Ints
    room: Ints
    allowed: Bools

    @property
    def full(self) -> bool:
        """Return whether all pods together leave next to nothing of some resource, or want more than there is."""
        return next_to_nothing(self.room.sum(axis=0) - self.count @ self.demand, self.room)

    @property
    def sizes(self) -> NDArray[np.float64]:
        """Return float64[K], what a pod of each class asks for in parts of the largest node, all resources together."""
        return np.asarray((self.demand / np.maximum(self.room.max(axis=0, initial=1), 1)).sum(axis=1))

    @property
    def countable(self) -> bool:
        """Whether sums over all nodes and over all pods stay far within 64 bits. Beyond that they would prove what is not so."""
        wanted = [sum(d * k for d, k in zip(column, self.count.tolist(), strict=True)) for column in self.demand.T.tolist()]
        return all(sum(room) + want < LARGEST for room, want in zip(self.room.T.tolist(), wanted, strict=True))

    def only(self, wanted: Bools) -> Demands:
        """Return the same of the classes that are ``wanted`` (bool[K])."""
        return Demands(
            self.classes[wanted], self.count[wanted], self.demand[wanted], self.priority[wanted], self.room, self.allowed[wanted]
        )

    def node_kinds(self) -> list[Ints]:
        """Return the nodes of each kind: of those that have the same room and may take the same classes."""
        table = np.concatenate([self.room, self.allowed.T.astype(np.int64)], axis=1)
        kinds = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)
        return [np.flatnonzero(kinds == k) for k in range(int(kinds.max(initial=-1)) + 1)]


def next_to_nothing(spare: Ints, room: Ints) -> bool:
    """Return whether next to nothing of some resource is left over. ``spare``: int64[R], what is left over in all, less than nothing where
    more is wanted than there is; ``room``: int64[N, R]."""
    return bool((spare <= room.sum(axis=0) // NOTHING).any())


def hardest(left: Ints, places: Ints, sizes: NDArray[np.float64]) -> int:
    """Return the class that is hardest to place of those of which pods are ``left`` (int64[K]): that with the fewest ``places`` (int64[K]),
    of several the one with the largest pods (``sizes``: float64[K])."""
    return int(np.lexsort((-sizes, places, left == 0))[0])


def relaxed(cluster: Cluster, limits: Ints) -> Demands:
    """Return the demands of all pods against what fixed pods leave: a relaxation of the instance. ``limits``: int64[G, N]."""
    return _demands(cluster, limits, np.flatnonzero(limits.any(axis=1)), np.zeros_like(limits))


def untied(cluster: Cluster, active: Sequence[Rule], limits: Ints, counts: Ints) -> Demands:
    """Return the demands of the pods that no rule ties to other pods: these may be anywhere that has room for them, whatever the others
    do. Room is what fixed pods and the tied ones of a placement (int64[G, N]) leave."""
    tied = np.array([any(r.concerned(g) for r in active if not isinstance(r, NodeResourcesFit)) for g in range(cluster.n_classes)])
    free = np.flatnonzero(limits.any(axis=1) & ~tied)
    others = counts.copy()
    others[free] = 0
    return _demands(cluster, limits, free, others)


def _demands(cluster: Cluster, limits: Ints, classes: Ints, others: Ints) -> Demands:
    demand = demand_with_slots(cluster)
    room = np.maximum(room_with_slots(cluster) - others.T @ demand, 0)
    asked = np.flatnonzero(demand[classes].any(axis=0))
    wanted = demand[np.ix_(classes, asked)]
    unit = np.gcd.reduce(wanted, axis=0)
    return Demands(
        classes.astype(np.int64), fits(cluster, limits)[classes], wanted // unit, cluster.priority[classes],
        room[:, asked] // unit, limits[classes] > 0,
    )  # fmt: skip
