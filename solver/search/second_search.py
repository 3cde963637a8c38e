"""A second process that continues the search for preferences on an idle core.

It bounds groups of classes. When no group is left to bound, it improves placements with other random numbers.
Deterministic runs do not use it, because the arrival of messages depends on the machine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.bind_order.order import Sequence_
from kubestow.solver.bounds.component import ClassComponent
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.executors.cores import cores
from kubestow.solver.executors.second_process import Channel, SecondProcess
from kubestow.solver.runtime.options import Options
from kubestow.solver.search.outcome import LARGE_INSTANCE_PODS, SoftOutcome, StartPlacement


@dataclass(frozen=True)
class SecondSearchParameters:
    """Conditions for starting the process.

    Attributes:
        start_seconds: Seconds of search before it starts. Most searches end earlier.
        min_remaining_seconds: Remaining time that it needs.
        max_pods: Larger instances are too large to send and hold twice.
        bounding_fraction: Fraction of its time for groups while most of the gap may be unknown.
        later_bounding_fraction: The same afterwards.
    """

    start_seconds: float = 2.0
    min_remaining_seconds: float = 5.0
    max_pods: int = LARGE_INSTANCE_PODS
    bounding_fraction: float = 1.0
    later_bounding_fraction: float = 0.5


SECOND_LIMITS = SecondSearchParameters()


class SecondSearch:
    """The second process of a search, started when cores allow: a :class:`kubestow.solver.search.second_search.Peer`."""

    def __init__(self, work: Callable[..., None], cluster: Cluster, eligibility: Ints, cpsat: CpSat) -> None:
        self._work, self._cluster, self._limits, self._cpsat = work, cluster, eligibility, cpsat
        options = cpsat.options
        self._workers = options.workers or cores()
        small = int(cluster.count.sum()) <= SECOND_LIMITS.max_pods
        self._wanted = small and self._workers > 1 and not options.deterministic and options.strategy.neighbourhoods
        self._began = time.monotonic()
        self._process: SecondProcess | None = None

    @property
    def bounds(self) -> bool:
        """True while the process is running, so that this search leaves groups to it."""
        return self._process is not None and not self._process.over

    def begin(self, best: SoftOutcome) -> None:
        """Start the process from a placement, if it is time."""
        remaining_seconds = self._cpsat.deadline.remaining()
        if (
            not self._wanted
            or time.monotonic() - self._began < SECOND_LIMITS.start_seconds
            or remaining_seconds < SECOND_LIMITS.min_remaining_seconds
        ):
            return
        self._wanted = False
        own = self._cpsat.options
        options = Options(
            engine="lns", time_limit=remaining_seconds, workers=self._workers - 1, seed=(own.seed + 1) % 2**31, policy=own.policy
        )
        start = StartPlacement(best.counts, best.sequence)
        with contextlib.suppress(Exception):  # if it cannot start, this process searches alone, as on one core
            self._process = SecondProcess(self._work, self._cluster, self._limits, start, options)
            self._cpsat.lent = 1

    def send(self, message: PlacementFound | GroupFound) -> None:
        """Send a message."""
        if self._process is not None and not self._process.over:
            self._process.send(message)

    def received(self) -> list[PlacementFound | GroupFound]:
        """Return the messages that arrived since the last call."""
        if self._process is None:
            return []
        found = self._process.received()
        if self._process.over:
            self._cpsat.lent = 0  # its core is free again
        return found

    def close(self) -> bool:
        """End the process. Return whether it had failed."""
        if self._process is None:
            return False
        failed, self._cpsat.lent = self._process.failed, 0
        self._process.close()
        return failed


class FirstSearch:
    """The search in the process that started this one: a :class:`kubestow.solver.search.second_search.Peer`."""

    bounds = False

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def begin(self, best: SoftOutcome) -> None:
        """Do nothing: it is already running."""

    def send(self, message: PlacementFound | GroupFound) -> None:
        """Send a message."""
        self._channel.send(message)

    def received(self) -> list[PlacementFound | GroupFound]:
        """Return the messages that arrived since the last call."""
        return self._channel.received()

    def close(self) -> bool:
        """Do nothing. Return False."""
        return False


@dataclass(frozen=True)
class PlacementFound:
    """A placement, as its bind order, with its points."""

    sequence: Sequence_
    value: int


@dataclass(frozen=True)
class GroupFound:
    """Results for a group, by its index. The other fields are those of :class:`ClassComponent`."""

    index: int
    bound: int
    counts: Ints | None
    value: int | None
    unverified: bool
    proved: bool

    @classmethod
    def of(cls, index: int, component: ClassComponent) -> GroupFound:
        """Return the current results for a group."""
        return cls(index, component.bound, component.counts, component.value, component.unverified, component.proved)

    def note(self, component: ClassComponent) -> bool:
        """Merge these results into ``component`` where they are better. Return whether the group's own placement changed."""
        component.bound = min(component.bound, self.bound)
        component.proved |= self.proved
        if self.value is None or not (
            component.value is None or self.value > component.value or (component.unverified and not self.unverified)
        ):
            return False
        component.counts, component.value, component.unverified = self.counts, self.value, self.unverified
        return True


class Peer(Protocol):
    """The search in the other process."""

    @property
    def bounds(self) -> bool:
        """True if this search leaves groups to the peer."""

    def begin(self, best: SoftOutcome) -> None:
        """Start the peer from a placement, if it is time."""

    def send(self, message: PlacementFound | GroupFound) -> None:
        """Send a message."""

    def received(self) -> list[PlacementFound | GroupFound]:
        """Return the messages that arrived since the last call."""

    def close(self) -> bool:
        """End the peer. Return whether it had failed."""
