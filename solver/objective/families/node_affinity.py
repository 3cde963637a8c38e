"""Preferred node affinity: the weight of each term that the pod's node matches.

Source: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go, Score."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.objective.families.base import Family
from kubestow.solver.objective.ledger import Ledger


class NodeAffinity(Family):
    """Preferred node affinity. Each term is a preference of its own in reports."""

    name = "nodeAffinity"

    def key(self, g: int) -> Hashable:
        return self.cluster.classes[g].prefers or None

    def row(self, g: int) -> Ints:
        row = np.zeros(self.cluster.n_nodes, dtype=np.int64)
        for chosen, weight in self.cluster.classes[g].prefers:
            row += weight * self.cluster.node_sets[chosen]
        return row

    def scale(self) -> int:
        return max((abs(weight) for cls in self.cluster.classes for _, weight in cls.prefers), default=0)

    def losses(self, ledger: Ledger) -> None:
        for g in ledger.placed.classes:
            nodes, pods = ledger.placed.of(g)
            for chosen, weight in self.cluster.classes[g].prefers:
                missed = ~self.cluster.node_sets[chosen][nodes]
                ledger.share(self, g, f"preferred node affinity of weight {weight}", weight * pods * missed)
