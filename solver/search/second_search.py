"""The search for preferences goes on in a second process as well, on the core that one thread leaves idle: there groups of classes are
bounded, and placements improved when nothing is left to be bounded, with other random numbers.

Not in deterministic runs: when a message comes is a matter of the machine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.executors.cores import cores
from kubestow.solver.executors.second_process import Channel, SecondProcess
from kubestow.solver.runtime.options import Options
from kubestow.solver.search.exchange import GroupFound, PlacementFound
from kubestow.solver.search.outcome import MANY_PODS, SoftOutcome, Start


@dataclass(frozen=True)
class SecondSearchParameters:
    """When it is worth a process.

    Attributes:
        after: Seconds of a search after which it begins: most searches are over before.
        least: Seconds that must be left.
        pods: Pods at most: what is sent and held twice.
        bounding: Share of its time for groups while most of the gap may be unknown, ...
        bounding_later: ... and later.
    """

    after: float = 2.0
    least: float = 5.0
    pods: int = MANY_PODS
    bounding: float = 1.0
    bounding_later: float = 0.5


SECOND = SecondSearchParameters()


class SecondSearch:
    """The second process of a search that begins now, where there are cores for it: a :class:`kubestow.solver.search.exchange.Peer`."""

    def __init__(self, work: Callable[..., None], cluster: Cluster, limits: Ints, cpsat: CpSat) -> None:
        self._work, self._cluster, self._limits, self._cpsat = work, cluster, limits, cpsat
        options = cpsat.options
        self._workers = options.workers or cores()
        small = int(cluster.count.sum()) <= SECOND.pods
        self._wanted = small and self._workers > 1 and not options.deterministic and options.engine in ("auto", "lns")
        self._began = time.monotonic()
        self._process: SecondProcess | None = None

    @property
    def bounds(self) -> bool:
        """Whether groups are left to it."""
        return self._process is not None and not self._process.over

    def begin(self, best: SoftOutcome) -> None:
        """Begin it, from a placement, if it is time."""
        left = self._cpsat.deadline.left()
        if not self._wanted or time.monotonic() - self._began < SECOND.after or left < SECOND.least:
            return
        self._wanted = False
        asked = self._cpsat.options
        options = Options(engine="lns", time_limit=left, workers=self._workers - 1, seed=(asked.seed + 1) % 2**31, policy=asked.policy)
        start = Start(best.counts, best.sequence)
        with contextlib.suppress(Exception):  # whatever keeps it: this process does all by itself, as where there is one core
            self._process = SecondProcess(self._work, self._cluster, self._limits, start, options)
            self._cpsat.lent = 1

    def tell(self, message: PlacementFound | GroupFound) -> None:
        """Send a message."""
        if self._process is not None and not self._process.over:
            self._process.tell(message)

    def found(self) -> list[PlacementFound | GroupFound]:
        """Return the messages that have come since this was asked before."""
        if self._process is None:
            return []
        found = self._process.found()
        if self._process.over:
            self._cpsat.lent = 0  # its core is free again
        return found

    def close(self) -> bool:
        """End it; whether it had failed before."""
        if self._process is None:
            return False
        failed, self._cpsat.lent = self._process.failed, 0
        self._process.close()
        return failed


class FirstSearch:
    """The search in the process that started this one: a :class:`kubestow.solver.search.exchange.Peer`."""

    bounds = False

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def begin(self, best: SoftOutcome) -> None:
        """It is at work."""

    def tell(self, message: PlacementFound | GroupFound) -> None:
        """Send a message."""
        self._channel.tell(message)

    def found(self) -> list[PlacementFound | GroupFound]:
        """Return the messages that have come since this was asked before."""
        return self._channel.found()

    def close(self) -> bool:
        """Leave it."""
        return False
