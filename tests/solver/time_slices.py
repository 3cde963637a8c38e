"""Time slices that count checks, for tests that must not depend on the speed of the machine."""

from __future__ import annotations

from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.runtime.time_slice import TimeSlice


def checks(limit: int, patience: int | None = None) -> TimeSlice:
    """Return a slice that is over at the check after ``limit`` ones, or after ``patience`` ones without improvement."""
    return RunContext.start(Options(time_limit=limit + 1, deterministic=True)).slice(charge=1.0, patience=patience)
