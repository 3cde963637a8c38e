"""The seconds that a document records for each phase of its run."""

from __future__ import annotations

import time

from kubestow.models.documents.placement import Seconds
from kubestow.solver.runtime.options import Options


def phase_seconds(options: Options, started: float, solved: float, compiled: float | None = None) -> Seconds | None:
    """Return the seconds of a run whose check ends now, from times of the monotonic clock; None if the run is deterministic.

    ``compiled``: end of the phase before the search; None without such a phase.
    """
    if options.deterministic:
        return None
    searching = started if compiled is None else compiled
    phases = searching - started, solved - searching, time.monotonic() - solved
    return Seconds(0.0, *(round(seconds, 3) for seconds in phases))
