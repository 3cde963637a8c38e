"""Context of a run: the options, deadline, stop event and progress reporter that all its parts share."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kubestow.solver.runtime.deadline import UNLIMITED_SECONDS, Deadline
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.time_slice import TimeSlice

#: Minimum number of seconds for a part of the work, because a time limit must be positive.
MIN_PART_SECONDS = 0.05


@dataclass(frozen=True)
class RunContext:
    """The context of a run, or of a part with a deadline of its own.

    Attributes:
        options: Options of the caller.
        deadline: Remaining time, shared by all parts of the run.
        stop: Event that ends the run with the best result so far. Set from another thread or a signal handler.
        report: Called with a phase, and for a tier with its incumbent and bound.
    """

    options: Options
    deadline: Deadline
    stop: threading.Event = field(default_factory=threading.Event)
    report: ProgressReporter = field(default_factory=ProgressReporter)

    @classmethod
    def start(cls, options: Options, stop: threading.Event | None = None, report: ProgressReporter | None = None) -> RunContext:
        """Return the context of a run that begins now."""
        return cls(options, Deadline(options, time.monotonic()), stop or threading.Event(), report or ProgressReporter())

    def part(self, seconds: float | None, report: ProgressReporter | None = None) -> RunContext:
        """Return the context of a part that begins now with its own time limit. Its progress goes to ``report``, not to the
        whole run."""
        return RunContext.start(replace(self.options, time_limit=seconds), self.stop, report)

    def fraction(self, fraction: float, least: float = MIN_PART_SECONDS) -> RunContext:
        """Return the context of a part that gets a fraction of the remaining time, and at least ``least`` seconds."""
        return self.part(max(least, self.deadline.remaining() * fraction))

    @contextmanager
    def charged(self, fraction: float, least: float = MIN_PART_SECONDS) -> Iterator[RunContext]:
        """Yield the context of such a part, and charge its time at the end."""
        part = self.fraction(fraction, least)
        yield part
        self.deadline.charge(part.deadline.elapsed())

    def until(self, deadline: Deadline) -> RunContext:
        """Return the same context with another deadline."""
        return replace(self, deadline=deadline)

    def slice(
        self, fraction: float = 1.0, *, cap: float = UNLIMITED_SECONDS, charge: float = 0.0, patience: int | None = None
    ) -> TimeSlice:
        """Return a slice of the remaining time, capped at ``cap`` seconds before the fraction is taken.

        ``charge`` and ``patience``: see :class:`kubestow.solver.runtime.time_slice.TimeSlice`."""
        remaining = self.deadline.remaining()
        return TimeSlice(self.deadline, self.stop, remaining - min(remaining, cap) * fraction, charge, patience)

    @property
    def phase(self) -> str:
        """Phase to report for a search in which several engines take turns."""
        return "search" if self.options.strategy.chooses else self.options.engine

    def over(self) -> bool:
        """Return whether time is up or a stop was requested."""
        return self.stop.is_set() or self.deadline.remaining() <= 0
