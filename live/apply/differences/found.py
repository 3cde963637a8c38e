"""Records of differences, and of the changes that a run made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

#: Maximum number of differences of a kind in a summary.
_MAX_LISTED: Final = 3
#: Kinds in the order of messages, the most likely obstacles first.
_KINDS: Final = ("Node", "Pod", "PodDisruptionBudget", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job")


@dataclass(frozen=True)
class Drift:
    """One difference.

    Attributes:
        kind: Kind of the object.
        name: Name with namespace.
        what: Kind of the difference, such as ``gone``, ``new`` or ``labels``.
        message: Sentence with the object, the field and both values.
        node: Current node of a pod, if it matters.
        value: Current value, if the message does not contain it.
    """

    kind: str
    name: str
    what: str
    message: str
    node: str = ""
    value: str = ""

    @property
    def order(self) -> tuple[int, str, str, str, str]:
        """Sort key: kind, then kind of difference, then name."""
        rank = _KINDS.index(self.kind) if self.kind in _KINDS else len(_KINDS)
        return rank, self.kind, self.what, self.name, self.message


@dataclass(frozen=True)
class Now:
    """The current pod for one of the document: a replacement, or the pod itself after its binding.

    Attributes:
        name: Namespace/name.
        uid: Uid of the pod.
        node: Node given by the run; None while the pod is pending.
    """

    name: str
    uid: str
    node: str | None


@dataclass
class DoneChanges:
    """The changes that a run has made so far.

    Attributes:
        steps: Number and pod (as named by the document) of finished steps.
        gone: Uids of evicted or deleted pods, including replacements that moved on.
        pods: Current pods by the document's names.
        closed: Nodes that the run cordoned.
    """

    steps: set[tuple[int, str]] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    pods: dict[str, Now] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)


def summed_up(found: Iterable[Drift], listed: int = _MAX_LISTED) -> list[str]:
    """Return the messages in order: the first few of each kind of difference, and the number of further ones."""
    lines = []
    for (_, kind, what), group in groupby(sorted(found, key=lambda each: each.order), key=lambda each: each.order[:3]):
        messages = [each.message for each in group]
        lines += messages[:listed]
        more = len(messages) - listed
        if more > 0:
            lines.append(f"and {more} more like this ({kind}, {what})")
    return lines
