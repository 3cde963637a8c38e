"""The invocation of an entry point: how its caller follows and ends it, and how long its phases take."""

from __future__ import annotations

import threading
import time
from typing import TypedDict

from kubestow.models.documents.placement import Seconds
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import OnProgress, Options
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext


class Caller(TypedDict, total=False):
    """Keyword arguments of every entry point.

    Attributes:
        on_progress: Called with each report of progress.
        stop: May be set from another thread or a signal handler. Then the best result so far is returned.
        began: Time at which the caller began, on the monotonic clock. The time limit counts from there; by
            default from the call.
    """

    on_progress: OnProgress | None
    stop: threading.Event | None
    began: float | None


class Invocation:
    """A running call of an entry point.

    Attributes:
        started: Time of the call, on the monotonic clock.
        began: Time from which the time limit counts.
        stop: Event that ends the run.
        report: Reporter of progress.
        caller: The arguments of an entry point that this one calls.
        laps: Seconds of each finished phase.
    """

    def __init__(self, caller: Caller) -> None:
        self.started = self._last = time.monotonic()
        began = caller.get("began")
        self.began = self.started if began is None else began
        self.stop = caller.get("stop") or threading.Event()
        self.report = ProgressReporter(caller.get("on_progress"), self.started)
        self.caller = Caller(on_progress=caller.get("on_progress"), stop=self.stop, began=self.began)
        self.laps: dict[str, float] = {}

    def context(self, options: Options, reserve: float = 0.0) -> RunContext:
        """Return the context of the run, whose time limit ends ``reserve`` seconds early."""
        return RunContext(options, Deadline(options, self.began - reserve), self.stop, self.report)

    def lap(self, phase: str) -> float:
        """End a phase of :class:`Seconds`. Return its seconds."""
        now = time.monotonic()
        self.laps[phase], self._last = now - self._last, now
        return self.laps[phase]

    def seconds(self, options: Options) -> Seconds | None:
        """End the last phase, the check. Return the seconds of all phases; None in a deterministic run."""
        self.lap("verify")
        return None if options.deterministic else Seconds(**{phase: round(seconds, 3) for phase, seconds in self.laps.items()})
