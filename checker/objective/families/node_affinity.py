"""Preferred node affinity for the checker.

Source: docs/preferences.md; kube-scheduler plugin nodeaffinity (node_affinity.go, Score).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubestow.checker.objective.families.base import NodeFamily, Recount, Scene
from kubestow.checker.objective.kinds import PodKind, labels_of, node_affinity
from kubestow.checker.reading import matching
from kubestow.models.kube import objects


class NodeAffinity(NodeFamily):
    """The weights of preferred terms. Each weight over a set of nodes is a preference of its own."""

    name = "nodeAffinity"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._chosen: dict[int, dict[frozenset[str], int]] = {}

    def worth(self, pod: objects.Pod, node: str) -> int:
        wanted = node_affinity(pod.spec)
        if wanted is None:
            return 0
        labels = labels_of(self.scene.nodes[node])
        terms = wanted.preferredDuringSchedulingIgnoredDuringExecution or ()
        return sum(term.weight for term in terms if matching.term_holds(term.preference, labels, node))

    def add(self, pod: objects.Pod, kind: PodKind, nodes: Sequence[str], *, placed: bool) -> None:
        if node_affinity(pod.spec) is not None:
            super().add(pod, kind, nodes, placed=placed)

    def recount(self, pod: objects.Pod, nodes: Sequence[str]) -> Iterator[Recount]:
        for chosen, weight in self._preferred_nodes(pod).items():
            met = sum(name in chosen for name in nodes)
            yield Recount(f"preferred node affinity of weight {weight}", [weight] * (len(nodes) - met), weight * met)

    def _preferred_nodes(self, pod: objects.Pod) -> dict[frozenset[str], int]:
        """Return the weight of each set of nodes that preferred node affinity selects. Terms that no node meets are skipped."""
        wanted = node_affinity(pod.spec)
        if wanted is None or not wanted.preferredDuringSchedulingIgnoredDuringExecution:
            return {}
        found = self._chosen.get(id(wanted))
        if found is None:
            found = self._chosen[id(wanted)] = {}
            for term in wanted.preferredDuringSchedulingIgnoredDuringExecution:
                chosen = frozenset(n for n, node in self.scene.nodes.items() if matching.term_holds(term.preference, labels_of(node), n))
                if chosen:
                    found[chosen] = found.get(chosen, 0) + term.weight
        return found
