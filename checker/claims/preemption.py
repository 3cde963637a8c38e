"""Preemption in a simulated Placement: pods of lower priority that run on the node."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.checker.replicas import Crowd
from kubestow.checker.violation import DOCUMENT, Violation
from kubestow.models.documents.placement import Placement

#: The engine of a simulation of kube-scheduler.
SCHEDULER = "kube-scheduler"


def preemption_faults(placement: Placement, crowd: Crowd) -> list[Violation]:
    """Return the faults of the evictions that a simulation names.

    Args:
        placement: The document.
        crowd: Pods of the snapshot.
    """
    where = {entry.pod: entry.node for entry in placement.assignments}
    return [
        Violation(entry.pod, entry.preemption.node, DOCUMENT, why)
        for entry in placement.unplaced
        if entry.preemption is not None
        for why in _faults(entry.pod, entry.preemption.node, entry.preemption.victims, where, crowd)
    ]


def _faults(pod: str, node: str, victims: list[str], where: dict[str, str], crowd: Crowd) -> Iterator[str]:
    if pod not in crowd:
        return  # reported by others
    own = crowd[pod]
    if own.spec.preemptionPolicy == "Never":
        yield "the pod never preempts others"
    if not victims:
        yield "no pod is to be evicted for it"
    for name in victims:
        if name not in crowd:
            yield f"there is no pod {name} to evict"
            continue
        victim = crowd[name]
        if (victim.spec.nodeName or where.get(name)) != node:
            yield f"pod {name} is not on the node"
        if (victim.spec.priority or 0) >= (own.spec.priority or 0):
            yield f"pod {name} has no lower priority"
