"""Gangs with members to be placed.

Shared code reads the declarations of gangs (:mod:`kubestow.models.gangs.gangs`). The pods to be placed are the
checker's own reading.

Source: docs/gangs.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kubestow.models.documents.policy import Policy
from kubestow.models.gangs import gangs
from kubestow.models.gangs.gangs import Gang
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot


class _Scope(NamedTuple):
    """Indices of pods, in the form that :func:`kubestow.models.gangs.gangs.find` expects."""

    pending: list[int]
    fixed: list[int]
    gated: list[int]
    invisible: list[int]


@dataclass(frozen=True)
class Roster:
    """The gangs with members to be placed.

    Attributes:
        gangs: The gangs.
        gang_of: Name of each such member's gang, by pod key.
        ranks: Priority at which each such member counts, by pod key: the lowest among the gang's members to be placed.
    """

    gangs: tuple[Gang, ...]
    gang_of: Mapping[str, str]
    ranks: Mapping[str, int]


def read_roster(snapshot: Snapshot, pending: Collection[str], policy: Policy, *, keys: Sequence[str] | None = None) -> Roster:
    """Return the gangs of a snapshot that have members to be placed.

    Args:
        snapshot: The snapshot.
        pending: Keys of the pods to be placed.
        policy: The policy.
        keys: Keys of all pods if they are known.

    Raises:
        InputError: a gang's declaration cannot be read, or its members contradict each other.
    """
    nodes = {node.metadata.name for node in snapshot.nodes}
    scope = _Scope([], [], [], [])
    for i, (pod, key) in enumerate(zip(snapshot.pods, keys or map(objects.pod_key, snapshot.pods), strict=True)):
        if key in pending:
            scope.pending.append(i)
        elif objects.is_terminal(pod):
            continue
        elif pod.spec.nodeName:
            (scope.fixed if pod.spec.nodeName in nodes else scope.invisible).append(i)
        elif pod.spec.schedulingGates and not objects.is_terminating(pod):
            scope.gated.append(i)
    found = gangs.find(snapshot, scope, tiers=policy.networkTiers)
    gang_of: dict[str, str] = {}
    ranks: dict[str, int] = {}
    for gang in found:
        members = [snapshot.pods[i] for i in gang.pods]
        lowest = min(pod.spec.priority or 0 for pod in members)
        for pod in members:
            gang_of[objects.pod_key(pod)] = gang.name
            ranks[objects.pod_key(pod)] = lowest
    return Roster(tuple(found), gang_of, ranks)
