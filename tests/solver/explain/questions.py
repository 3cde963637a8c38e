"""Time for questions about placements."""

from __future__ import annotations

import threading
from typing import Any

from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext


def within(seconds: float, stop: threading.Event | None = None, **options: Any) -> RunContext:
    """Return the context of a run with the given time limit in seconds, from now."""
    return RunContext.start(Options(time_limit=seconds, **options), stop)
