"""What is found: differences, and what of them a run made itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

_LISTED: Final = 3
#: The order in which kinds are told of: what most likely is in the way first.
_KINDS: Final = ("Node", "Pod", "PodDisruptionBudget", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job")


@dataclass(frozen=True)
class Drift:
    """One difference. ``kind``, ``name``: of the object, with its namespace; ``what``: what kind of difference (``gone``, ``new``,
    ``labels`` …); ``message``: a sentence that names object, field, and both values; ``node``: the node that a pod is on now, if it
    matters; ``value``: what is there now, as far as the message leaves it out."""

    kind: str
    name: str
    what: str
    message: str
    node: str = ""
    value: str = ""

    @property
    def order(self) -> tuple[int, str, str, str, str]:
        """Return a key to sort by: by kind, then by what differs, then by name."""
        rank = _KINDS.index(self.kind) if self.kind in _KINDS else len(_KINDS)
        return rank, self.kind, self.what, self.name, self.message


@dataclass(frozen=True)
class Now:
    """The pod that stands for one of the document: a replacement, or the pod itself once it is bound. ``name``: namespace/name; ``node``:
    where the run put it, None while it waits."""

    name: str
    uid: str
    node: str | None


@dataclass
class Done:
    """What a run did so far.

    ``steps``: number and pod (as the document names it) of each step that is done; ``gone``: uids of the pods that it evicted or deleted,
    replacements that moved on included; ``pods``: by the document's names, what stands for them now; ``closed``: nodes that it cordoned.
    """

    steps: set[tuple[int, str]] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    pods: dict[str, Now] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)


def summed_up(found: Iterable[Drift], listed: int = _LISTED) -> list[str]:
    """Return the messages in order, of each kind of difference only the first few, and how many more there are."""
    lines = []
    for (_, kind, what), group in groupby(sorted(found, key=lambda each: each.order), key=lambda each: each.order[:3]):
        messages = [each.message for each in group]
        lines += messages[:listed]
        more = len(messages) - listed
        if more > 0:
            lines.append(f"and {more} more like this ({kind}, {what})")
    return lines
