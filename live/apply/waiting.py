"""Pods that wait for a node while nodes are closed, and pods that closed nodes do not keep out."""

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
#: Message, reason and time of a condition, or nothing.
Verdict = tuple[str, ...]
#: How the message of kube-scheduler ("0/5 nodes are available: 2 node(s) were unschedulable, 3 Insufficient cpu.") counts cordoned nodes.
_CLOSED: Final = re.compile(r"\b([0-9]{1,9}) node\(s\) were unschedulable")


def waits(pod: Object) -> bool:
    """Return whether closed nodes keep the pod waiting: the scheduler would place it, and it does not tolerate cordons."""
    spec, metadata = pod.get("spec") or {}, pod["metadata"]
    if spec.get("nodeName") or spec.get("schedulingGates") or metadata.get("deletionTimestamp"):
        return False
    return (pod.get("status") or {}).get("phase") in (None, "Pending") and not slips_through(pod)


def slips_through(pod: Object) -> bool:
    """Return whether the scheduler places the pod on cordoned nodes, too: it tolerates ``node.kubernetes.io/unschedulable``."""
    given = (pod.get("spec") or {}).get("tolerations") or ()
    return _tolerated(Toleration(*(each.get(key) for key in ("key", "operator", "value", "effect"))) for each in given)


def verdict(pod: Object) -> Verdict:
    """Return what the scheduler last said of the pod, and when; empty if it has said nothing."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled":
            return tuple(str(condition.get(key) or "") for key in ("message", "reason", "lastTransitionTime"))
    return ()


def looked_at(pod: Object, before: Verdict, closed: int) -> bool:
    """Return whether the scheduler has looked at the pod since only so many nodes are closed. ``before``: what it said until then.

    kube-scheduler tells how many nodes it passed over because they were cordoned. It may have looked when some nodes were open and others
    not yet, so that another number than before is not enough. Of other schedulers anything new counts.
    """
    said = verdict(pod)
    if not said or (said == before and _CLOSED.search(said[0]) is None):
        return False
    found = _CLOSED.search(said[0])
    return found is None or int(found[1]) <= closed


def slipping_notes(snapshot: Snapshot) -> list[str]:
    """Return a sentence for each kind of pods that closed nodes do not keep out, for the announcement of a run.

    Pods of DaemonSets do no harm: they wait for their own node, and a plan leaves them their room.
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
    return [f"closed nodes do not keep out pods that tolerate {UNSCHEDULABLE}, which these do beside DaemonSets: {some(found)}"]


def _tolerated(tolerations: Iterable[Toleration] | None) -> bool:
    return any(tolerates(each, _CORDON) for each in tolerations or ())
