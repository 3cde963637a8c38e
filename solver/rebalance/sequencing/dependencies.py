"""Classes whose verdicts a step can change because a rule over several nodes links them."""

from __future__ import annotations

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit


class Dependencies:
    """Links between classes through rules.

    Attributes:
        cross_node: Per class, True if a rule that looks at more than one node concerns it.
        simple: Per class, True if capacity is the only rule that concerns it.
    """

    def __init__(self, cluster: Cluster, rules: list[Rule]) -> None:
        classes = range(cluster.n_classes)
        self.cross_node = [any(not r.local and r.concerned(g) for r in rules) for g in classes]
        self.simple = [not any(r.concerned(g) for r in rules if not isinstance(r, NodeResourcesFit)) for g in classes]
        self._edges: list[list[int]] = []
        by_topic: dict[object, set[int]] = {}
        for g in classes:
            cls = cluster.classes[g]
            topics: list[object] = [t.matcher for t in cls.anti]
            topics += [s.matcher for s in cls.spread if s.matcher is not None]
            topics += [cls.affinity.full] if cls.affinity is not None else []
            for topic in topics:
                by_topic.setdefault(topic, set()).add(g)
        for topic, owners in by_topic.items():
            assert isinstance(topic, int)
            self._edges.append(sorted(owners | set(cluster.matching(topic).tolist())))
        claims: dict[str, list[int]] = {}
        for g in classes:
            for key in cluster.classes[g].claims:
                claims.setdefault(key, []).append(g)
        self._edges += [edge for edge in claims.values() if len(edge) > 1]
        self._edges += [list(link) for rule in rules for link in rule.order_links()]
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
