"""Node policies of nri-plugins, which may prevent the containers of a pod from being created on a node."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.checker.rules.node_policies import balloons, isolated_cpus
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot


class NodePolicies:
    """The node policies of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._given = [each for each in (balloons.BalloonsPolicies(snapshot), isolated_cpus.TopologyAwarePolicies(snapshot)) if each]

    def __bool__(self) -> bool:
        return bool(self._given)

    def faults(self, pod: objects.Pod, node: objects.Node) -> Iterator[tuple[str, str]]:
        """Yield the rules by which a node would not create the pod's containers, with reasons."""
        for each in self._given:
            yield from each.faults(pod, node)
