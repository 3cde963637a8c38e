"""Policies of nri-plugins for nodes: whether the containers of a pod are created there."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.checker.rules.node_policies import balloons, isolated_cpus
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot


class NodePolicies:
    """The policies of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._given = [each for each in (balloons.Policies(snapshot), isolated_cpus.Policies(snapshot)) if each]

    def __bool__(self) -> bool:
        return bool(self._given)

    def faults(self, pod: objects.Pod, node: objects.Node) -> Iterator[tuple[str, str]]:
        """Yield each rule by which a node does not create the containers of a pod, with the reason."""
        for each in self._given:
            yield from each.faults(pod, node)
