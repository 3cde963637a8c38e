"""Evictions that were interrupted: the budget counts them although the pod still runs.

The API server first records a pod in ``status.disruptedPods`` of its budget, then deletes it. If the client disconnects in between, the
budget allows one eviction less until the disruption controller forgets the entry after two minutes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from kubestow.live.apply.moving.work import StepContext
from kubestow.live.apply.pod_locations import is_leaving

#: Seconds after which the disruption controller forgets such a pod, plus a margin.
_FORGET_SECONDS: Final = 125.0


class CutOff(NamedTuple):
    """An interrupted eviction: namespace/name of budget and pod, and the server's time of its start."""

    budget: str
    pod: str
    since: str


async def patient(work: StepContext, deadline: float, namespace: str | None = None) -> float:
    """Return the deadline for retries of budgets, extended if interrupted evictions of the run's own pods use them up.

    ``namespace``: namespace of the budgets; None for all.
    """
    if not any(_cut_off(work, namespace)):
        return deadline
    await work.cluster.refresh()  # deletions may not be visible yet
    for found in _cut_off(work, namespace):
        if found not in work.forgotten:
            remaining_seconds = _left(found.since)
            work.forgotten[found] = time.monotonic() + remaining_seconds
            if remaining_seconds:
                said = (
                    f"PodDisruptionBudget {found.budget} counts pod {found.pod} as evicted although it runs: an eviction was interrupted; "
                    f"the cluster forgets it after two minutes, in {remaining_seconds:.0f} s or earlier"
                )
                await work.facts.fact("drift", message=said)
                work.listener.note(said)
        deadline = max(deadline, work.forgotten[found])
    return deadline


def _cut_off(work: StepContext, namespace: str | None) -> Iterator[CutOff]:
    ours = {each.key: each.uid for each in work.where.of.values()}
    for budget in work.cluster.objects("PodDisruptionBudget").values():
        where = budget["metadata"].get("namespace") or "default"
        if namespace not in (None, where):
            continue
        for name, since in ((budget.get("status") or {}).get("disruptedPods") or {}).items():
            uid = ours.get(f"{where}/{name}", "")
            pod = None if uid in work.asking else work.cluster.pod(uid)
            if pod is not None and not is_leaving(pod):
                yield CutOff(f"{where}/{budget['metadata']['name']}", f"{where}/{name}", str(since))


def _left(since: str) -> float:
    """Return the seconds until an eviction of this time is forgotten, if clocks agree."""
    try:
        age = (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):
        return 0.0
    return min(_FORGET_SECONDS, max(0.0, _FORGET_SECONDS - age))
