"""The cost of moving a pod: 1, or the policy's cost for its priority and age, or that of its own annotation."""

from __future__ import annotations

from collections.abc import Iterable

from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.capture_info import moment
from kubestow.models.snapshot.snapshot import InputError, Snapshot

#: Upper limit on costs, so that sums over all pods of a cluster fit 64 bits and CP-SAT.
MAX_COST = 1_000_000


def costs(snapshot: Snapshot, policy: Policy, pods: Iterable[int]) -> dict[int, int]:
    """Return the cost of moving each pod whose cost is not 1, by index into ``snapshot.pods``.

    A pod's age is measured at the creation of the newest pod of the snapshot.

    Raises:
        InputError: Annotations are not whole numbers from 1 to a million; all are listed.
    """
    moves = policy.moves
    now = max((t for pod in snapshot.pods if moves.ages and (t := moment(pod.metadata.creationTimestamp)) is not None), default=None)
    found: dict[int, int] = {}
    problems = []
    for i in pods:
        pod = snapshot.pods[i]
        raw = (pod.metadata.annotations or {}).get(moves.annotation)
        if raw is not None:
            if not (raw.isascii() and raw.isdigit() and 1 <= int(raw[:12]) <= MAX_COST):
                problems.append(f"Pod {pod_key(pod)}: metadata.annotations[{moves.annotation}]: got {raw[:40]!r}, expected 1 to {MAX_COST}")
            else:
                found[i] = int(raw)
            continue
        cost = max((entry.cost for entry in moves.priorities if (pod.spec.priority or 0) >= entry.atLeast), default=1)
        if now is not None and (born := moment(pod.metadata.creationTimestamp)) is not None:
            hours = (now - born).total_seconds() / 3600
            cost = max([cost, *(entry.cost for entry in moves.ages if hours >= entry.atLeastHours)])
        if cost != 1:
            found[i] = cost
    if problems:
        raise InputError(problems)
    return found
