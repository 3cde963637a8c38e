"""Which pods of a snapshot hold their place, and which are to be placed."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubestow.models.kube.objects import Pod, controller_of, is_terminal, is_terminating, pod_key
from kubestow.models.snapshot.snapshot import Snapshot

#: Controllers that make a new pod elsewhere when one goes; other owners (DaemonSet, Node, operators) do not, or may not.
REPLICATING = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def is_mirror(pod: Pod) -> bool:
    """Return whether a pod is the API's mirror of a static pod, which its kubelet runs whatever a scheduler decides."""
    return MIRROR_ANNOTATION in (pod.metadata.annotations or {}) or any(o.kind == "Node" for o in pod.metadata.ownerReferences or ())


def is_replicated(pod: Pod) -> bool:
    """Return whether a controller makes a pod anew, somewhere, when it goes."""
    owner = controller_of(pod)
    return owner is not None and owner.kind in REPLICATING


def is_movable(pod: Pod) -> bool:
    """Return whether a bound pod could be placed again: a replicating controller owns it, and nothing pins it."""
    return (
        is_replicated(pod)
        and not is_terminal(pod)
        and not is_terminating(pod)
        and not is_mirror(pod)
        and (pod.metadata.annotations or {}).get(SAFE_TO_EVICT_ANNOTATION) != "false"
    )


@dataclass
class Scope:
    """Indices into ``snapshot.pods``: ``fixed`` pods hold their node, ``pending`` ones are to be placed; ``gated`` ones wait for
    their scheduling gates; ``invisible`` ones run on nodes that the snapshot lacks. Terminal pods are in none."""

    fixed: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    gated: list[int] = field(default_factory=list)
    invisible: list[int] = field(default_factory=list)


def select(snapshot: Snapshot, *, from_scratch: bool = False, include_gated: bool = False, unbind: str | None = None) -> Scope:
    """Sort the pods of a snapshot. ``unbind``: this bound pod (``namespace/name``) counts as pending, movable or not."""
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
