"""Carries a document out: wave after wave, until it is done or something stands in the way."""

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
from kubestow.live.apply.drift import Done, Judge, Now
from kubestow.live.apply.fence import Fence, Terms
from kubestow.live.apply.journal import Journal, JournaledApi, JournalLost
from kubestow.live.apply.lease import LeaseLost
from kubestow.live.apply.moving.course import Course
from kubestow.live.apply.moving.cut_off import patient
from kubestow.live.apply.moving.hold import awaited, first_try, waits_for
from kubestow.live.apply.moving.node_watch import NodeWatch
from kubestow.live.apply.moving.owner import gone_because
from kubestow.live.apply.moving.standing import closing_sentences
from kubestow.live.apply.moving.work import Cluster, Ended, Halt, Listener, Options, Work
from kubestow.live.apply.node_changes import FenceError, annotation
from kubestow.live.apply.outcome import LISTED, EndJudge, Outcome
from kubestow.live.apply.steps import Step, targets, waves
from kubestow.live.apply.whereabouts import Standing, Whereabouts, is_let_in, node_of
from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.documents.rebalance_plan import Move, RebalancePlan
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import InputError, Snapshot

#: What ends a run when it goes on no longer.
FAULTS = (Ended, FenceError, JournalLost, LeaseLost, Unreachable, InputError)


class Lease(Protocol):
    """What keeps two runs apart, which :class:`kubestow.live.apply.lease.Lease` is."""

    lost: asyncio.Event
    denied: Unauthorized | None

    def check(self) -> None: ...


@dataclass
class Execution:
    """One run of a document. ``snapshot``: the one that it was made from; ``judge``, ``judge_end``: the independent checker.

    Making one raises InputError where the document cannot be carried out on a cluster.
    """

    api: Api
    cluster: Cluster
    journal: Journal
    document: RebalancePlan | Placement
    snapshot: Snapshot
    judge: Judge
    options: Options = field(default_factory=Options)
    listener: Listener = field(default_factory=Listener)
    lease: Lease | None = None
    judge_end: EndJudge | None = None

    def __post_init__(self) -> None:
        """Find the steps; nothing is asked of the cluster yet."""
        self._waves = waves(self.document, self.snapshot)
        self._steps = [step for wave in self._waves for step in wave]
        journaled = JournaledApi(self.api, self.journal)
        self._where = Whereabouts.at_first(self._steps, (pod.metadata.uid or "" for pod in self.snapshot.pods))
        self._planned = {step.origin.uid for step in self._steps}
        self.fence = Fence(journaled, self.cluster, self.journal.run, self.journal, self._terms())
        self.fence.inherit(self.journal.progress.closed)
        self._drift = drift.Watch(self.snapshot, self.document, self.judge)
        self._watch = NodeWatch(self.cluster, self._where)
        self._halt, self._said = Halt(), ""
        self._courses: dict[tuple[int, str], Course] = {}
        self._done: set[tuple[int, str]] = set()
        self._task: asyncio.Task[None] | None = None
        self._work = Work(
            journaled.of, self.cluster, self.journal, self.fence, self._where, self.options, self.listener, self._fits,
            self._watch.unchanged, self._alive, self._foreign, self._halt,
        )  # fmt: skip

    def _terms(self) -> Terms:
        plan = self.document
        if not isinstance(plan, RebalancePlan):
            return Terms(planned=self._planned, before=self.snapshot, targets=targets(self._steps))
        sources = {step.source for step in self._steps if step.source is not None}
        return Terms({*plan.drain, *plan.freed}, sources, self._planned, self.snapshot, targets(self._steps))

    # --- from outside -----------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """End the run in good order: what is begun is brought to an end. Called again, end it at once; nodes are opened in any case."""
        if self._halt.state is None:
            self._halt.ask("interrupted", "interrupted")
        elif self._task is not None:
            self._halt.ask("interrupted", "interrupted twice: pods on their way were left as they were")
            self._task.cancel()

    async def run(self) -> Outcome:
        """Carry the document out as far as it goes, and open the nodes again, whatever happens."""
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
        """End the run when the Lease is lost because the credentials are refused: nothing that is waited for would be seen any more."""
        if self.lease is not None:
            await self.lease.lost.wait()
            if self.lease.denied is not None:
                self._fault(self.lease.denied)
                task.cancel()

    # --- waves ------------------------------------------------------------------------------------------------------

    async def _all(self) -> None:
        self._alive()
        if not self._steps and not (isinstance(self.document, RebalancePlan) and self.document.drain):
            return  # no node has to be closed for nothing
        await self.fence.close()
        await self.cluster.refresh()
        self._recover()
        begun = self._begun()
        if begun:
            self.listener.note(f"{len(begun)} steps that the run had begun before are taken up")
            await self._carry_out(begun)
        first = True
        for wave in self._waves:
            left = [step for step in wave if step.id not in self._done]
            if self.options.wave is not None and wave[0].wave > self.options.wave:
                return
            if not left or self._halt.state is not None:
                continue
            if not first:
                await self._between(left[0].wave)
            first = False
            await self._check(left)
            if self._halt.state is None:
                await self.journal.fact("wave", wave=left[0].wave)
                self.listener.wave(left[0].wave, len(left))
                self._settle_down()
                await self._carry_out(left)

    def _begun(self) -> list[Step]:
        """Return the steps that an earlier part of this run has begun and not done, with all of the gangs among them."""
        left = [step for step in self._steps if step.id not in self._done]
        begun = {step.id for step in left if self.journal.progress.of(*step.id).begun or self._came_in(step)}
        gangs = {(step.gang, step.wave) for step in left if step.id in begun and step.kind == "bind" and step.gang is not None}
        return [step for step in left if step.id in begun or (step.kind == "bind" and (step.gang, step.wave) in gangs)]

    def _came_in(self, step: Step) -> bool:
        """Return whether the scheduler has bound a pod that was let in, after that part of the run had died."""
        pod = self.cluster.pod(self._where.of[step.pod].uid) if step.kind == "bind" else None
        return pod is not None and is_let_in(pod) and node_of(pod) == step.target

    async def _between(self, wave: int) -> None:
        """Let foreign pods have the nodes that are theirs, and wait if that was asked for. What replaces pods that go for good waits on."""
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
                self._halt.ask("interrupted", f"ended before wave {wave}, as asked")
        if self._halt.state is None:
            await self.fence.close()
            await self.cluster.refresh()

    def _foreign(self) -> Mapping[str, Object]:
        """Return the pods that wait for a node and are not the run's: neither planned nor a replacement nor what follows pods that go."""
        for step in self._steps:
            if step.kind == "evict" and step.id in self._done and step.origin.owner is not None:
                pods = self.cluster.pods_of(step.origin.owner[2])
                self._planned.update(pod["metadata"]["uid"] for pod in pods if node_of(pod) is None)
        return {uid: pod for uid, pod in self.fence.waiting().items() if uid not in self._where.taken}

    async def _carry_out(self, steps: Sequence[Step]) -> None:
        """Carry steps of a wave out, as often broken off for pods that their budgets wait for as needed."""
        await self._carry(steps)
        while self._work.held.is_set():
            self._work.held.clear()
            steps = [step for step in steps if step.id not in self._done]
            if self._halt.state is None and steps:
                if awaited(steps, self._work):  # else what they waited for has been taken as a replacement
                    await self._open_for_budgets(steps)
                await self._check(steps)
            if self._halt.state is None and steps:
                self._settle_down()
                await self._carry(steps)

    async def _open_for_budgets(self, steps: Sequence[Step]) -> float:
        """Open nodes as between waves, in the midst of one; return when to do so again."""
        said, self._said = self._said, f"evictions are refused{waits_for(steps, self._work)}: nodes are opened as between waves"
        if said != self._said:
            self.listener.note(self._said)
        await self.fence.between_waves()
        await self.fence.close()
        await self.cluster.refresh()
        return time.monotonic() + self.options.hold

    def _settle_down(self) -> None:
        """Take the cluster as it is for what the wave was judged on: pods that are bound now replace none of ours."""
        self._where.known.update(
            uid for uid, pod in self.cluster.objects("Pod").items() if node_of(pod) is not None and uid not in self._where.taken
        )
        self._watch.remember()

    async def _carry(self, steps: Sequence[Step]) -> None:
        """Carry steps out at once, as far as nothing says otherwise."""
        by_owner: dict[str, list[str]] = {}
        for step in steps:
            if step.origin.owner is not None and step.target is not None:
                by_owner.setdefault(step.origin.owner[2], []).append(step.target)
        gangs: dict[str, list[Course]] = {}
        courses = []
        for step in steps:
            siblings = by_owner.get(step.origin.owner[2], ()) if step.origin.owner is not None else ()
            course = self._courses[step.id] = Course(step, self._work, self.journal.progress.of(*step.id), siblings)
            courses.append(course)
            if step.gang is not None and step.kind == "bind":
                gangs.setdefault(step.gang, []).append(course)
        tasks: list[asyncio.Task[None]] = []
        try:
            for course in courses:
                if course.step.after:
                    await asyncio.gather(*(each.placed.wait() for each in courses[: len(tasks)]))
                if course.step.gang in gangs and not self._whole(gangs[course.step.gang]):
                    course.placed.set()
                tasks.append(asyncio.create_task(self._one(course)))
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _whole(self, members: Sequence[Course]) -> bool:
        """Begin a gang if all of its members are there, or none of it; what is begun is brought to its end.

        The run ends if one is not.
        """
        gang = members[0].step.gang or ""
        if gang in self._work.whole:
            return True
        if self._halt.state is not None and not any(course.progress.begun for course in members):
            return False
        for course in members:
            pod = self.cluster.pod(self._where.of[course.step.pod].uid)
            if pod is None or node_of(pod) not in (None, course.step.target):
                what = "is gone" if pod is None else f"is on {node_of(pod)}"
                self._halt.ask("stopped", f"gang {gang} is not begun: pod {course.step.pod} {what}")
                return False
        self._work.whole.add(gang)
        return True

    async def _one(self, course: Course) -> None:
        try:
            await course.run()
        except FAULTS as error:
            course.problem = str(error)
            self._fault(error)
        finally:
            course.placed.set()
        if course.state == "done":
            self._done.add(course.step.id)

    def _fault(self, error: BaseException) -> None:
        gone = isinstance(error, Unreachable) and not isinstance(error, Unauthorized)
        self._halt.ask("stopped", f"{'the API server does not answer any more: ' if gone else ''}{error}")

    def _alive(self) -> None:
        """Raise if nothing more may be asked of the cluster."""
        self.fence.check()
        if self.lease is not None:
            self.lease.check()

    # --- what was done before ---------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Take over what the journal says of an earlier part of this run."""
        where = self._where
        for step in self._steps:
            told = self.journal.progress.of(*step.id)
            if told.done:
                self._done.add(step.id)
            if step.kind != "bind" and (told.done or told.gone or told.uid is not None):
                where.evicted(step)
            if told.uid is not None and told.replacement is not None:
                where.of[step.pod] = Standing(told.replacement, told.uid, None)
                where.taken[told.uid] = step.pod
            if told.done:
                where.arrived(step)

    # --- judging ----------------------------------------------------------------------------------------------------

    async def _check(self, steps: Sequence[Step]) -> None:
        """Compare the cluster with what the rest of the document takes for granted; end the run where it does not hold. What a budget does
        not allow at the moment is asked again until time is up; nodes are opened meanwhile if it waits for pods without one."""
        deadline, held = first_try(steps, self._work) + self.options.timeout, time.monotonic() + self.options.hold
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
            if time.monotonic() >= held and awaited(steps, self._work):
                held = await self._open_for_budgets(steps)
            await self._work.rest(self.options.pause)

    def _so_far(self) -> Done:
        """Return what the run has done, as drift asks for it."""
        moved = {key: standing for key, standing in self._where.of.items() if standing.uid in self._where.taken}
        bound = {step.pod for step in self._steps if step.kind == "bind" and step.id in self._done}
        pods = {key: Now(each.key, each.uid, each.node) for key, each in self._where.of.items() if key in moved or key in bound}
        return Done(set(self._done), set(self._where.gone), pods, self._closed())

    def _closed(self) -> set[str]:
        nodes = self.cluster.objects("Node").values()
        return {node["metadata"]["name"] for node in nodes if (by := annotation(node)) is not None and by.run == self.journal.run}

    async def _fits(self, step: Step, key: str) -> str:
        """Return why a pending pod does not fit the node of its step as the cluster is now, empty if it does. ``key``: its name now."""
        await self.cluster.refresh()
        now = opened(self.cluster.snapshot(), self.snapshot, self._closed())
        waiting = {pod_key(pod) for pod in now.pods if not pod.spec.nodeName}
        mates = [each for each in self._steps if step.gang is not None and each.gang == step.gang and each.kind == "bind"]
        wanted = {key: step.target or ""} | {mate.pod: mate.target or "" for mate in mates if mate.pod in waiting}
        found = await asyncio.to_thread(self.judge, now, self._only(wanted))
        return found[0].message if found else ""

    def _only(self, wanted: Mapping[str, str]) -> RebalancePlan | Placement:
        """Return the document with nothing to do but to bind these pods, all of them at once."""
        if isinstance(self.document, Placement):
            named = {each.pod: each.devices for each in self.document.assignments}
            bound = [Assignment(key, node, 1, devices=named.get(key, [])) for key, node in wanted.items()]
            return msgspec.structs.replace(self.document, assignments=bound, unplaced=[])
        return msgspec.structs.replace(self.document, moves=[Move(1, 1, key, None, node, "") for key, node in wanted.items()], evictions=[])

    # --- the end ----------------------------------------------------------------------------------------------------

    async def _finish(self) -> Outcome:
        done = [step for step in self._steps if step.id in self._done]
        left = [step for step in self._steps if step.id not in self._done]
        state: Literal["done", "paused", "stopped", "interrupted"] = self._halt.state or ("paused" if left else "done")
        outcome = Outcome(state, done, left, list(self._halt.reasons))
        if state == "done":
            with contextlib.suppress(Unreachable):
                await self.cluster.refresh()
            if self.judge_end is not None:
                stands = {key: each.key for key, each in self._where.of.items()}
                end = await asyncio.to_thread(self.judge_end, opened(self.cluster.snapshot(), self.snapshot, self._closed()), stands)
                outcome.missed, outcome.foreign = list(end.missed), list(end.foreign)
        drained = self.document.drain if state == "done" and isinstance(self.document, RebalancePlan) else ()
        held = self.document.drain if self.options.hold_drained and state == "stopped" and isinstance(self.document, RebalancePlan) else ()
        outcome.not_opened = await self.fence.open(drained=drained, held=held)
        outcome.standing = await closing_sentences(self._courses.values(), self.cluster, self._where, self.fence.any_open)
        with contextlib.suppress(JournalLost):
            others = [f"{len(outcome.foreign)} differences that others made"] if len(outcome.foreign) > LISTED else outcome.foreign
            said = "; ".join([outcome.message, *outcome.missed, *others])
            await self.journal.fact("end" if state in ("done", "paused") else "stopped", message=said)
        return outcome


__all__ = ["Execution", "Judge", "Listener", "Options", "Outcome"]
