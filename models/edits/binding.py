"""Snapshots with pods bound to other nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from kubestow.models.documents.placement import Placement
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot


def bound_as(snapshot: Snapshot, nodes: Iterable[tuple[int, str]]) -> Snapshot:
    """Return a snapshot in which pods, given by index, are bound to these nodes (empty name: unbound).

    Shared parts stay unchanged.
    """
    pods = list(snapshot.pods)
    for i, node in nodes:
        pods[i] = msgspec.structs.replace(pods[i], spec=msgspec.structs.replace(pods[i].spec, nodeName=node))
    return replace(snapshot, pods=pods)


def placed_as(snapshot: Snapshot, placement: Placement) -> Snapshot:
    """Return a snapshot in which all placed pods run on their nodes of the placement."""
    at = {entry.pod: entry.node for entry in placement.assignments}
    return bound_as(snapshot, [(i, at[key]) for i, pod in enumerate(snapshot.pods) if (key := pod_key(pod)) in at])
