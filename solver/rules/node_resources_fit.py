"""NodeResourcesFit: requests against allocatable, and the number of pods.

Source: pkg/scheduler/framework/plugins/noderesources/fit.go (fitsRequest).
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from models.cluster import Cluster, Ints
from models.selectors import Bools
from solver.rules.base import PLENTY, Rule

if TYPE_CHECKING:
    from solver.encoding import Encoding


class NodeResourcesFit(Rule):
    """A node takes a pod if each resource that the pod requests fits what is left, and a pod slot is free.

    ``free``: int64[N, R], may be negative on overcommitted nodes, which still take pods that request nothing of that resource.
    """

    name = "NodeResourcesFit"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.free = cluster.free.copy()
        self.slots = cluster.slots.copy()
        self._asks = [np.flatnonzero(cluster.demand[g]) for g in range(cluster.n_classes)]

    def rejects(self, g: int) -> Bools:
        asks = self._asks[g]
        full = self.slots < 1
        if len(asks):
            full |= (self.free[:, asks] < self.cluster.demand[g, asks]).any(axis=1)
        return full

    def never(self, g: int) -> Bools:
        asks = self._asks[g]
        full: Bools = self.cluster.slots < 1
        if len(asks):
            full = full | (self.cluster.free[:, asks] < self.cluster.demand[g, asks]).any(axis=1)
        return full

    def room(self, g: int) -> Ints:
        asks = self._asks[g]
        room = np.minimum(self.slots, PLENTY)
        for r in asks:
            room = np.minimum(room, self.free[:, r] // self.cluster.demand[g, r])
        return np.maximum(room, 0)

    def place(self, g: int, n: int, k: int = 1) -> None:
        self.free[n] -= k * self.cluster.demand[g]
        self.slots[n] -= k

    def remove(self, g: int, n: int, k: int = 1) -> None:
        self.place(g, n, -k)

    def encode(self, encoding: Encoding) -> None:
        """Σ demand · x ≤ max(0, free) per node and resource, divided by the gcd of the demands; rows that cannot bind are left out."""
        cluster = self.cluster
        for n in range(cluster.n_nodes):
            here = encoding.classes_on(n)
            if not here:
                continue
            variables = [encoding.x[g, n] for g in here]
            upper = [encoding.upper(g, n) for g in here]
            slots = max(0, int(cluster.slots[n]))
            if sum(upper) > slots:
                encoding.model.add(encoding.sum(variables) <= slots)
            for r in range(len(cluster.resources)):
                demand = [int(cluster.demand[g, r]) for g in here]
                free = max(0, int(cluster.free[n, r]))
                if sum(d * u for d, u in zip(demand, upper, strict=True)) <= free:
                    continue
                unit = gcd(*demand)
                encoding.model.add(encoding.weighted_sum(variables, [d // unit for d in demand]) <= free // unit)

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


def least_loads(cluster: Cluster, wanted: Ints) -> tuple[list[tuple[int, int, int, int]], bool]:
    """What each node must hold at least if ``wanted`` pods (int64[G]) are all placed, and whether they can be at all.

    The free room of all nodes less the total demand is the slack; no node can stay emptier than its room less that slack. Rows are
    (node, resource, unit, least load in units); a unit is the gcd of the demands, and room is counted in whole units. Near full usage
    these redundant rows are what makes perfect packings tractable.
    """
    rows = []
    possible = int(wanted.sum()) <= int(np.maximum(cluster.slots, 0).sum())
    for r in range(len(cluster.resources)):
        unit = gcd(*(int(d) for d in cluster.demand[:, r])) if cluster.n_classes else 0
        if not unit:
            continue
        room = [max(0, int(f)) // unit for f in cluster.free[:, r]]
        slack = sum(room) - sum(int(d) // unit * int(k) for d, k in zip(cluster.demand[:, r], wanted, strict=True))
        possible = possible and slack >= 0
        rows += [(n, r, unit, space - slack) for n, space in enumerate(room) if space > slack >= 0]
    return rows, possible
