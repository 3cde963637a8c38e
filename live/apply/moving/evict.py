"""Eviction of exactly the pod of a step, with retries until its budget allows it."""

from __future__ import annotations

import time
from typing import Final
from urllib.parse import quote

from kubestow.live.api.answers import Object, ServerAnswer, Unreachable
from kubestow.live.apply.moving.budget_waits import awaited, by_budget, waits_for
from kubestow.live.apply.moving.cut_off_evictions import patient
from kubestow.live.apply.moving.missing_replacements import why_none
from kubestow.live.apply.moving.work import Ended, StepContext
from kubestow.live.apply.pod_locations import is_leaving, node_of
from kubestow.live.apply.steps import RunStep
from kubestow.models.disruption.eviction_requests import of_uid

#: Statuses after which the pod is read again: gone, replaced under the same name, or changed meanwhile.
_READ_AGAIN: Final = (404, 409)


def pod_path(key: str, subresource: str = "") -> str:
    """Return the URL path of a pod or its subresource."""
    namespace, _, name = key.partition("/")
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}{subresource}"


def eviction(key: str, uid: str) -> Object:
    """Return the Eviction of one pod, identified by name and uid."""
    namespace, _, name = key.partition("/")
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }


async def evict(step: RunStep, work: StepContext, *, requested: bool = False) -> bool:
    """Evict the pod of a step. Return False if the run ends or the wave is interrupted before.

    The time limit counts from the first attempt. ``requested``: an earlier run may have sent the eviction.

    Raises:
        Ended: the pod was replaced, its budget does not allow the eviction in time, or the server refuses.
        Unreachable: the server is gone.
    """
    standing, now = work.where.of[step.pod], time.monotonic()
    began, hold_until = work.tried.setdefault(step.id, now), now + work.options.hold
    deadline, api = began + work.options.timeout, work.api_of(*step.id)
    while True:
        pod = work.cluster.pod(standing.uid)
        if pod is None or is_leaving(pod):
            if requested:
                return True
            why = why_none(work.cluster, step.origin)
            what = "is gone" if pod is None else "is being deleted"
            raise Ended(f"pod {standing.key} {what}, and not by this run{f': {why}' if why else ''}")
        if node_of(pod) != step.source:
            raise Ended(f"pod {standing.key} is on {node_of(pod) or 'no node'}, in the plan on {step.source}")
        if not requested and (others := of_uid(work.cluster.objects("EvictionRequest"), standing.uid)) is not None:
            raise Ended(f"pod {standing.key} is to be evicted by others: {others} asks for it")
        if work.halt.state is not None or work.evictions_held.is_set():
            return False
        work.alive()
        work.asking.add(standing.uid)
        try:
            answer = await api.send("POST", pod_path(standing.key, "/eviction"), eviction(standing.key, standing.uid))
        except Unreachable:
            requested = True
            await work.cluster.refresh()  # it may have been executed
            continue
        finally:
            work.asking.discard(standing.uid)
        if answer.ok:
            return True
        if answer.code in _READ_AGAIN:
            requested = True  # possibly by our own request whose answer was lost
            await work.cluster.refresh()
        elif answer.code != 429:
            raise Ended(f"pod {standing.key} cannot be evicted: {answer.message}")
        else:
            deadline = await patient(work, deadline, standing.key.partition("/")[0])
        if time.monotonic() >= deadline:
            waited = max(work.options.timeout, round(deadline - began))
            raise Ended(f"pod {standing.key} cannot be evicted for {waited:g} s: {_budget(answer)}{waits_for([step], work)}")
        if by_budget(answer) and time.monotonic() >= hold_until and awaited([step], work):
            work.evictions_held.set()
            return False
        if answer.code == 429 or work.cluster.pod(standing.uid) is pod:
            await work.pause(min(work.options.pause, deadline - time.monotonic()))


def _budget(answer: ServerAnswer) -> str:
    """Return the server's message about the budget."""
    details = answer.body.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    said = [str(cause["message"]) for cause in causes or () if isinstance(cause, dict) and cause.get("message")]
    return " ".join([answer.message, *said])


async def gone(step: RunStep, work: StepContext, deadline: float) -> None:
    """Wait until an evicted pod is gone.

    Raises:
        Ended: the pod still exists after the time limit.
    """
    standing = work.where.of[step.pod]
    if not await work.until(lambda: True if work.cluster.pod(standing.uid) is None else None, deadline):
        raise Ended(f"pod {standing.key} was evicted and is not gone after {work.options.timeout:g} s")
