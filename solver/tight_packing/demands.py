"""The packing problem without rules across pods: demands of pods against the room of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.partition import equivalence
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.linear_sum import MAX_SUM
from kubestow.solver.rules.base import CapacityRule, Rule
from kubestow.solver.rules.eligibility import demand_with_slots, fits, room_with_slots

#: Spare room counts as negligible up to 1 / this of the total capacity.
NEGLIGIBLE_SPARE_DIVISOR = 1_000


@dataclass
class PackingDemands:
    """Demands of pod classes and the room of nodes.

    Shapes: K classes, N nodes, R resources that any of the classes requests (pod slots last). Each resource is counted in
    the largest unit that divides all requests; a node's remainder below one unit is unusable and dropped.

    Attributes:
        classes: Indices of the cluster's classes, int64[K].
        count: Pods of each class that fit somewhere, int64[K].
        demand: int64[K, R].
        priority: int64[K].
        room: Capacity of the nodes for these pods, int64[N, R], not negative.
        allowed: Eligible pairs, bool[K, N].
    """

    classes: Ints
    count: Ints
    demand: Ints
    priority: Ints
    room: Ints
    allowed: Bools

    @property
    def full(self) -> bool:
        """True if all pods together leave almost none of some resource, or exceed it."""
        return next_to_nothing(self.room.sum(axis=0) - self.count @ self.demand, self.room)

    @property
    def sizes(self) -> NDArray[np.float64]:
        """Size of a pod of each class, float64[K]: its demand relative to the largest node, summed over resources."""
        return np.asarray((self.demand / np.maximum(self.room.max(axis=0, initial=1), 1)).sum(axis=1))

    @property
    def countable(self) -> bool:
        """True if sums over all nodes and pods fit safely in 64 bits. Larger sums would overflow and prove false bounds."""
        wanted = [sum(d * k for d, k in zip(column, self.count.tolist(), strict=True)) for column in self.demand.T.tolist()]
        return all(sum(room) + want < MAX_SUM for room, want in zip(self.room.T.tolist(), wanted, strict=True))

    def only(self, wanted: Bools) -> PackingDemands:
        """Return the demands of the ``wanted`` classes (bool[K])."""
        return PackingDemands(
            self.classes[wanted], self.count[wanted], self.demand[wanted], self.priority[wanted], self.room, self.allowed[wanted]
        )

    def node_kinds(self) -> list[Ints]:
        """Return the nodes of each kind: nodes with equal room and the same eligible classes."""
        return equivalence(self.room, self.allowed.T).members


def next_to_nothing(spare: Ints, room: Ints) -> bool:
    """Return True if the spare room of some resource is negligible compared with its total room.

    Args:
        spare: Spare room in total, int64[R], negative where demand exceeds capacity.
        room: Room of each node, int64[N, R].
    """
    return bool((spare <= room.sum(axis=0) // NEGLIGIBLE_SPARE_DIVISOR).any())


def hardest(unplaced: Ints, places: Ints, sizes: NDArray[np.float64]) -> int:
    """Return the class that is hardest to place among those with unplaced pods.

    Args:
        unplaced: Unplaced pods, int64[K].
        places: Eligible nodes, int64[K]. The class with the fewest is hardest.
        sizes: Pod sizes, float64[K]. Larger pods win ties.
    """
    return int(np.lexsort((-sizes, places, unplaced == 0))[0])


def relaxed(cluster: Cluster, eligibility: Ints) -> PackingDemands:
    """Return the demands of all pods against the capacity that fixed pods leave: a relaxation of the instance."""
    return _demands(cluster, eligibility, np.flatnonzero(eligibility.any(axis=1)), np.zeros_like(eligibility))


def untied(cluster: Cluster, active: Sequence[Rule], eligibility: Ints, counts: Ints) -> PackingDemands:
    """Return the demands of the pods that no rule ties to other pods.

    Such pods may use any eligible node with enough room, independently of other pods. The room is that left by fixed pods
    and by the tied pods of the placement ``counts`` (int64[G, N])."""
    fit = CapacityRule.of(active)
    constrained = np.array([any(r.concerned(g) for r in active if r is not fit) for g in range(cluster.n_classes)])
    free = np.flatnonzero(eligibility.any(axis=1) & ~constrained)
    others = counts.copy()
    others[free] = 0
    return _demands(cluster, eligibility, free, others)


def _demands(cluster: Cluster, eligibility: Ints, classes: Ints, others: Ints) -> PackingDemands:
    demand = demand_with_slots(cluster)
    room = np.maximum(room_with_slots(cluster) - others.T @ demand, 0)
    requested = np.flatnonzero(demand[classes].any(axis=0))
    wanted = demand[np.ix_(classes, requested)]
    unit = np.gcd.reduce(wanted, axis=0)
    return PackingDemands(
        classes.astype(np.int64), fits(cluster, eligibility)[classes], wanted // unit, cluster.priority[classes],
        room[:, requested] // unit, eligibility[classes] > 0,
    )  # fmt: skip
