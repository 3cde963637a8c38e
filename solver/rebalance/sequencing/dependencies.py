"""Classes whose verdicts a step can change because a rule over several nodes links them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver.rules.base import CapacityRule, Rule
from kubestow.solver.rules.plans import PlanFace


class Dependencies:
    """Links between classes through rules.

    Attributes:
        cross_node: Per class, True if a rule that looks at more than one node concerns it.
        simple: Per class, True if capacity is the only rule that concerns it.
    """

    def __init__(self, cluster: Cluster, faces: Sequence[PlanFace[Any]]) -> None:
        classes = range(cluster.n_classes)
        rules: list[Rule] = [face.rule for face in faces]
        self.cross_node = [any(not r.local and r.concerned(g) for r in rules) for g in classes]
        self.simple = [not any(r.concerned(g) for r in rules if not isinstance(r, CapacityRule)) for g in classes]
        self._edges: list[list[int]] = []
        owners: dict[int, set[int]] = {}
        for g in classes:
            for selector in (selector for face in faces for selector in face.selectors(g)):
                owners.setdefault(selector, set()).add(g)
        self._edges += [sorted(mine | set(cluster.matching(selector).tolist())) for selector, mine in owners.items()]
        self._edges += [link for face in faces for link in face.links()]
        self._of: list[list[int]] = [[] for _ in classes]
        for i, edge in enumerate(self._edges):
            for g in edge:
                self._of[g].append(i)
        self._near: dict[int, frozenset[int]] = {}

    def near(self, g: int) -> frozenset[int]:
        """Return the classes that a step of class g may affect on any node."""
        near = self._near.get(g)
        if near is None:
            own = (g,) if self.cross_node[g] else ()
            near = self._near[g] = frozenset(h for i in self._of[g] for h in self._edges[i]).union(own)
        return near
