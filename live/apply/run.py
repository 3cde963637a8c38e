"""Execution of a document wave by wave, until it is done or something blocks it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import msgspec

from kubestow.live.api.answers import Api, Object, Unauthorized, Unreachable
from kubestow.live.apply import drift
from kubestow.live.apply.differences.nodes import opened
from kubestow.live.apply.drift import DoneChanges, Judge, Now
from kubestow.live.apply.fence import Fence, FenceTerms
from kubestow.live.apply.journal import Journal, JournaledApi, JournalLost
from kubestow.live.apply.lease import LeaseLost
from kubestow.live.apply.moving.budget_waits import awaited, first_try, waits_for
from kubestow.live.apply.moving.closing_report import closing_sentences
from kubestow.live.apply.moving.cut_off_evictions import patient
from kubestow.live.apply.moving.missing_replacements import gone_because
from kubestow.live.apply.moving.node_watch import NodeWatch
from kubestow.live.apply.moving.step_run import StepRun
from kubestow.live.apply.moving.work import ClusterReader, Ended, HaltRequest, RunListener, RunOptions, StepContext
from kubestow.live.apply.node_changes import FenceError, annotation
from kubestow.live.apply.outcome import MAX_LISTED, EndJudge, RunOutcome
from kubestow.live.apply.pod_locations import CurrentPod, PodLocations, is_let_in, node_of
from kubestow.live.apply.steps import RunStep, targets, waves
from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.documents.rebalance_plan import Move, RebalancePlan
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import InputError, Snapshot

#: Exceptions that end a run.
FAULTS = (Ended, FenceError, JournalLost, LeaseLost, Unreachable, InputError)


class RunLease(Protocol):
    """Exclusion of concurrent runs, implemented by :class:`kubestow.live.apply.lease.Lease`."""

    lost: asyncio.Event
    denied: Unauthorized | None

    def check(self) -> None: ...


@dataclass
class Execution:
    """One run of a document. ``judge`` and ``judge_end`` call the independent checker.

    Raises:
        InputError: the document cannot be applied to a cluster.
    """

    api: Api
    cluster: ClusterReader
    journal: Journal
    document: RebalancePlan | Placement
    snapshot: Snapshot
    judge: Judge
    options: RunOptions = field(default_factory=RunOptions)
    listener: RunListener = field(default_factory=RunListener)
    lease: RunLease | None = None
    judge_end: EndJudge | None = None

    def __post_init__(self) -> None:
        """Derive the steps, without a request to the cluster."""
        self._waves = waves(self.document, self.snapshot)
        self._steps = [step for wave in self._waves for step in wave]
        journaled = JournaledApi(self.api, self.journal)
        self._where = PodLocations.initial(self._steps, (pod.metadata.uid or "" for pod in self.snapshot.pods))
        self._planned = {step.origin.uid for step in self._steps}
        self.fence = Fence(journaled, self.cluster, self.journal.run, self.journal, self._terms())
        self.fence.inherit(self.journal.progress.closed)
        self._drift = drift.DriftWatch(self.snapshot, self.document, self.judge)
        self._watch = NodeWatch(self.cluster, self._where)
        self._halt, self._said = HaltRequest(), ""
        self._step_runs: dict[tuple[int, str], StepRun] = {}
        self._done: set[tuple[int, str]] = set()
        self._task: asyncio.Task[None] | None = None
        self._work = StepContext(
            journaled.of, self.cluster, self.journal, self.fence, self._where, self.options, self.listener, self._fits,
            self._watch.unchanged, self._alive, self._foreign, self._halt,
        )  # fmt: skip

    def _terms(self) -> FenceTerms:
        plan = self.document
        if not isinstance(plan, RebalancePlan):
            return FenceTerms(planned=self._planned, before=self.snapshot, targets=targets(self._steps))
        sources = {step.source for step in self._steps if step.source is not None}
        return FenceTerms({*plan.drain, *plan.freed}, sources, self._planned, self.snapshot, targets(self._steps))

    # --- from outside -----------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """End the run after the steps under way. A second call ends it at once. Nodes are opened in either case."""
        if self._halt.state is None:
            self._halt.ask("interrupted", "interrupted")
        elif self._task is not None:
            self._halt.ask("interrupted", "interrupted twice: pods on their way were left as they were")
            self._task.cancel()

    async def run(self) -> RunOutcome:
        """Apply the document as far as possible. Nodes are opened again in any case."""
        self._task = asyncio.ensure_future(self._all())
        denied = asyncio.ensure_future(self._until_denied(self._task))
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
        finally:
            denied.cancel()
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            if not isinstance(error, FAULTS):
                with contextlib.suppress(Exception):
                    await self.fence.open()
                raise error
            self._fault(error)
        return await self._finish()

    async def _until_denied(self, task: asyncio.Task[None]) -> None:
        """End the run if the Lease is lost because of refused credentials, since no awaited event would be seen any more."""
        if self.lease is not None:
            await self.lease.lost.wait()
            if self.lease.denied is not None:
                self._fault(self.lease.denied)
                task.cancel()

    # --- waves ------------------------------------------------------------------------------------------------------

    async def _all(self) -> None:
        self._alive()
        if not self._steps and not (isinstance(self.document, RebalancePlan) and self.document.drain):
            return  # nothing to do, so close no node
        await self.fence.close()
        await self.cluster.refresh()
        self._recover()
        begun = self._begun()
        if begun:
            self.listener.note(f"{len(begun)} steps that the run had begun are resumed")
            await self._carry_out(begun)
        first = True
        for wave in self._waves:
            remaining_steps = [step for step in wave if step.id not in self._done]
            if self.options.wave is not None and wave[0].wave > self.options.wave:
                return
            if not remaining_steps or self._halt.state is not None:
                continue
            if not first:
                await self._between(remaining_steps[0].wave)
            first = False
            await self._check(remaining_steps)
            if self._halt.state is None:
                await self.journal.fact("wave", wave=remaining_steps[0].wave)
                self.listener.wave(remaining_steps[0].wave, len(remaining_steps))
                self._settle_down()
                await self._carry_out(remaining_steps)

    def _begun(self) -> list[RunStep]:
        """Return the unfinished steps of an earlier part of this run, with all steps of their gangs."""
        remaining_steps = [step for step in self._steps if step.id not in self._done]
        begun = {step.id for step in remaining_steps if self.journal.progress.of(*step.id).begun or self._came_in(step)}
        gangs = {(step.gang, step.wave) for step in remaining_steps if step.id in begun and step.kind == "bind" and step.gang is not None}
        return [step for step in remaining_steps if step.id in begun or (step.kind == "bind" and (step.gang, step.wave) in gangs)]

    def _came_in(self, step: RunStep) -> bool:
        """Return True if the scheduler has bound a let-in pod after that part of the run had died."""
        pod = self.cluster.pod(self._where.of[step.pod].uid) if step.kind == "bind" else None
        return pod is not None and is_let_in(pod) and node_of(pod) == step.target

    async def _between(self, wave: int) -> None:
        """Give pending foreign pods a chance, and pause if requested. Replacements of pods evicted for good keep waiting."""
        self._foreign()
        await self.fence.between_waves()
        if self.options.pause_between:
            answer = asyncio.ensure_future(self.listener.pause(wave))
            while not answer.done() and self._halt.state is None:
                await asyncio.wait([answer], timeout=1)
                if not answer.done():
                    await self.fence.between_waves()
            if not answer.done():
                answer.cancel()
            elif not answer.result():
                self._halt.ask("interrupted", f"ended before wave {wave}, as requested")
        if self._halt.state is None:
            await self.fence.close()
            await self.cluster.refresh()

    def _foreign(self) -> Mapping[str, Object]:
        """Return the pending pods that are neither planned, nor replacements, nor successors of pods evicted for good."""
        for step in self._steps:
            if step.kind == "evict" and step.id in self._done and step.origin.owner is not None:
                pods = self.cluster.pods_of(step.origin.owner[2])
                self._planned.update(pod["metadata"]["uid"] for pod in pods if node_of(pod) is None)
        return {uid: pod for uid, pod in self.fence.waiting().items() if uid not in self._where.replacements}

    async def _carry_out(self, steps: Sequence[RunStep]) -> None:
        """Execute the steps of a wave. Interrupt it when budgets wait for pending foreign pods."""
        await self._carry(steps)
        while self._work.evictions_held.is_set():
            self._work.evictions_held.clear()
            steps = [step for step in steps if step.id not in self._done]
            if self._halt.state is None and steps:
                if awaited(steps, self._work):  # otherwise the awaited pods became replacements
                    await self._open_for_budgets(steps)
                await self._check(steps)
            if self._halt.state is None and steps:
                self._settle_down()
                await self._carry(steps)

    async def _open_for_budgets(self, steps: Sequence[RunStep]) -> float:
        """Open nodes within a wave, as between waves. Return the time for the next repetition."""
        said, self._said = self._said, f"evictions are refused{waits_for(steps, self._work)}: nodes are opened as between waves"
        if said != self._said:
            self.listener.note(self._said)
        await self.fence.between_waves()
        await self.fence.close()
        await self.cluster.refresh()
        return time.monotonic() + self.options.hold

    def _settle_down(self) -> None:
        """Record the cluster's state as the one that was checked. Pods that are bound now are no replacements."""
        self._where.known.update(
            uid for uid, pod in self.cluster.objects("Pod").items() if node_of(pod) is not None and uid not in self._where.replacements
        )
        self._watch.remember()

    async def _carry(self, steps: Sequence[RunStep]) -> None:
        """Execute steps concurrently, in bind order where needed."""
        by_owner: dict[str, list[str]] = {}
        for step in steps:
            if step.origin.owner is not None and step.target is not None:
                by_owner.setdefault(step.origin.owner[2], []).append(step.target)
        gangs: dict[str, list[StepRun]] = {}
        step_runs = []
        for step in steps:
            siblings = by_owner.get(step.origin.owner[2], ()) if step.origin.owner is not None else ()
            step_run = self._step_runs[step.id] = StepRun(step, self._work, self.journal.progress.of(*step.id), siblings)
            step_runs.append(step_run)
            if step.gang is not None and step.kind == "bind":
                gangs.setdefault(step.gang, []).append(step_run)
        tasks: list[asyncio.Task[None]] = []
        try:
            for step_run in step_runs:
                if step_run.step.after:
                    await asyncio.gather(*(each.placed.wait() for each in step_runs[: len(tasks)]))
                if step_run.step.gang in gangs and not self._whole(gangs[step_run.step.gang]):
                    step_run.placed.set()
                tasks.append(asyncio.create_task(self._one(step_run)))
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _whole(self, members: Sequence[StepRun]) -> bool:
        """Return True if all members of a gang are present, so that it may begin. A gang that is begun is finished.

        If a member is missing, the run ends.
        """
        gang = members[0].step.gang or ""
        if gang in self._work.whole:
            return True
        if self._halt.state is not None and not any(step_run.progress.begun for step_run in members):
            return False
        for step_run in members:
            pod = self.cluster.pod(self._where.of[step_run.step.pod].uid)
            if pod is None or node_of(pod) not in (None, step_run.step.target):
                what = "is gone" if pod is None else f"is on {node_of(pod)}"
                self._halt.ask("stopped", f"gang {gang} is not begun: pod {step_run.step.pod} {what}")
                return False
        self._work.whole.add(gang)
        return True

    async def _one(self, step_run: StepRun) -> None:
        try:
            await step_run.run()
        except FAULTS as error:
            step_run.problem = str(error)
            self._fault(error)
        finally:
            step_run.placed.set()
        if step_run.state == "done":
            self._done.add(step_run.step.id)

    def _fault(self, error: BaseException) -> None:
        gone = isinstance(error, Unreachable) and not isinstance(error, Unauthorized)
        self._halt.ask("stopped", f"{'the API server does not answer any more: ' if gone else ''}{error}")

    def _alive(self) -> None:
        """Raise if no further request may be sent."""
        self.fence.check()
        if self.lease is not None:
            self.lease.check()

    # --- what was done before ---------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Restore the state of an earlier part of this run from the journal."""
        where = self._where
        for step in self._steps:
            known = self.journal.progress.of(*step.id)
            if known.done:
                self._done.add(step.id)
            if step.kind != "bind" and (known.done or known.gone or known.uid is not None):
                where.evicted(step)
            if known.uid is not None and known.replacement is not None:
                where.of[step.pod] = CurrentPod(known.replacement, known.uid, None)
                where.replacements[known.uid] = step.pod
            if known.done:
                where.arrived(step)

    # --- judging ----------------------------------------------------------------------------------------------------

    async def _check(self, steps: Sequence[RunStep]) -> None:
        """Check the remaining steps on the current cluster; end the run if they are not valid any more.

        If only used-up budgets are in the way, retry until the time limit. If they wait for pending pods, open nodes meanwhile.
        """
        deadline, hold_until = first_try(steps, self._work) + self.options.timeout, time.monotonic() + self.options.hold
        while self._halt.state is None:
            verdict = await asyncio.to_thread(self._drift.check, self.cluster.snapshot(), self._so_far())
            for each in drift.summed_up(verdict.new):
                await self.journal.fact("drift", message=each)
                self.listener.note(f"harmless: {each}")
            if not verdict.faults:
                return
            if verdict.passing:
                deadline = await patient(self._work, deadline)
            if not verdict.passing or time.monotonic() >= deadline:
                more = waits_for(steps, self._work) if verdict.passing else gone_because(steps, self._work)
                for fault in verdict.faults[:-1]:
                    self._halt.ask("stopped", fault + (more if verdict.passing else ""))
                self._halt.ask("stopped", verdict.faults[-1] + more)
                return
            if time.monotonic() >= hold_until and awaited(steps, self._work):
                hold_until = await self._open_for_budgets(steps)
            await self._work.pause(self.options.pause)

    def _so_far(self) -> DoneChanges:
        """Return the changes made by the run, for the comparison with the cluster."""
        moved = {key: standing for key, standing in self._where.of.items() if standing.uid in self._where.replacements}
        bound = {step.pod for step in self._steps if step.kind == "bind" and step.id in self._done}
        pods = {key: Now(each.key, each.uid, each.node) for key, each in self._where.of.items() if key in moved or key in bound}
        return DoneChanges(set(self._done), set(self._where.gone), pods, self._closed())

    def _closed(self) -> set[str]:
        nodes = self.cluster.objects("Node").values()
        return {node["metadata"]["name"] for node in nodes if (by := annotation(node)) is not None and by.run == self.journal.run}

    async def _fits(self, step: RunStep, key: str) -> str:
        """Return the reason why a pending pod does not fit its node now; empty if it fits. ``key``: its current name."""
        await self.cluster.refresh()
        now = opened(self.cluster.snapshot(), self.snapshot, self._closed())
        waiting = {pod_key(pod) for pod in now.pods if not pod.spec.nodeName}
        mates = [each for each in self._steps if step.gang is not None and each.gang == step.gang and each.kind == "bind"]
        wanted = {key: step.target or ""} | {mate.pod: mate.target or "" for mate in mates if mate.pod in waiting}
        found = await asyncio.to_thread(self.judge, now, self._only(wanted))
        return found[0].message if found else ""

    def _only(self, wanted: Mapping[str, str]) -> RebalancePlan | Placement:
        """Return the document reduced to binding these pods at once."""
        if isinstance(self.document, Placement):
            named = {each.pod: each.devices for each in self.document.assignments}
            bound = [Assignment(key, node, 1, devices=named.get(key, [])) for key, node in wanted.items()]
            return msgspec.structs.replace(self.document, assignments=bound, unplaced=[])
        return msgspec.structs.replace(self.document, moves=[Move(1, 1, key, None, node, "") for key, node in wanted.items()], evictions=[])

    # --- the end ----------------------------------------------------------------------------------------------------

    async def _finish(self) -> RunOutcome:
        done = [step for step in self._steps if step.id in self._done]
        remaining_steps = [step for step in self._steps if step.id not in self._done]
        state: Literal["done", "paused", "stopped", "interrupted"] = self._halt.state or ("paused" if remaining_steps else "done")
        outcome = RunOutcome(state, done, remaining_steps, list(self._halt.reasons))
        if state == "done":
            with contextlib.suppress(Unreachable):
                await self.cluster.refresh()
            if self.judge_end is not None:
                stands = {key: each.key for key, each in self._where.of.items()}
                end = await asyncio.to_thread(self.judge_end, opened(self.cluster.snapshot(), self.snapshot, self._closed()), stands)
                outcome.missed, outcome.foreign = list(end.missed), list(end.foreign)
        drained = self.document.drain if state == "done" and isinstance(self.document, RebalancePlan) else ()
        kept_closed = (
            self.document.drain if self.options.hold_drained and state == "stopped" and isinstance(self.document, RebalancePlan) else ()
        )
        outcome.not_opened = await self.fence.open(drained=drained, kept_closed=kept_closed)
        outcome.standing = await closing_sentences(self._step_runs.values(), self.cluster, self._where, self.fence.any_open)
        with contextlib.suppress(JournalLost):
            others = [f"{len(outcome.foreign)} differences that others made"] if len(outcome.foreign) > MAX_LISTED else outcome.foreign
            said = "; ".join([outcome.message, *outcome.missed, *others])
            await self.journal.fact("end" if state in ("done", "paused") else "stopped", message=said)
        return outcome


__all__ = ["Execution", "Judge", "RunListener", "RunOptions", "RunOutcome"]
