"""Pods that are pending because nodes are closed, and pods that tolerate closed nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kubestow.live.api.answers import Object
from kubestow.models.kube import kinds
from kubestow.models.kube.closed_nodes import UNSCHEDULABLE
from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.objects import Taint, Toleration, controller_of, is_terminal, pod_key
from kubestow.models.kube.selectors import tolerates
from kubestow.models.snapshot.snapshot import Snapshot

_CORDON: Final = Taint(key=UNSCHEDULABLE, effect="NoSchedule")
#: Message, reason and time of the condition PodScheduled; empty without one.
Verdict = tuple[str, ...]
#: The number of cordoned nodes in a message of kube-scheduler: "0/5 nodes are available: 2 node(s) were unschedulable, …".
_CLOSED: Final = re.compile(r"\b([0-9]{1,9}) node\(s\) were unschedulable")


def waits(pod: Object) -> bool:
    """Return True if the pod is pending, schedulable and does not tolerate cordons."""
    spec, metadata = pod.get("spec") or {}, pod["metadata"]
    if spec.get("nodeName") or spec.get("schedulingGates") or metadata.get("deletionTimestamp"):
        return False
    return (pod.get("status") or {}).get("phase") in (None, "Pending") and not slips_through(pod)


def slips_through(pod: Object) -> bool:
    """Return True if the pod tolerates cordoned nodes (``node.kubernetes.io/unschedulable``)."""
    given = (pod.get("spec") or {}).get("tolerations") or ()
    return _tolerated(Toleration(*(each.get(key) for key in ("key", "operator", "value", "effect"))) for each in given)


def verdict(pod: Object) -> Verdict:
    """Return the scheduler's last verdict on the pod; empty if there is none."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled":
            return tuple(str(condition.get(key) or "") for key in ("message", "reason", "lastTransitionTime"))
    return ()


def looked_at(pod: Object, before: Verdict, closed: int) -> bool:
    """Return True if the scheduler has considered the pod while at most ``closed`` nodes were closed. ``before``: its verdict until then.

    kube-scheduler reports the number of cordoned nodes. A changed number is not enough, because the scheduler may have run while only some
    nodes were open. For other schedulers, any new verdict counts.
    """
    said = verdict(pod)
    if not said or (said == before and _CLOSED.search(said[0]) is None):
        return False
    found = _CLOSED.search(said[0])
    return found is None or int(found[1]) <= closed


def slipping_notes(snapshot: Snapshot) -> list[str]:
    """Return a note about workloads whose pods tolerate closed nodes, for the start of a run.

    DaemonSet pods are harmless, because each waits for its own node, and plans reserve their capacity.
    """
    found: dict[str, None] = {}
    for kind, listed in snapshot.workloads.items():
        for workload in listed:
            _, template = kinds.pod_template(workload) or ("", None)
            if kind == "DaemonSet" or template is None or template.spec is None or workload.metadata.ownerReferences:
                continue
            if _tolerated(template.spec.tolerations):
                found[f"{kind} {workload.metadata.namespace}/{workload.metadata.name}"] = None
    for pod in snapshot.pods:
        owned = controller_of(pod) is not None
        if not owned and not pod.spec.nodeName and not is_terminal(pod) and _tolerated(pod.spec.tolerations):
            found[f"Pod {pod_key(pod)}"] = None
    if not found:
        return []
    return [f"closed nodes do not keep out pods that tolerate {UNSCHEDULABLE}; besides DaemonSets these are: {some(found)}"]


def _tolerated(tolerations: Iterable[Toleration] | None) -> bool:
    return any(tolerates(each, _CORDON) for each in tolerations or ())
