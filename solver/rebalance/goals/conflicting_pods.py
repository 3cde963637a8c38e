"""Who has to leave so that a pod is not refused by anti-affinity, of either side, or by host ports: exactly those, and all of them."""

from __future__ import annotations

import numpy as np

from models.cluster.cluster import Cluster, Ids
from solver.rules.node_ports import clash


class ConflictingPods:
    """By class, the classes that cannot be beside it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._carriers = [(h, term) for h, cls in enumerate(cluster.classes) for term in cls.anti]
        self._found: dict[int, dict[int, list[Ids]]] = {}

    def of(self, g: int) -> dict[int, list[Ids]]:
        """Return for each class the domains (int32[N], -1: none) that none of its pods can share with a pod of class g."""
        if g not in self._found:
            cluster, found = self.cluster, dict[int, dict[str, Ids]]()
            mine = cluster.classes[g]
            for term in mine.anti:
                for h in np.flatnonzero(cluster.matches(term.matcher)).tolist():
                    found.setdefault(h, {})[term.key] = cluster.domains(term.key)[0]
            for h, term in self._carriers:
                if cluster.matches(term.matcher)[g]:
                    found.setdefault(h, {})[term.key] = cluster.domains(term.key)[0]
            nodes = np.arange(cluster.n_nodes, dtype=np.int32)
            for h, cls in enumerate(cluster.classes) if mine.ports else ():
                if clash(mine.ports, cls.ports):
                    found.setdefault(h, {})[""] = nodes
            self._found[g] = {h: list(keys.values()) for h, keys in found.items()}
        return self._found[g]
