"""The time that a run may take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kubestow.solver.runtime.options import Options

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


#: Seconds of a run without a limit.
FOREVER = 1e9
#: What comes after the search (evening out, reasons, report, check, writing) takes up to so many times as long as reading and compiling did
#: on the same machine: of 150,000 pods 1.2 times as long, ...
AFTERWARDS = 2.0
#: ... reading counted as far as it takes up to so many times as long as compiling (of JSON 2.2 times): YAML takes far longer, ...
READING = 3.0
#: ... and it is given such a share of the time at most.
AFTERWARDS_SHARE = 0.5


class Deadline:
    """Time that is left: wall-clock seconds, or CP-SAT's deterministic seconds."""

    def __init__(self, options: Options, started: float) -> None:
        self._deterministic = options.deterministic
        self._limit = options.time_limit
        self._started = started
        self._spent = 0.0

    def elapsed(self) -> float:
        """Return the seconds that are over."""
        return self._spent if self._deterministic else time.monotonic() - self._started

    def left(self) -> float:
        """Return the seconds left: a great many without a limit."""
        return (FOREVER if self._limit is None else self._limit) - self.elapsed()

    def grant(self, solver: cp_model.CpSolver, seconds: float) -> None:
        """Limit a solve to a share of what is left."""
        seconds = min(seconds, self.left())
        if seconds != float("inf"):
            if self._deterministic:
                solver.parameters.max_deterministic_time = max(seconds, 0.01)
            else:
                solver.parameters.max_time_in_seconds = max(seconds, 0.01)

    def charge(self, seconds: float) -> None:
        """Count deterministic seconds of work that CP-SAT does not see; runs by the clock do not look at them."""
        self._spent += seconds

    def spend(self, solver: cp_model.CpSolver) -> None:
        """Count the deterministic seconds of a solve."""
        self._spent += solver.deterministic_time


def afterwards(reading: float, compiling: float, time_limit: float | None) -> float:
    """Return the seconds of a run that are kept for what comes after its search, from what it has taken so far on this machine."""
    return min(AFTERWARDS * (min(reading, READING * compiling) + compiling), AFTERWARDS_SHARE * (time_limit or 0.0))
