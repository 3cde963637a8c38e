"""What everything that works for one run shares: the options, the deadline, the request to stop, and who hears of progress."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace

from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.progress_trace import ProgressReporter


@dataclass(frozen=True)
class RunContext:
    """The context of a run, or of a part of it that has a deadline of its own.

    Attributes:
        options: Choices of the caller.
        deadline: Time that is left; every part of the run draws on it.
        stop: Set from another thread or a signal handler to end the run with the best answer so far.
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
        """Return the context of a part that begins now and may take so many seconds; who hears of the whole does not hear of it."""
        return RunContext.start(replace(self.options, time_limit=seconds), self.stop, report)

    def until(self, deadline: Deadline) -> RunContext:
        """Return the same context with another deadline."""
        return replace(self, deadline=deadline)

    @property
    def phase(self) -> str:
        """The phase of a search that several engines take turns in."""
        return "search" if self.options.engine == "auto" else self.options.engine

    def over(self) -> bool:
        """Return whether time is up or a stop was asked for."""
        return self.stop.is_set() or self.deadline.left() <= 0
