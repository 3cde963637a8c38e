"""What all steps of a run share: the cluster, the journal, and whether the run is to end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from kubestow.live.api.answers import Api, Object
from kubestow.live.apply.steps import Step
from kubestow.live.apply.whereabouts import Whereabouts
from kubestow.models.documents.journal import What
from kubestow.models.snapshot.snapshot import Snapshot

T = TypeVar("T")


class Cluster(Protocol):
    """What is read of the cluster, which :class:`kubestow.live.api.live_cluster.LiveCluster` has."""

    def objects(self, kind: str) -> Mapping[str, Object]: ...
    def pod(self, uid: str) -> Object | None: ...
    def node(self, name: str) -> Object | None: ...
    def named(self, kind: str, name: str, namespace: str | None = None) -> Object | None: ...
    def pods_of(self, owner_uid: str) -> list[Object]: ...
    def pods_on(self, node: str) -> list[Object]: ...
    async def refresh(self) -> None: ...
    async def until(self, found: Callable[[], T | None], seconds: float) -> T | None: ...
    def snapshot(self) -> Snapshot: ...


class Facts(Protocol):
    """What is written, which :class:`kubestow.live.apply.journal.Journal` has."""

    async def fact(self, what: What, **fields: Any) -> None: ...


class Gate(Protocol):
    """What lets single pods through to the scheduler, which :class:`kubestow.live.apply.fence.Fence` is."""

    def check(self) -> None: ...
    def let_in(self, pod: Object, node: str) -> AbstractAsyncContextManager[None]: ...


class Listener:
    """Is told of the progress of a run; this one says nothing."""

    def wave(self, number: int, steps: int) -> None:
        """Take that a wave begins, with so many steps to do."""

    def step(self, step: Step, what: Literal["evicting", "gone", "bound", "done"], name: str) -> None:
        """Take what has happened to the pod of a step; ``name``: what the pod is called by now."""

    def note(self, message: str) -> None:
        """Take a sentence that a user should read."""

    async def pause(self, wave: int) -> bool:
        """Return whether to go on with a wave, with ``pause_between``; nodes may be open meanwhile."""
        return True


class Ended(Exception):
    """The run cannot go on; one sentence says why."""


class Dropped(Exception):
    """A step was not begun, as the run is to end."""


@dataclass
class Halt:
    """Whether the run is to end. Nothing is begun then; what is begun is brought to an end."""

    state: Literal["stopped", "interrupted"] | None = None
    reasons: list[str] = field(default_factory=list)
    event: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self, state: Literal["stopped", "interrupted"], reason: str) -> None:
        """End the run; the first state stays, every reason is kept."""
        self.state = self.state or state
        if reason not in self.reasons:
            self.reasons.append(reason)
        self.event.set()


@dataclass(frozen=True)
class Options:
    """``timeout``: seconds for a step: to be allowed by its budget, and then to be there again. ``wave``: the last one to be carried out.
    ``pause_between``: whether the listener is asked before each wave but the first. ``at_once``: pods that are on their way at a time;
    ``requests``: Bindings at a time. ``pause``: seconds until a refused eviction is tried again. ``patience``: seconds after which a pod is
    given up that is let in to its node and has no place there by the scheduler: the longest that this puts a pod off, and a little more.
    ``hold_drained``: nodes to be drained stay closed, with the mark of the run, where the run stops and another one is to go on.
    ``hold``: seconds that a budget refuses before nodes are opened for pods that it waits for."""

    timeout: float = 600.0
    wave: int | None = None
    pause_between: bool = False
    at_once: int = 16
    requests: int = 32
    pause: float = 1.0
    patience: float = 12.0
    hold_drained: bool = False
    hold: float = 5.0


@dataclass
class Work:
    """``api_of``: the API whose requests are noted as those of a step. ``fits``: why a pod (by its name now) does not fit the node of its
    step as the cluster is, empty if it does. ``unchanged``: whether a node is as it was when the wave was judged, but for what the run did.
    ``alive``: raises if the run must change nothing more. ``whole``: gangs that are begun, and therefore brought to their end.
    ``entering``: held by the one pod that is let in to its node; ``shut_out``: the pod that was let in and not bound, after which no other
    one is. ``asking``: uids of pods whose eviction is being asked for; ``forgotten``: when budgets forget evictions that were cut off.
    ``foreign``: the pods that wait and are not the run's, by uid. ``tried``: when steps first asked for an eviction; ``held``: no
    more are begun until nodes were opened for pods that budgets wait for."""

    api_of: Callable[[int, str], Api]
    cluster: Cluster
    facts: Facts
    gate: Gate
    where: Whereabouts
    options: Options
    listener: Listener
    fits: Callable[[Step, str], Awaitable[str]]
    unchanged: Callable[[str], bool]
    alive: Callable[[], None]
    foreign: Callable[[], Mapping[str, Object]]
    halt: Halt = field(default_factory=Halt)
    slots: asyncio.Semaphore = field(init=False)
    bindings: asyncio.Semaphore = field(init=False)
    whole: set[str] = field(default_factory=set)
    queues: dict[str, asyncio.Lock] = field(default_factory=dict)
    entering: asyncio.Lock = field(default_factory=asyncio.Lock)
    shut_out: str = ""
    asking: set[str] = field(default_factory=set)
    forgotten: dict[Hashable, float] = field(default_factory=dict)
    tried: dict[tuple[int, str], float] = field(default_factory=dict)
    held: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.slots = asyncio.Semaphore(self.options.at_once)
        self.bindings = asyncio.Semaphore(self.options.requests)

    async def until(self, found: Callable[[], T | None], deadline: float) -> T | None:
        """Wait for something to be there; None when time is up."""
        return await self.cluster.until(found, max(0.0, deadline - time.monotonic()))

    async def until_halted(self, found: Callable[[], T | None], deadline: float) -> T | None:
        """Wait for something to be there; None when time is up, or the run is to end."""
        if self.halt.state is not None:
            return found()
        waiting = [asyncio.ensure_future(self.until(found, deadline)), asyncio.ensure_future(self.halt.event.wait())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                if not each.done():
                    each.cancel()
        first = waiting[0]
        return first.result() if first.done() and not first.cancelled() else found()  # type: ignore[return-value]

    async def until_dropped(self, step: Step, found: Callable[[], T | None], deadline: float) -> T | None:
        """Wait for something to be there, of a pod that was pending anyway not longer than the run goes on."""
        if step.kind == "bind" and step.gang not in self.whole:
            return await self.until_halted(found, deadline)
        return await self.until(found, deadline)

    def dropped(self, step: Step) -> bool:
        """Return whether a step that nothing was asked for yet is not begun any more."""
        return self.halt.state is not None and step.gang not in self.whole

    async def rest(self, seconds: float) -> None:
        """Wait some time, or until the run is to end."""
        try:
            await asyncio.wait_for(self.halt.event.wait(), seconds)
        except TimeoutError:
            return

    def queue(self, uid: str) -> asyncio.Lock:
        """Return the lock of a controller that makes its pods one after the other."""
        return self.queues.setdefault(uid, asyncio.Lock())
