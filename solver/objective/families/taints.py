"""Soft taints: points lost for each PreferNoSchedule taint that a pod does not tolerate.

Source: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go, Score."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.objective.families.node_points import NodePoints
from kubestow.solver.rules.base import Rule

#: Points lost per untolerated PreferNoSchedule taint of a pod.
TAINT_COST: Final = 100


class Taints(NodePoints):
    """PreferNoSchedule taints. A pod without losses tolerates every taint of its node."""

    name, words, most = "taints", "PreferNoSchedule taints that it does not tolerate", 0

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        super().__init__(cluster, rules)
        self._rows: dict[int, Ints] = {}  # by toleration set
        listed = [[t for t in cluster.nodes.taints(n) if t.effect == "PreferNoSchedule"] for n in range(cluster.n_nodes)]
        soft = [n for n, taints in enumerate(listed) if taints]
        for index in {c.tolerations for c in cluster.classes} if soft and self.multiplier else ():
            row = np.zeros(cluster.n_nodes, dtype=np.int64)
            for n in soft:
                row[n] = -TAINT_COST * sum(not cluster.toleration_sets[index].cover(taint) for taint in listed[n])
            if row.any():
                self._rows[index] = row

    def key(self, g: int) -> Hashable:
        index = self.cluster.classes[g].tolerations
        return index if index in self._rows else None

    def row(self, g: int) -> Ints:
        return self._rows[self.cluster.classes[g].tolerations]

    def scale(self) -> int:
        return 0  # one value for all pods of a node, which does not set the temperature
