"""A placement read class by class: only the few (class, node) pairs that hold pods."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from models.cluster import Ids, Ints


class Placed:
    """The pods of a placement int64[G, N], sparse. ``classes``: those with pods, ascending."""

    def __init__(self, counts: Ints) -> None:
        rows, nodes = np.nonzero(counts)
        self._nodes, self._pods = nodes, counts[rows, nodes].astype(np.int64)
        self._start = np.searchsorted(rows, np.arange(counts.shape[0] + 1)).tolist()
        self.classes: list[int] = np.unique(rows).tolist()
        self.n_nodes = counts.shape[1]

    def of(self, g: int) -> tuple[Ints, Ints]:
        """Nodes that hold pods of a class, and how many each."""
        here = slice(self._start[g], self._start[g + 1])
        return self._nodes[here], self._pods[here]

    def in_domains(self, g: int, codes: Ids) -> tuple[Ids, Ints]:
        """Domains (with repetitions) of the pods of a class, and how many pods each time; nodes without the key are left out."""
        nodes, pods = self.of(g)
        domains = codes[nodes]
        inside = domains >= 0
        return domains[inside], pods[inside]

    def per_domain(self, classes: Iterable[int], codes: Ids, size: int) -> Ints:
        """int64[size]: pods of some classes in each domain."""
        total = np.zeros(size, dtype=np.int64)
        for g in classes:
            domains, pods = self.in_domains(g, codes)
            np.add.at(total, domains, pods)
        return total
