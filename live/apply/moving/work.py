"""State shared by all steps of a run: the cluster, the journal, and a request to end the run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from kubestow.live.api.answers import Api, Object
from kubestow.live.apply.pod_locations import PodLocations
from kubestow.live.apply.steps import RunStep
from kubestow.models.documents.journal import What
from kubestow.models.snapshot.snapshot import Snapshot

T = TypeVar("T")


class ClusterReader(Protocol):
    """Read access to the cluster, implemented by :class:`kubestow.live.api.live_cluster.LiveCluster`."""

    def objects(self, kind: str) -> Mapping[str, Object]: ...
    def pod(self, uid: str) -> Object | None: ...
    def node(self, name: str) -> Object | None: ...
    def named(self, kind: str, name: str, namespace: str | None = None) -> Object | None: ...
    def pods_of(self, owner_uid: str) -> list[Object]: ...
    def pods_on(self, node: str) -> list[Object]: ...
    async def refresh(self) -> None: ...
    async def until(self, found: Callable[[], T | None], seconds: float) -> T | None: ...
    def snapshot(self) -> Snapshot: ...


class FactWriter(Protocol):
    """Write access to the journal, implemented by :class:`kubestow.live.apply.journal.Journal`."""

    async def fact(self, what: What, **fields: Any) -> None: ...


class Gate(Protocol):
    """Access of single pods to the scheduler, implemented by :class:`kubestow.live.apply.fence.Fence`."""

    def check(self) -> None: ...
    def let_in(self, pod: Object, node: str) -> AbstractAsyncContextManager[None]: ...


class RunListener:
    """Receiver of progress events; this one ignores them."""

    def wave(self, number: int, steps: int) -> None:
        """Handle the start of a wave with this number of steps."""

    def step(self, step: RunStep, what: Literal["evicting", "gone", "bound", "done"], name: str) -> None:
        """Handle an event of a step's pod. ``name`` is the pod's current name."""

    def note(self, message: str) -> None:
        """Handle a message for the user."""

    async def pause(self, wave: int) -> bool:
        """Return True to continue with a wave (with ``pause_between``). Nodes may be open meanwhile."""
        return True


class Ended(Exception):
    """The run cannot continue; one sentence with the reason."""


class Dropped(Exception):
    """A step was not begun because the run ends."""


@dataclass
class HaltRequest:
    """A request to end the run. No further step begins; steps under way are finished."""

    state: Literal["stopped", "interrupted"] | None = None
    reasons: list[str] = field(default_factory=list)
    event: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self, state: Literal["stopped", "interrupted"], reason: str) -> None:
        """End the run. The first state and all reasons are kept."""
        self.state = self.state or state
        if reason not in self.reasons:
            self.reasons.append(reason)
        self.event.set()


@dataclass(frozen=True)
class RunOptions:
    """Options of a run.

    Attributes:
        timeout: Seconds for a step's eviction to be allowed, and again for its pod to be Ready.
        wave: The last wave to execute; None for all.
        pause_between: True to call the listener before each wave after the first.
        at_once: Maximum number of pods on the move.
        requests: Maximum number of concurrent Bindings.
        pause: Seconds before a refused eviction is retried.
        patience: Seconds to wait for a let-in pod after the scheduler rejected it: its longest backoff plus a margin.
        hold_drained: True to keep drained nodes closed for a following run if this one stops early.
        hold: Seconds of refusals by a budget before nodes are opened for the pods that it waits for.
    """

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
class StepContext:
    """The state shared by all steps of a run.

    Attributes:
        api_of: Returns the API that records requests for a step.
        cluster: The cluster.
        facts: The journal.
        gate: Lets single pods in to their node.
        where: Current pods of the document.
        options: Options of the run.
        listener: Receiver of events.
        fits: Returns the reason why a pod (by its current name) does not fit its node; empty if it fits.
        unchanged: Returns True if a node has no foreign changes since the wave was checked.
        alive: Raises if no further request may be sent.
        foreign: Returns the pending foreign pods by uid.
        halt: Request to end the run.
        slots: Limits the pods on the move.
        bindings: Limits concurrent Bindings.
        whole: Gangs that are begun and will be finished.
        queues: Locks of controllers that create pods one by one.
        entering: Held by the one pod that is let in.
        shut_out: A pod that was let in without success; after it, no other pod is let in.
        asking: Uids of pods whose eviction request is under way.
        forgotten: Times when budgets forget interrupted evictions.
        tried: Times of the first eviction attempt by step.
        evictions_held: Set while no eviction may begin, until nodes were opened for pods that budgets wait for.
    """

    api_of: Callable[[int, str], Api]
    cluster: ClusterReader
    facts: FactWriter
    gate: Gate
    where: PodLocations
    options: RunOptions
    listener: RunListener
    fits: Callable[[RunStep, str], Awaitable[str]]
    unchanged: Callable[[str], bool]
    alive: Callable[[], None]
    foreign: Callable[[], Mapping[str, Object]]
    halt: HaltRequest = field(default_factory=HaltRequest)
    slots: asyncio.Semaphore = field(init=False)
    bindings: asyncio.Semaphore = field(init=False)
    whole: set[str] = field(default_factory=set)
    queues: dict[str, asyncio.Lock] = field(default_factory=dict)
    entering: asyncio.Lock = field(default_factory=asyncio.Lock)
    shut_out: str = ""
    asking: set[str] = field(default_factory=set)
    forgotten: dict[Hashable, float] = field(default_factory=dict)
    tried: dict[tuple[int, str], float] = field(default_factory=dict)
    evictions_held: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.slots = asyncio.Semaphore(self.options.at_once)
        self.bindings = asyncio.Semaphore(self.options.requests)

    async def until(self, found: Callable[[], T | None], deadline: float) -> T | None:
        """Wait until ``found`` returns a value; return None after the deadline."""
        return await self.cluster.until(found, max(0.0, deadline - time.monotonic()))

    async def until_halted(self, found: Callable[[], T | None], deadline: float) -> T | None:
        """Wait until ``found`` returns a value, the deadline passes or the run ends. Return the value or None."""
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
        # the list of both futures has a joined element type; the first one's result is T or None
        return first.result() if first.done() and not first.cancelled() else found()  # type: ignore[return-value]

    async def until_dropped(self, step: RunStep, found: Callable[[], T | None], deadline: float) -> T | None:
        """Wait until ``found`` returns a value or the deadline passes. Return the value or None.

        For an already pending pod, also stop waiting when the run ends.
        """
        if step.kind == "bind" and step.gang not in self.whole:
            return await self.until_halted(found, deadline)
        return await self.until(found, deadline)

    def dropped(self, step: RunStep) -> bool:
        """Return True if a step without requests must not begin any more."""
        return self.halt.state is not None and step.gang not in self.whole

    async def pause(self, seconds: float) -> None:
        """Wait for some time or until the run ends."""
        try:
            await asyncio.wait_for(self.halt.event.wait(), seconds)
        except TimeoutError:
            return

    def queue(self, uid: str) -> asyncio.Lock:
        """Return the lock of a controller that creates its pods one by one."""
        return self.queues.setdefault(uid, asyncio.Lock())
