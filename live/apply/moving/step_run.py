"""Execution of one step from any stage that an earlier run reached: evicted, gone, replaced, bound, ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kubestow.live.api.answers import Object
from kubestow.live.apply.moving.bind import place
from kubestow.live.apply.moving.evict import evict, gone
from kubestow.live.apply.moving.missing_replacements import is_known, why_none
from kubestow.live.apply.moving.replacement import manifest, recreate, replacement
from kubestow.live.apply.moving.work import Dropped, Ended, StepContext
from kubestow.live.apply.pod_locations import is_leaving, is_over, node_of
from kubestow.live.apply.progress import StepProgress
from kubestow.live.apply.steps import RunStep

#: Seconds for a controller to replace a pod that was evicted for good.
_SUCCESSOR_SECONDS: Final = 10.0
#: Stage of a step: no request sent; evicted; bound; done.
State = Literal["waits", "begun", "bound", "done"]


@dataclass
class StepRun:
    """The execution of one step.

    Attributes:
        step: The step.
        work: The shared state of the run.
        progress: Progress of the step in the journal.
        siblings: Targets of other pods of the same controller in this wave.
        state: Current stage.
        problem: Reason for a failure; empty without one.
        placed: Set once the pod is bound or will not be bound.
    """

    step: RunStep
    work: StepContext
    progress: StepProgress
    siblings: Iterable[str] = ()
    state: State = "waits"
    problem: str = ""
    placed: asyncio.Event = field(default_factory=asyncio.Event)
    _made: Object | None = None
    _known: bool = False

    async def run(self) -> None:
        """Execute the step while the run continues.

        Raises:
            Ended: the step cannot be done.
            Unreachable: the server is gone.
        """
        if self.step.kind == "bind":
            await self._bind()
        elif self._in_turn():
            async with self.work.queue(self.step.origin.owner[2] if self.step.origin.owner else ""):
                await self._move()
        else:
            await self._move()

    def _in_turn(self) -> bool:
        """Return True if the controller creates a pod only when the previous one is Ready."""
        owner = self.step.origin.owner
        if owner is None or owner[0] != "StatefulSet":
            return False
        found: Mapping[str, Any] = self.work.cluster.objects("StatefulSet").get(owner[2]) or {}
        return bool((found.get("spec") or {}).get("podManagementPolicy") != "Parallel")

    # --- a pending pod ----------------------------------------------------------------------------------------------

    async def _bind(self) -> None:
        step, work = self.step, self.work
        standing = work.where.of[step.pod]
        pod = work.cluster.pod(standing.uid)
        self._known = is_known(work.cluster, step.origin)
        if pod is None or is_leaving(pod):
            raise Ended(f"pod {step.pod} {'is gone' if pod is None else 'is being deleted'}{self._why_gone()}")
        if node_of(pod) is None and work.dropped(step) and not self.progress.begun:
            return
        try:
            there = await place(step, pod, work, time.monotonic() + work.options.timeout)
        except Dropped:
            return
        if not there:
            raise Ended(f"pod {step.pod} went away before it was bound{self._why_gone()}")
        await self._arrive(time.monotonic() + work.options.timeout)

    # --- a running pod ----------------------------------------------------------------------------------------------

    async def _move(self) -> None:
        step, work = self.step, self.work
        self._known = is_known(work.cluster, step.origin)
        async with work.slots:
            if self.progress.replacement is None and not self.progress.gone and not await self._evicted():
                return
            self.state = "begun"
            deadline = time.monotonic() + work.options.timeout
            if self.progress.replacement is None:
                await self._empty(deadline)
            if step.kind == "evict":
                await self._succeeded(min(deadline, time.monotonic() + _SUCCESSOR_SECONDS))
                await self._finish()
                return
            await self._placed(deadline)
        while not await self._arrive(time.monotonic() + work.options.timeout):
            await self._placed(time.monotonic() + work.options.timeout)

    async def _evicted(self) -> bool:
        """Evict the pod. First record the manifest of a pod that no controller recreates."""
        step, work, standing = self.step, self.work, self.work.where.of[self.step.pod]
        if work.evictions_held.is_set() and not self.progress.begun:
            return False
        pod = work.cluster.pod(standing.uid)
        if step.origin.owner is None:
            self._made = self.progress.manifest
            if self._made is None and pod is not None:
                self._made = manifest(pod)
                await work.facts.fact("manifest", step=step.number, pod=step.pod, object=self._made)
        if pod is not None:
            work.listener.step(step, "evicting", standing.key)
        return await evict(step, work, requested=self.progress.begun)

    async def _empty(self, deadline: float) -> None:
        """Wait until the old pod is gone, including its grace period. Recreate a pod without a controller."""
        step, work, standing = self.step, self.work, self.work.where.of[self.step.pod]
        if not self.progress.gone:
            pod = work.cluster.pod(standing.uid) or {}
            await gone(step, work, deadline + float((pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 0))
            await work.facts.fact("gone", step=step.number, pod=step.pod)
        work.where.evicted(step)
        work.listener.step(step, "gone", standing.key)
        if step.origin.owner is None:
            made = self._made or self.progress.manifest
            if made is None:
                raise Ended(f"pod {step.pod} is gone, no controller creates it again, and the journal does not have its manifest")
            await recreate(step, work, made, deadline)

    async def _succeeded(self, deadline: float) -> None:
        """Wait until the controller has created the pending successor, which distinguishes it from later foreign pods."""
        work, owner = self.work, self.step.origin.owner

        def complete() -> bool | None:
            found: Mapping[str, Any] = work.cluster.objects(owner[0]).get(owner[2]) or {} if owner is not None else {}
            wanted = (found.get("spec") or {}).get("replicas")
            if owner is None or not isinstance(wanted, int):
                return True
            pods = [pod for pod in work.cluster.pods_of(owner[2]) if not is_leaving(pod) and not is_over(pod)]
            held_up = self._in_turn() and not all(map(is_ready, pods))  # blocked by a pending pod until it has a node
            return True if held_up or len(pods) >= wanted else None

        await work.until_halted(complete, deadline)

    async def _placed(self, deadline: float) -> None:
        """Give the replacement its node. If the replacement is deleted, wait for the next one."""
        step, work = self.step, self.work
        while True:
            standing = work.where.of[step.pod]
            pod = work.cluster.pod(standing.uid) if standing.uid in work.where.replacements else None
            if pod is None or is_leaving(pod):
                if standing.uid in work.where.replacements:
                    work.where.drop(standing.uid)
                pod = await replacement(step, work, max(deadline, time.monotonic() + 1), self.siblings, known=self._known)
            if await place(step, pod, work, deadline):
                return
            work.where.drop(pod["metadata"]["uid"])

    # --- the end ----------------------------------------------------------------------------------------------------

    async def _arrive(self, deadline: float) -> bool:
        """Wait until the pod runs, or is Ready if it was before. Return False if a replacement was deleted."""
        step, work = self.step, self.work
        work.where.arrived(step)
        standing = work.where.of[step.pod]
        self.state = "bound"
        self.placed.set()
        work.listener.step(step, "bound", standing.key)

        def there() -> str | None:
            pod = work.cluster.pod(standing.uid)
            if pod is None or is_leaving(pod):
                return "away"
            if node_of(pod) is None:
                return None  # the Binding is not visible yet
            phase = (pod.get("status") or {}).get("phase")
            if phase == "Failed":
                return "failed"
            return "there" if phase == "Succeeded" or (is_ready(pod) if self._has_to_be_ready else _accepted(pod)) else None

        found = await work.until_halted(there, deadline)
        if found == "failed":
            raise Ended(f"pod {standing.key} failed on {step.target}{_reason(work.cluster.pod(standing.uid))}")
        if found == "away":
            if step.kind == "bind":
                raise Ended(f"pod {standing.key} went away from {step.target} again{self._why_gone()}")
            return False
        if found is None:
            if work.halt.state is not None:
                return True
            raise Ended(f"pod {standing.key} is bound to {step.target} and not {self._awaited} after {work.options.timeout:g} s")
        await self._finish()
        return True

    @property
    def _has_to_be_ready(self) -> bool:
        return self.step.kind != "bind" and self.step.origin.ready

    @property
    def _awaited(self) -> str:
        return "Ready" if self._has_to_be_ready else "taken by its kubelet"

    def _why_gone(self) -> str:
        """Return the end of a sentence about the pod's controller; empty if it still creates pods."""
        why = why_none(self.work.cluster, self.step.origin, known=self._known)
        return f": {why}" if why else ""

    async def _finish(self) -> None:
        step, standing = self.step, self.work.where.of[self.step.pod]
        replaced = step.kind in ("move", "recreate")
        more = {"now": standing.key, "uid": standing.uid} if replaced else {}
        await self.work.facts.fact("done", step=step.number, pod=step.pod, **more)
        self.state = "done"
        self.work.listener.step(step, "done", standing.key)


def is_ready(pod: Object) -> bool:
    """Return True if the pod's condition Ready is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def _accepted(pod: Object) -> bool:
    """Return True if the kubelet has accepted the pod, which may still pull images."""
    status = pod.get("status") or {}
    return bool(status.get("startTime")) or status.get("phase") not in (None, "Pending")


def _reason(pod: Object | None) -> str:
    status = (pod or {}).get("status") or {}
    said = " ".join(str(status[name]) for name in ("reason", "message") if status.get(name))
    return f": {said}" if said else ""
