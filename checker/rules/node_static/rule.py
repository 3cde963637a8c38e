"""The rules about one pod and one node alone: cordons, taints, node affinity, and the kubelet's features and operating system.

Source: k8s.io/api/core/v1 (toleration.go) and k8s.io/component-helpers (scheduling/corev1, nodedeclaredfeatures), as of v1.36.
"""

from __future__ import annotations

from typing import Final

from kubestow.checker.reading import matching, node_features, taints
from kubestow.checker.rules.base import Fault, Place, StaticRule, World
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates

_CORDONED: Final = (taints.CORDON,)
_features_asked: Final = matching.Once(node_features.features_asked)


def _undeclared(spec: objects.PodSpec, node: objects.Node) -> list[str]:
    features = _features_asked(spec)
    return sorted(features.difference((node.status.declaredFeatures if node.status else None) or ())) if features else []


def _other_system(spec: objects.PodSpec, node: objects.Node) -> str | None:
    """Return the operating system of a node if the pod names another one. The kubelet then rejects the pod (PodOSNotSupported)."""
    if spec.os is None or not spec.os.name:
        return None
    status = node.status
    reported = status.nodeInfo.operatingSystem if status is not None and status.nodeInfo is not None else None
    runs = reported or (node.metadata.labels or {}).get("kubernetes.io/os")
    return runs if runs and runs != spec.os.name else None


def is_open(node: objects.Node) -> bool:
    """Return True if the node has neither a cordon nor a taint, so that it rejects no pod on its own."""
    return node.spec is None or not (node.spec.unschedulable or node.spec.taints)


def is_choosy(spec: objects.PodSpec) -> bool:
    """Return True if a pod requires properties of a node that do not depend on other pods."""
    placed_by = spec.affinity is not None and spec.affinity.nodeAffinity is not None
    return bool(spec.nodeSelector or placed_by or spec.os or node_features.features_asked(spec))


def node_faults(spec: objects.PodSpec, node: objects.Node, gates: FeatureGates, *, running: bool = False) -> list[tuple[str, str]]:
    """Return the rules about a pod and a node alone that reject the pod, with reasons.

    Args:
        spec: The pod's spec.
        node: The node.
        gates: The feature gates.
        running: True if the pod already runs there, so that a cordon is ignored.
    """
    found: list[tuple[str, str]] = []
    if node.spec is not None:
        if node.spec.unschedulable and not running and taints.untolerated_taint(spec.tolerations, _CORDONED, gates):
            found.append(("NodeUnschedulable", "the node is cordoned"))
        taint = taints.untolerated_taint(spec.tolerations, node.spec.taints or (), gates, running=running)
        if taint:
            found.append(("TaintToleration", f"taint {taint.key}={taint.value or ''}:{taint.effect} is not tolerated"))
    lacking = _undeclared(spec, node)
    if lacking and gates.enabled("NodeDeclaredFeatures"):
        found.append(("NodeDeclaredFeatures", f"the node does not declare {', '.join(lacking)}"))
    system = _other_system(spec, node)
    if system:
        found.append(("PodOS", f"the node runs {system}, which is not the operating system of the pod"))
    refused = matching.node_affinity_fault(spec, node)
    return [*found, ("NodeAffinity", refused)] if refused else found


class NodeStatic(StaticRule[bool]):
    """The rules about a pod and a node alone. The reading is True if the pod requires properties of a node."""

    names = "NodeUnschedulable", "TaintToleration", "NodeDeclaredFeatures", "PodOS", "NodeAffinity"
    order, for_good = 10, True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._all_open = all(map(is_open, world.nodes.values()))

    def read(self, pod: objects.Pod, *, judged: bool) -> bool | None:
        choosy = is_choosy(pod.spec)
        return choosy if choosy or not self._all_open else None

    def faults(self, reading: bool, pod: objects.Pod, place: Place) -> list[Fault]:
        return node_faults(pod.spec, place.node, self.world.snapshot.gates) if reading or not is_open(place.node) else []


class NodeName(StaticRule[str]):
    """A pod that names its node belongs there. The reading is the name."""

    names, order, for_moves = ("NodeName",), 40, False

    def read(self, pod: objects.Pod, *, judged: bool) -> str | None:
        return pod.spec.nodeName or None

    def faults(self, reading: str, pod: objects.Pod, place: Place) -> list[Fault]:
        if reading == place.name or objects.pod_key(pod) in self.world.free:
            return []
        return [("NodeName", f"the pod belongs on node {reading}")]
