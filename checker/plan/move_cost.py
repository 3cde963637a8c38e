"""What moving a pod costs, by the policy and the pod's own annotation, as the checker reads them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from kubestow.models.documents.policy import Policy
from kubestow.models.kube import objects
from kubestow.models.snapshot.capture_info import moment
from kubestow.models.snapshot.snapshot import Snapshot

#: What moving a pod costs, at least 1.
Cost = Callable[[objects.Pod], int]


def cost_of(snapshot: Snapshot, policy: Policy) -> Cost:
    """Return the pod's own annotation counts before all, else the dearest of what the policy says of its priority and its age; 1 without
    any. Ages are those at the time of the newest pod of the snapshot."""
    moves = policy.moves
    told = (moment(pod.metadata.creationTimestamp) for pod in snapshot.pods if moves.ages)
    newest = max((born for born in told if born is not None), default=None)

    def cost(pod: objects.Pod) -> int:
        own = (pod.metadata.annotations or {}).get(moves.annotation)
        if own is not None and own.isascii() and own.isdigit():
            return int(own)
        asked = [entry.cost for entry in moves.priorities if (pod.spec.priority or 0) >= entry.atLeast]
        born = moment(pod.metadata.creationTimestamp)
        if born is not None and newest is not None:
            asked += [entry.cost for entry in moves.ages if newest - born >= timedelta(hours=entry.atLeastHours)]
        return max(asked, default=1)

    return cost
