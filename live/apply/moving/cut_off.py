"""Evictions that were cut off half-way: their budget is used up, and their pod runs on.

The API server first notes a pod in ``status.disruptedPods`` of its budget, then deletes it. Where the client is gone in between, the
budget allows one eviction less until the disruption controller no longer expects the pod to go, two minutes later.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from kubestow.live.apply.moving.work import Work
from kubestow.live.apply.whereabouts import is_leaving

#: Seconds after which the disruption controller forgets such a pod, and a little more.
_FORGOTTEN: Final = 125.0


class CutOff(NamedTuple):
    """``budget``, ``pod``: ``namespace/name``; ``since``: when the eviction was begun, as the server has it."""

    budget: str
    pod: str
    since: str


async def patient(work: Work, deadline: float, namespace: str | None = None) -> float:
    """Return until when to ask budgets again: later than ``deadline`` where pods of the run's own steps are taken for evicted and are not.

    ``namespace``: of the budgets, None for all.
    """
    if not any(_cut_off(work, namespace)):
        return deadline
    await work.cluster.refresh()  # pods that are being deleted are not yet seen so
    for found in _cut_off(work, namespace):
        if found not in work.forgotten:
            left = _left(found.since)
            work.forgotten[found] = time.monotonic() + left
            if left:
                said = (
                    f"PodDisruptionBudget {found.budget} takes pod {found.pod} for evicted, which runs: an eviction was cut off; the "
                    f"cluster forgets it after two minutes, in {left:.0f} s at the latest"
                )
                await work.facts.fact("drift", message=said)
                work.listener.note(said)
        deadline = max(deadline, work.forgotten[found])
    return deadline


def _cut_off(work: Work, namespace: str | None) -> Iterator[CutOff]:
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
    """Return the seconds until an eviction of that time is forgotten, as far as clocks agree."""
    try:
        age = (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):
        return 0.0
    return min(_FORGOTTEN, max(0.0, _FORGOTTEN - age))
