"""The replacement of an evicted pod: created by its controller, or from its own manifest if it has none."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable
from typing import Final

from kubestow.live.api.answers import Object, Unreachable
from kubestow.live.apply.moving.evict import pod_path
from kubestow.live.apply.moving.missing_replacements import why_none
from kubestow.live.apply.moving.work import Ended, StepContext
from kubestow.live.apply.pod_locations import is_leaving, is_like, is_over, key_of, node_of
from kubestow.live.apply.steps import RunStep

#: Metadata set by the server, which must be absent when a pod is created.
_FILLED_IN: Final = (
    "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
    "selfLink",
)  # fmt: skip


def manifest(pod: Object) -> Object:
    """Return a manifest from which the pod can be recreated on any node."""
    made: Object = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(pod)}
    made.pop("status", None)
    for name in _FILLED_IN:
        made["metadata"].pop(name, None)
    for name in ("nodeName", "ephemeralContainers"):
        made["spec"].pop(name, None)
    return made


async def recreate(step: RunStep, work: StepContext, made: Object, deadline: float) -> None:
    """Recreate a pod unless it exists.

    Raises:
        Ended: the server refuses.
        Unreachable: the server is gone.
    """
    namespace = step.pod.partition("/")[0]
    while not _named(step, work):
        work.alive()
        try:
            answer = await work.api_of(*step.id).send("POST", pod_path(f"{namespace}/").rstrip("/"), made)
        except Unreachable:
            await work.cluster.refresh()
            continue
        if not answer.ok and (answer.code != 409 or time.monotonic() > deadline):
            raise Ended(f"pod {step.pod} was evicted and cannot be created again: {answer.message}; its manifest is in the journal")
        await work.cluster.refresh()
        if answer.code == 409 and not _named(step, work):
            await work.pause(work.options.pause)  # this server still has the old pod


def _named(step: RunStep, work: StepContext) -> list[Object]:
    """Return the new pod with the same name in a list; empty if there is none."""
    namespace, _, name = work.where.of[step.pod].key.partition("/")
    pod, owner = work.cluster.named("Pod", name, namespace), step.origin.owner
    if pod is None or not work.where.free(pod["metadata"]["uid"]):
        return []
    owners = [each.get("uid") for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")]
    return [pod] if owners == ([] if owner is None else [owner[2]]) else []


async def replacement(step: RunStep, work: StepContext, deadline: float, siblings: Iterable[str], *, known: bool = False) -> Object:
    """Wait for the replacement of an evicted pod, and record it.

    ``siblings``: targets of other pods of its controller. ``known``: True if the controller existed when the step began.

    Raises:
        Ended: no replacement appears in time, the controller creates none, or the scheduler has put it on another node.
    """
    targets = {step.target, *siblings}

    def found() -> Object | str | None:
        pods = _candidates(step, work)
        waiting = [pod for pod in pods if node_of(pod) in (None, step.target)]
        if waiting:
            best = min(waiting, key=lambda pod: (node_of(pod) is None, pod["metadata"].get("creationTimestamp") or "", key_of(pod)))
            work.where.take(step, best)
            return best
        stray = next((pod for pod in pods if node_of(pod) not in targets), None)
        if stray is not None:
            work.where.take(step, stray)
            return stray
        return why_none(work.cluster, step.origin, known=known) or None

    pod: Object | str | None = await work.until(found, deadline)
    if isinstance(pod, str):
        raise Ended(f"pod {step.pod} was evicted, and nothing takes its place: {pod}")
    if pod is None:
        owner = step.origin.owner
        by = f"{owner[0]} {owner[1]} has made no other one" if owner is not None else "it is not there again"
        raise Ended(f"pod {step.pod} was evicted, and {by} within {work.options.timeout:g} s")
    key, uid, node = key_of(pod), pod["metadata"]["uid"], node_of(pod)
    await work.facts.fact("replacement", step=step.number, pod=step.pod, now=key, uid=uid)
    if node is not None and node != step.target:
        raise Ended(f"the scheduler has put pod {key} on {node}, though that was closed: the plan has {step.pod} on {step.target}")
    return pod


def _candidates(step: RunStep, work: StepContext) -> list[Object]:
    if step.origin.keeps_name:
        pods = _named(step, work)
    else:
        assert step.origin.owner is not None
        pods = [pod for pod in work.cluster.pods_of(step.origin.owner[2]) if work.where.free(pod["metadata"]["uid"])]
    return [pod for pod in pods if not is_leaving(pod) and not is_over(pod) and is_like(pod, step.origin)]
