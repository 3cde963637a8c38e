"""NodeResourcesFit: requests against allocatable amounts, and the number of pods.

Source: pkg/scheduler/framework/plugins/noderesources/fit.go (fitsRequest).
"""

from __future__ import annotations

from collections.abc import Hashable
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.base import UNLIMITED_PODS, CapacityRule

if TYPE_CHECKING:
    from kubestow.solver.cpsat.model import PlacementModel


class NodeResourcesFit(CapacityRule):
    """A node accepts a pod if each requested resource fits into the free amount, and a pod slot is free.

    Attributes:
        free: int64[N, R], free amounts. They may be negative on overcommitted nodes, which still accept pods
            that do not request the resource.
        slots: int64[N], free pod slots.
    """

    name = "NodeResourcesFit"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.free = cluster.free.copy(order="F")  # column order, because reads are by resource over all nodes: two to three times as fast
        self.slots = cluster.slots.copy()
        self._asks = [np.flatnonzero(cluster.demand[g]) for g in range(cluster.n_classes)]

    def rejects(self, g: int) -> Bools:
        return self._full(g, self.free, self.slots)

    def _full(self, g: int, free: Ints, slots: Ints) -> Bools:
        full: Bools = slots < 1
        for r in self._asks[g].tolist():
            full |= free[:, r] < self.cluster.demand[g, r]
        return full

    def admits(self, g: int, n: int) -> bool:
        """Return True if node n accepts one more pod of class g."""
        asks = self._asks[g]
        return bool(self.slots[n] >= 1 and (self.free[n, asks] >= self.cluster.demand[g, asks]).all())

    def alike(self, g: int) -> Hashable:
        asks: bytes = self.cluster.demand[g].tobytes()
        return asks

    def never(self, g: int) -> Bools:
        return self._full(g, self.cluster.free, self.cluster.slots)

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        return []  # the rows of the model cover it

    def room(self, g: int) -> Ints:
        asks = self._asks[g]
        room = np.minimum(self.slots, UNLIMITED_PODS)
        for r in asks:
            room = np.minimum(room, self.free[:, r] // self.cluster.demand[g, r])
        return np.maximum(room, 0)

    def place(self, g: int, n: int, k: int = 1) -> None:
        self.free[n] -= k * self.cluster.demand[g]
        self.slots[n] -= k

    def place_many(self, g: int, nodes: Ints, pods: Ints) -> None:
        """Add pods[i] pods of class g on nodes[i] (distinct nodes)."""
        self.free[nodes] -= pods[:, None] * self.cluster.demand[g]
        self.slots[nodes] -= pods

    def encode(self, encoding: PlacementModel) -> None:
        """Add Σ demand · x ≤ max(0, free) per node and resource, divided by the gcd of the demands. Rows that
        cannot bind are left out."""
        if not encoding.partial and not encoding.named:
            self._encode_least_loads(encoding)
        cluster = self.cluster
        for n in encoding.nodes():
            here = encoding.classes_on(n)
            variables = [encoding.x[g, n] for g in here]
            upper = [encoding.upper(g, n) for g in here]
            slots = max(0, int(self.slots[n]))
            if sum(upper) > slots:
                with encoding.about("pods", here, n):
                    encoding.model.add(encoding.sum(variables) <= slots)
            for r in range(len(cluster.resources)):
                demand = [int(cluster.demand[g, r]) for g in here]
                free = max(0, int(self.free[n, r]))
                if sum(d * u for d, u in zip(demand, upper, strict=True)) <= free:
                    continue
                unit = gcd(*demand)
                with encoding.about(cluster.resources[r], here, n):
                    encoding.model.add(encoding.weighted_sum(variables, [d // unit for d in demand]) <= free // unit)

    def _encode_least_loads(self, encoding: PlacementModel) -> None:
        """Add redundant rows that make perfect packings tractable near full usage.

        The slack is the room of all nodes minus the total demand. No node has more free room than the slack,
        apart from the demand of unplaced pods. Room is counted in whole units of the gcd of the demands.
        """
        cluster = self.cluster
        for r in range(len(cluster.resources)):
            unit = gcd(*(int(d) for d in cluster.demand[:, r]))
            if not unit:
                continue
            demand = [int(d) // unit for d in cluster.demand[:, r]]
            room = [max(0, int(f)) // unit for f in cluster.free[:, r]]
            whole = sum(d * k for d, k in zip(demand, encoding.fits, strict=True))
            slack = sum(room) - whole
            if whole > 2**40 or not any(space > slack for space in room):
                continue
            missing = encoding.model.new_int_var(0, whole, "")
            encoding.model.add(encoding.weighted_sum([*encoding.left.values()], [demand[g] for g in encoding.left]) == missing)
            for n, space in enumerate(room):
                if space > slack:
                    here = encoding.classes_on(n)
                    load = encoding.weighted_sum([*(encoding.x[g, n] for g in here), missing], [*(demand[g] for g in here), 1])
                    encoding.model.add(load >= space - slack)

    def message(self, g: int, rejected: Bools) -> str:
        short = [
            f"{self.cluster.resources[r]} on {int(lack)}"
            for r in self._asks[g]
            if (lack := np.count_nonzero(rejected & (self.free[:, r] < self.cluster.demand[g, r])))
        ]
        full = int(np.count_nonzero(rejected & (self.slots < 1)))
        if full:
            short.append(f"pods on {full}")
        return f"insufficient {', '.join(short)}"
