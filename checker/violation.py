"""Violations, and helpers that the checker's modules share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kubestow.models.kube import objects

#: Rule name of violations in the document itself.
DOCUMENT: Final = "Placement"
#: Why a pod that waits for its scheduling gates is not to be placed.
GATED: Final = "it is gated"


@dataclass(frozen=True)
class Violation:
    """One broken rule.

    Attributes:
        pod: ``namespace/name``, or empty if no pod is concerned.
        node: Name of the node, or empty if none is concerned.
        rule: Name of the scheduler plugin, or ``Placement`` for a fault of the document itself.
        why: The reason, with objects and numbers.
    """

    pod: str
    node: str
    rule: str
    why: str


def is_mirror(pod: objects.Pod) -> bool:
    """Return True if a pod is the API's mirror of a static pod, which its kubelet runs independently of the scheduler."""
    owners = pod.metadata.ownerReferences or ()
    return "kubernetes.io/config.mirror" in (pod.metadata.annotations or {}) or any(owner.kind == "Node" for owner in owners)


def stays_with_node(pod: objects.Pod) -> bool:
    """Return True if a node may run the pod and still count as empty: a DaemonSet's or a static pod."""
    owner = objects.controller_of(pod)
    return is_mirror(pod) or (owner is not None and owner.kind == "DaemonSet")


class InternalFault(Exception):
    """The checker rejected a result. This is a fault of kubestow itself, so nothing is returned."""


def insist(faults: Sequence[Violation]) -> None:
    """Raise if the checker found violations.

    Raises:
        InternalFault: the message names the first three violations.
    """
    if faults:
        raise InternalFault("; ".join(f"{f.pod} on {f.node}: {f.rule}: {f.why}" for f in faults[:3]))
