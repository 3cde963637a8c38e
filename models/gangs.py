"""Gangs: pods that are placed whole or not at all, as the objects of a snapshot declare them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from models.kube import Pod
from models.scope import Scope
from models.snapshot import Snapshot

#: Annotations of this project, on pods and PodTemplates.
GANG: Final = "kubestow.dev/gang"
MIN_MEMBER: Final = "kubestow.dev/min-member"
REQUIRED_TOPOLOGY: Final = "kubestow.dev/required-topology"
PREFERRED_TOPOLOGY: Final = "kubestow.dev/preferred-topology"
#: Points of each ordered pair of members in one domain of a preferred topology: the most that preferred pod affinity can give.
TOGETHER: Final = 100


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that are placed whole or not at all.

    ``name`` (``namespace/name``) is unique. ``pods``: members to be placed, ``bound``: members that run on a node of the snapshot, both
    indices into ``snapshot.pods``, ascending. ``minimum``: members, running ones included, without which none of ``pods`` is placed
    (None: all of ``pods``). ``key``: a node label of which all members, running ones included, share one value; only preferred, as by
    pairs of members, unless ``required``. ``source``: what declares it, for messages.
    """

    name: str
    pods: tuple[int, ...]
    bound: tuple[int, ...]
    minimum: int | None
    key: str | None = None
    required: bool = False
    source: str = GANG

    @property
    def needed(self) -> int:
        """How many of ``pods`` have to be placed if any is."""
        return len(self.pods) if self.minimum is None else max(0, self.minimum - len(self.bound))


def find(snapshot: Snapshot, scope: Scope) -> list[Gang]:
    """The gangs that have members to be placed, by name.

    Raises:
        InputError: an annotation that cannot be read, or members that contradict each other.
    """
    found: dict[str, list[int]] = {}
    for i in scope.pending:
        name = _name(snapshot.pods[i])
        if name is not None:
            found.setdefault(name, []).append(i)
    bound: dict[str, list[int]] = {}
    for i in scope.fixed:
        name = _name(snapshot.pods[i])
        if name in found:
            bound.setdefault(name, []).append(i)
    return [
        Gang(
            name,
            tuple(pods),
            tuple(bound.get(name, ())),
            _minimum(snapshot.pods[i] for i in pods),
            *_topology(snapshot.pods[i] for i in pods),
        )
        for name, pods in sorted(found.items())
    ]


def _name(pod: Pod) -> str | None:
    value = (pod.metadata.annotations or {}).get(GANG)
    if not value:
        return None
    return value if "/" in value else f"{pod.metadata.namespace or 'default'}/{value}"


def _minimum(pods: Iterable[Pod]) -> int | None:
    values = [int(v) for pod in pods if (v := (pod.metadata.annotations or {}).get(MIN_MEMBER)) is not None]
    return max(values, default=None)


def _topology(pods: Iterable[Pod]) -> tuple[str | None, bool]:
    for pod in pods:
        annotations = pod.metadata.annotations or {}
        if annotations.get(REQUIRED_TOPOLOGY):
            return annotations[REQUIRED_TOPOLOGY], True
        if annotations.get(PREFERRED_TOPOLOGY):
            return annotations[PREFERRED_TOPOLOGY], False
    return None, False
