"""A snapshot with pods bound elsewhere than they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from models.snapshot.snapshot import Snapshot


def bound_as(snapshot: Snapshot, nodes: Iterable[tuple[int, str]]) -> Snapshot:
    """Return a snapshot in which pods, given by index, are bound to these nodes (to none: an empty name). Shared parts are left as they
    are."""
    pods = list(snapshot.pods)
    for i, node in nodes:
        pods[i] = msgspec.structs.replace(pods[i], spec=msgspec.structs.replace(pods[i].spec, nodeName=node))
    return replace(snapshot, pods=pods)
