"""One pod per eligible node, as the DaemonSet controller makes them without regard to resources and pod affinity.

Also covers pods that come and go with a node: those of DaemonSets, and static ones. Source:
pkg/controller/daemon/daemon_controller.go (NodeShouldRunDaemonPod, getNodesToDaemonPods) and
daemon/util/daemonset_util.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.selectors import NodeColumns, Tolerations
from kubestow.models.snapshot.scope import is_mirror
from kubestow.models.workloads.replicas import ReplicaPlan, Slot
from kubestow.models.workloads.view import WorkloadView

_NAME: Final = "metadata.name"
_HARD: Final = frozenset({"NoSchedule", "NoExecute"})
_PREFIX: Final = "node.kubernetes.io/"
_AUTOMATIC: Final = (
    *(objects.Toleration(_PREFIX + key, "Exists", None, "NoExecute") for key in ("not-ready", "unreachable")),
    *(
        objects.Toleration(_PREFIX + key, "Exists", None, "NoSchedule")
        for key in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    ),
)
_HOST_NETWORK: Final = objects.Toleration(_PREFIX + "network-unavailable", "Exists", None, "NoSchedule")

_change = msgspec.structs.replace


def tolerations(spec: objects.PodSpec) -> list[objects.Toleration]:
    """Return the template's tolerations and those that the controller adds."""
    own = list(spec.tolerations or ())
    added = (*_AUTOMATIC, _HOST_NETWORK) if spec.hostNetwork else _AUTOMATIC
    return own + [t for t in added if t not in own]


def eligible(spec: objects.PodSpec, nodes: NodeColumns, gates: FeatureGates) -> list[str]:
    """Return the names of the nodes on which a DaemonSet with this template runs."""
    ok = nodes.has_labels(spec.nodeSelector or {}) & nodes.tolerated(Tolerations(tolerations(spec), gates), _HARD)
    affinity = spec.affinity.nodeAffinity if spec.affinity else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    if required is not None:
        ok = ok & nodes.selector(required)
    return [name for name, good in zip(nodes.names, ok, strict=True) if good and spec.nodeName in (None, "", name)]


def target(pod: objects.Pod) -> str | None:
    """Return the node of a DaemonSet's pod, bound or not."""
    if pod.spec.nodeName:
        return pod.spec.nodeName
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    for term in (required.nodeSelectorTerms if required else None) or ():
        for requirement in term.matchFields or ():
            if requirement.key == _NAME and requirement.operator == "In" and len(requirement.values or ()) == 1:
                return (requirement.values or [""])[0]
    return None


def pinned(affinity: objects.Affinity | None, node: str) -> objects.Affinity:
    """Return the affinity of a node's pod. The controller replaces all required terms by one with the node's name."""
    term = objects.NodeSelectorTerm(matchFields=[objects.NodeSelectorRequirement(_NAME, "In", [node])])
    affinity = affinity or objects.Affinity()
    own = affinity.nodeAffinity or objects.NodeAffinity()
    own = msgspec.structs.replace(own, requiredDuringSchedulingIgnoredDuringExecution=objects.NodeSelector([term]))
    return msgspec.structs.replace(affinity, nodeAffinity=own)


def plan(
    workload: WorkloadView, nodes: Sequence[objects.Node], gates: FeatureGates, existing: Iterable[objects.Pod], revision: str
) -> ReplicaPlan:
    """Return a plan with a pod for each eligible node that has none."""
    wanted = eligible(workload.spec, NodeColumns(nodes), gates)
    running = {target(pod) for pod in existing}
    labels = {"controller-revision-hash": revision}
    return ReplicaPlan(len(wanted), [Slot(base=f"{workload.name}-", labels=labels, node=node) for node in wanted if node not in running])


def is_daemon(pod: objects.Pod) -> bool:
    """Return True if a pod comes with its node: a DaemonSet's or a static one."""
    owner = objects.controller_of(pod)
    return is_mirror(pod) or (owner is not None and owner.kind == "DaemonSet")


def resident(pod: objects.Pod) -> bool:
    """Return True if a pod is a DaemonSet's or a static one, and is neither finished nor being deleted."""
    return is_daemon(pod) and not objects.is_terminal(pod) and not objects.is_terminating(pod)


def settled(pod: objects.Pod, old: str, node: str, suffixed: Callable[[str, str], str]) -> objects.Pod:
    """Return the counterpart of a DaemonSet's or static pod on a similar node, without its claims.

    Args:
        pod: The pod.
        old: Name of the node that the pod is on.
        node: Name of the similar node.
        suffixed: Returns an unused name in a namespace, made of a prefix and five characters.
    """
    namespace = pod.metadata.namespace or "default"
    owner = objects.controller_of(pod)
    if owner is not None and owner.kind == "DaemonSet":
        name = suffixed(namespace, pod.metadata.generateName or f"{owner.name}-")
        owners = pod.metadata.ownerReferences
    else:
        name = f"{(pod.metadata.name or '').removesuffix(f'-{old}')}-{node}"
        owners = [_change(o, name=node, uid=None) if o.kind == "Node" else o for o in pod.metadata.ownerReferences or ()] or None
    spec = _change(pod.spec, nodeName=node)
    if target(_change(pod, spec=_change(pod.spec, nodeName=None))) == old:
        spec.affinity = pinned(spec.affinity, node)
    spec.volumes = [v for v in spec.volumes or () if v.persistentVolumeClaim is None and v.ephemeral is None] or None
    return _change(pod, metadata=_change(pod.metadata, name=name, uid=None, ownerReferences=owners), spec=spec)
