"""Binding of a pod to its node, or scheduling if a Binding would strand the pod."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from kubestow.live.api.answers import Object, Unreachable
from kubestow.live.apply.moving.evict import pod_path
from kubestow.live.apply.moving.work import Dropped, Ended, StepContext
from kubestow.live.apply.node_changes import is_closed
from kubestow.live.apply.pod_locations import is_leaving, key_of, node_of
from kubestow.live.apply.steps import RunStep
from kubestow.live.apply.waiting import Verdict, looked_at, verdict
from kubestow.models.kube.pod_spec import SELECTED_NODE


def binding(pod: Object, node: str) -> Object:
    """Return the Binding of one pod, identified by name and uid, to a node."""
    metadata = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


async def place(step: RunStep, pod: Object, work: StepContext, deadline: float) -> bool:
    """Give a pending pod the node of its step. Return False if the pod is deleted before.

    Raises:
        Ended: the pod does not fit any more, is on another node, or the server refuses.
        Dropped: the run ends before a request was sent.
        Unreachable: the server is gone.
    """
    uid, target = pod["metadata"]["uid"], step.target
    assert target is not None
    found: Object | None = pod
    while found is not None and not is_leaving(found):
        node = node_of(found)
        if node == target:
            return True
        if node is not None:
            raise Ended(f"pod {key_of(found)} is on {node}: the plan has {step.pod} on {target}")
        if (found.get("spec") or {}).get("schedulingGates"):
            raise Ended(f"pod {key_of(found)} has scheduling gates, and can be bound only when they are gone")
        await _require_fit(step, found, work)
        claims = list(open_claims(found, work))
        if claims or step.devices or (found.get("spec") or {}).get("resourceClaims"):
            return await _let_in(step, found, claims, work, deadline)
        found = await _bind(step, found, work, deadline)
        if found is None:
            found = work.cluster.pod(uid)
    return False


async def _require_fit(step: RunStep, pod: Object, work: StepContext) -> None:
    target = step.target or ""
    if work.unchanged(target) and (work.halt.state is None or step.gang in work.whole):
        return
    key = key_of(pod)
    why = await work.fits(step, key)
    if why:
        raise Ended(f"pod {key}{f', which replaces {step.pod},' if key != step.pod else ''} is not bound to {target}: {why}")


async def _bind(step: RunStep, pod: Object, work: StepContext, deadline: float) -> Object | None:
    """Send a Binding. Return the bound pod; None if the pod must be read again."""
    key, target = key_of(pod), step.target or ""
    async with work.bindings:
        if step.kind == "bind" and work.dropped(step):
            raise Dropped
        work.alive()
        try:
            answer = await work.api_of(*step.id).send("POST", pod_path(key, "/binding"), binding(pod, target))
        except Unreachable:
            await work.cluster.refresh()
            return None
    if answer.ok:
        return {**pod, "spec": {**pod["spec"], "nodeName": target}}
    if answer.code not in (404, 409) and answer.code < 500:
        raise Ended(f"pod {key} cannot be bound to {target}: {answer.message}")
    await work.cluster.refresh()  # gone, replaced under the same name, or bound by our own request whose answer was lost
    if time.monotonic() >= deadline:
        raise Ended(f"pod {key} cannot be bound to {target} for {work.options.timeout:g} s: {answer.message}")
    if work.cluster.pod(pod["metadata"]["uid"]) is pod:
        await work.pause(work.options.pause)
    return None


# --- by the scheduler -------------------------------------------------------------------------------------------------


def open_claims(pod: Object, work: StepContext) -> Iterator[tuple[str, Object | None]]:
    """Yield name and object (None if missing) of the pod's claims without a volume. An ephemeral volume has the claim POD-VOLUME."""
    names = []
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            names.append(volume["persistentVolumeClaim"].get("claimName"))
        elif volume.get("ephemeral"):
            names.append(f"{pod['metadata']['name']}-{volume.get('name')}")
    if not names:
        return
    namespace = pod["metadata"].get("namespace")
    for name in names:
        claim = work.cluster.named("PersistentVolumeClaim", name, namespace)
        if claim is None or not (claim.get("spec") or {}).get("volumeName"):
            yield name, claim


def _waits_for_nobody(claim: Object, work: StepContext) -> bool:
    """Return True if a claim gets its volume before its pod has a node."""
    spec: dict[str, Any] = claim.get("spec") or {}
    found = work.cluster.named("StorageClass", spec.get("storageClassName") or "")
    return found is None or found.get("volumeBindingMode") != "WaitForFirstConsumer"


async def _let_in(step: RunStep, pod: Object, claims: list[tuple[str, Object | None]], work: StepContext, deadline: float) -> bool:
    """Let the scheduler bind a pod to the node of its step. Return False if the pod is deleted."""
    uid, key, target = pod["metadata"]["uid"], key_of(pod), step.target or ""
    for name, claim in claims:
        if claim is not None and _waits_for_nobody(claim, work) and not await _volume(name, pod, step, work, deadline):
            return False
    async with work.entering:
        if step.kind == "bind" and work.dropped(step):
            raise Dropped
        if work.shut_out:
            raise Ended(f"pod {key} is not let in to {target}, because pod {work.shut_out} was let in without success")
        before, began = verdict(work.cluster.pod(uid) or pod), time.monotonic()
        async with work.gate.let_in(pod, target):
            found = await _scheduled(step, uid, before, work, max(deadline, began + work.options.timeout))
        if found is None:
            await work.cluster.refresh()  # the pod may have been bound just before the node was closed again
            found = _moved(uid, work)
        if found is None:
            if step.kind == "bind" and work.dropped(step):
                raise Dropped
            work.shut_out = key
            waited = min(work.options.timeout, round(time.monotonic() - began, 1))
            raise Ended(f"the scheduler has not put pod {key} on {target} within {waited:g} s{_why_not(work.cluster.pod(uid))}")
    if found[0] is None or is_leaving(found[0]):
        return False
    if node_of(found[0]) != target:
        raise Ended(f"the scheduler has put pod {key} on {node_of(found[0])}: the plan has {step.pod} on {target}")
    return True


def _moved(uid: str, work: StepContext) -> tuple[Object | None] | None:
    """Return the pod in a tuple once it is bound or deleted; None while it is pending."""
    now = work.cluster.pod(uid)
    return (now,) if now is None or is_leaving(now) or node_of(now) else None


async def _scheduled(step: RunStep, uid: str, before: Verdict, work: StepContext, deadline: float) -> tuple[Object | None] | None:
    """Wait for the scheduler. Give up after it has rejected the pod and had time for a retry.

    If the run ends, a pod that was already pending is not awaited. ``before``: the scheduler's verdict before the node was opened.
    """
    closed = sum(is_closed(node) for node in work.cluster.objects("Node").values() if node["metadata"]["name"] != step.target)
    end, rejected = deadline, False

    def news() -> bool | None:
        return True if _moved(uid, work) or _is_rejected(work.cluster.pod(uid), before, closed, work) != rejected else None

    while await work.until_dropped(step, news, end):
        if moved := _moved(uid, work):
            return moved
        rejected = not rejected
        end = min(deadline, time.monotonic() + work.options.patience) if rejected else deadline
        if step.kind == "bind" and work.dropped(step):
            break
    return None


def _is_rejected(pod: Object | None, before: Verdict, closed: int, work: StepContext) -> bool:
    """Return True if the scheduler has rejected the pod with this number of closed nodes."""
    if pod is None or verdict(pod)[1:2] != ("Unschedulable",) or not looked_at(pod, before, closed):
        return False
    claims = (claim for _, claim in open_claims(pod, work) if claim is not None)  # the verdict stays while a volume is provisioned
    return not any(SELECTED_NODE in (claim["metadata"].get("annotations") or {}) for claim in claims)


async def _volume(name: str, pod: Object, step: RunStep, work: StepContext, deadline: float) -> bool:
    """Wait until a claim has its volume. Return False if its pod is deleted."""
    uid = pod["metadata"]["uid"]

    def news() -> bool | None:
        now = work.cluster.pod(uid)
        there = now is not None and not is_leaving(now)
        return False if not there else True if name not in dict(open_claims(pod, work)) else None

    found = await work.until_dropped(step, news, deadline)
    if found is None:
        if step.kind == "bind" and work.dropped(step):
            raise Dropped
        raise Ended(f"claim {name} of pod {key_of(pod)} has no volume after {work.options.timeout:g} s")
    return found


def _why_not(pod: Object | None) -> str:
    """Return the scheduler's message about a pod, as the end of a sentence."""
    for condition in ((pod or {}).get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("message"):
            return f": {condition['message']}"
    return ""
