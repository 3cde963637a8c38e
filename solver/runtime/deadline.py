"""Time limit of a run."""

from __future__ import annotations

import time

from kubestow.solver.ortools import cp_model
from kubestow.solver.runtime.options import Options

UNLIMITED_SECONDS = 1e9  #: Time limit of a run without a limit.
#: Time reserved for steps after the search (evening out, reasons, report, check, writing), relative to reading and compiling. With
#: 150,000 pods these steps take 1.2 times as long.
RESERVE_RATIO = 2.0
#: Reading counts up to this multiple of the compile time (JSON takes 2.2 times), because YAML takes far longer.
MAX_READING_RATIO = 3.0
#: Largest fraction of the time limit that is reserved.
MAX_RESERVE_FRACTION = 0.5


class Deadline:
    """Remaining time of a run, in wall-clock seconds or CP-SAT's deterministic seconds."""

    def __init__(self, options: Options, started: float) -> None:
        self._deterministic = options.deterministic
        self._limit = options.time_limit
        self._started = started
        self._spent = 0.0

    def elapsed(self) -> float:
        """Return the elapsed seconds."""
        return self._spent if self._deterministic else time.monotonic() - self._started

    def remaining(self) -> float:
        """Return the remaining seconds; a huge number without a limit."""
        return (UNLIMITED_SECONDS if self._limit is None else self._limit) - self.elapsed()

    def by_clock(self, seconds: float, otherwise: float) -> float:
        """Return seconds of this clock; in a deterministic run, which does not follow it there, the other number."""
        return otherwise if self._deterministic else seconds

    def grant(self, solver: cp_model.CpSolver, seconds: float) -> None:
        """Cap a solve at the smaller of ``seconds`` and the remaining time."""
        seconds = min(seconds, self.remaining())
        if seconds != float("inf"):
            if self._deterministic:
                solver.parameters.max_deterministic_time = max(seconds, 0.01)
            else:
                solver.parameters.max_time_in_seconds = max(seconds, 0.01)

    def charge(self, seconds: float) -> None:
        """Charge deterministic seconds for work outside CP-SAT. Runs by the clock ignore them."""
        self._spent += seconds

    def spend(self, solver: cp_model.CpSolver) -> None:
        """Charge the deterministic seconds of a solve."""
        self._spent += solver.deterministic_time


def afterwards(reading: float, compiling: float, time_limit: float | None) -> float:
    """Return the seconds to reserve for the steps after the search, estimated from the time of reading and compiling."""
    return min(RESERVE_RATIO * (min(reading, MAX_READING_RATIO * compiling) + compiling), MAX_RESERVE_FRACTION * (time_limit or 0.0))
