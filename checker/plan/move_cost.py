"""The cost of moving a pod, by the policy and the pod's annotation, as the checker reads them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from kubestow.models.documents.policy import Policy
from kubestow.models.kube import objects
from kubestow.models.snapshot.capture_info import moment
from kubestow.models.snapshot.snapshot import Snapshot

#: Returns the cost of moving a pod, at least 1.
Cost = Callable[[objects.Pod], int]


def cost_of(snapshot: Snapshot, policy: Policy) -> Cost:
    """Return the cost function of a policy.

    The pod's own annotation has precedence. Otherwise the highest cost that the policy assigns to its priority or
    age counts, or 1. Ages are measured at the creation time of the newest pod.
    """
    moves = policy.moves
    creation_times = (moment(pod.metadata.creationTimestamp) for pod in snapshot.pods if moves.ages)
    newest = max((born for born in creation_times if born is not None), default=None)

    def cost(pod: objects.Pod) -> int:
        own = (pod.metadata.annotations or {}).get(moves.annotation)
        if own is not None and own.isascii() and own.isdigit():
            return int(own)
        costs = [entry.cost for entry in moves.priorities if (pod.spec.priority or 0) >= entry.atLeast]
        born = moment(pod.metadata.creationTimestamp)
        if born is not None and newest is not None:
            costs += [entry.cost for entry in moves.ages if newest - born >= timedelta(hours=entry.atLeastHours)]
        return max(costs, default=1)

    return cost
