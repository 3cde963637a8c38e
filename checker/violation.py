"""What the checker finds, and what its parts share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kubestow.models.kube import objects

#: The rule of violations that lie in the document, not in a placement.
DOCUMENT: Final = "Placement"
#: Why a pod that waits for its scheduling gates is not to be placed.
GATED: Final = "it is gated"


@dataclass(frozen=True)
class Violation:
    """One broken rule. ``rule`` is the scheduler plugin's name, or ``Placement`` for a fault of the document itself;
    ``pod`` (``namespace/name``) and ``node`` are empty where the fault concerns neither; ``why`` names objects and numbers."""

    pod: str
    node: str
    rule: str
    why: str


def is_mirror(pod: objects.Pod) -> bool:
    """Return whether a pod is the API's mirror of a static pod, which its kubelet runs whatever the scheduler decides."""
    owners = pod.metadata.ownerReferences or ()
    return "kubernetes.io/config.mirror" in (pod.metadata.annotations or {}) or any(owner.kind == "Node" for owner in owners)


def stays_with_node(pod: objects.Pod) -> bool:
    """Return whether a node with the pod counts as empty: a DaemonSet's or a static one."""
    owner = objects.controller_of(pod)
    return is_mirror(pod) or (owner is not None and owner.kind == "DaemonSet")


class InternalFault(Exception):
    """The checker refused a result: a fault of kubestow's own, so nothing is returned."""


def insist(faults: Sequence[Violation]) -> None:
    """Raise if the checker found anything.

    Raises:
        InternalFault: naming the first few violations.
    """
    if faults:
        raise InternalFault("; ".join(f"{f.pod} on {f.node}: {f.rule}: {f.why}" for f in faults[:3]))
