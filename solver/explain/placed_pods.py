"""The snapshot after a placement: pods run on their nodes, and their claims have volumes."""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.models.edits.binding import bound_as
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules


def placed_in(snapshot: Snapshot, placed: Sequence[tuple[int, str]]) -> Snapshot:
    """Return a snapshot with pods bound to their nodes.

    Args:
        placed: (index of a pod, its node), in bind order.
    """
    bound = bound_as(snapshot, placed)
    for kind in rules.ALL:
        kind.bind(snapshot, bound, placed)
    return bound
