"""PreferNoSchedule taints for the checker.

Source: docs/preferences.md; kube-scheduler plugin tainttoleration (taint_toleration.go, Score).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kubestow.checker.objective.families.base import NodeFamily, Recount, Scene
from kubestow.checker.objective.kinds import PodKind, taints_of
from kubestow.checker.reading import taints
from kubestow.models.kube import objects

#: Points for each PreferNoSchedule taint that is not tolerated.
TAINT_POINTS: Final = -100


class Taints(NodeFamily):
    """Soft taints of nodes. Replicas lose points only if some node has one."""

    name, text = "taints", "PreferNoSchedule taints that it does not tolerate"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._soft = {
            name: soft for name, node in scene.nodes.items() if (soft := [t for t in taints_of(node) if t.effect == "PreferNoSchedule"])
        }

    def worth(self, pod: objects.Pod, node: str) -> int:
        gates = self.scene.snapshot.gates
        return TAINT_POINTS * sum(not taints.tolerated(pod.spec.tolerations, taint, gates) for taint in self._soft.get(node, ()))

    def best(self, pod: objects.Pod) -> int:
        return 0

    def add(self, pod: objects.Pod, kind: PodKind, nodes: Sequence[str], *, placed: bool) -> None:
        if self._soft:
            super().add(pod, kind, nodes, placed=placed)

    def recount(self, pod: objects.Pod, nodes: Sequence[str]) -> Iterator[Recount]:
        return super().recount(pod, nodes) if self._soft else iter(())
