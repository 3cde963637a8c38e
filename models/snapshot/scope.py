"""The distinction between pods that keep their node and pods to be placed."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubestow.models.custom_workloads.table import recreating
from kubestow.models.kube.objects import Pod, controller_of, is_terminal, is_terminating, pod_key
from kubestow.models.snapshot.snapshot import Snapshot

#: Controllers of Kubernetes that create a replacement elsewhere. Of other owners, those do that the table of workload kinds says so of.
REPLICATING = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def is_mirror(pod: Pod) -> bool:
    """Return True if a pod mirrors a static pod, which its kubelet runs independently of any scheduler."""
    return MIRROR_ANNOTATION in (pod.metadata.annotations or {}) or any(o.kind == "Node" for o in pod.metadata.ownerReferences or ())


def is_replicated(pod: Pod) -> bool:
    """Return True if a controller replaces a pod that goes, on any node."""
    owner = controller_of(pod)
    return owner is not None and (owner.kind in REPLICATING or recreating(owner) != "")


def is_movable(pod: Pod) -> bool:
    """Return True if a bound pod may be moved to another node.

    A replicating controller owns it. It is neither finished, being deleted nor a mirror pod, and its annotation does not
    forbid eviction (safe-to-evict: "false").
    """
    return (
        is_replicated(pod)
        and not is_terminal(pod)
        and not is_terminating(pod)
        and not is_mirror(pod)
        and (pod.metadata.annotations or {}).get(SAFE_TO_EVICT_ANNOTATION) != "false"
    )


@dataclass
class Scope:
    """The pods of a snapshot by their part in a run, as indices into ``snapshot.pods``. Terminal pods are left
    out.

    Attributes:
        fixed: Pods that keep their node.
        pending: Pods to be placed.
        gated: Pods that wait for their scheduling gates.
        invisible: Pods on nodes that the snapshot lacks.
    """

    fixed: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    gated: list[int] = field(default_factory=list)
    invisible: list[int] = field(default_factory=list)


def select(snapshot: Snapshot, *, from_scratch: bool = False, include_gated: bool = False, unbind: str | None = None) -> Scope:
    """Classify the pods of a snapshot.

    Args:
        from_scratch: Movable bound pods count as pending.
        include_gated: Pods with scheduling gates count as pending.
        unbind: A bound pod (``namespace/name``) that counts as pending, whether or not it is movable.
    """
    nodes = {n.metadata.name for n in snapshot.nodes}
    scope = Scope()
    for i, pod in enumerate(snapshot.pods):
        if is_terminal(pod):
            continue
        if pod.spec.nodeName:
            if unbind is not None and pod_key(pod) == unbind:
                scope.pending.append(i)
            elif pod.spec.nodeName not in nodes:
                scope.invisible.append(i)
            elif from_scratch and is_movable(pod):
                scope.pending.append(i)
            else:
                scope.fixed.append(i)
        elif is_terminating(pod):
            continue
        elif pod.spec.schedulingGates and not include_gated:
            scope.gated.append(i)
        else:
            scope.pending.append(i)
    return scope
