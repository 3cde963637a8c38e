"""What moving a pod costs, by the policy and the pod's own annotation, as the checker reads them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from models.documents.policy import Policy
from models.kube import objects
from models.snapshot.snapshot import Snapshot

#: What moving a pod costs, at least 1.
Cost = Callable[[objects.Pod], int]


def cost_of(snapshot: Snapshot, policy: Policy) -> Cost:
    """Return the pod's own annotation counts before all, else the dearest of what the policy says of its priority and its age; 1 without
    any. Ages are those at the time of the newest pod of the snapshot."""
    moves = policy.moves
    newest: datetime | None = None
    for pod in snapshot.pods if moves.ages else ():
        born = _born(pod)
        if born is not None and (newest is None or born > newest):
            newest = born

    def cost(pod: objects.Pod) -> int:
        own = (pod.metadata.annotations or {}).get(moves.annotation)
        if own is not None and own.isascii() and own.isdigit():
            return int(own)
        asked = [entry.cost for entry in moves.priorities if (pod.spec.priority or 0) >= entry.atLeast]
        born = _born(pod)
        if born is not None and newest is not None:
            asked += [entry.cost for entry in moves.ages if newest - born >= timedelta(hours=entry.atLeastHours)]
        return max(asked, default=1)

    return cost


def _born(pod: objects.Pod) -> datetime | None:
    """When the pod was created; None where that is not told, or not in full."""
    try:
        found = datetime.fromisoformat(pod.metadata.creationTimestamp or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
