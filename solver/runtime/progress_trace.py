"""Progress of a run: passed on to the caller, and kept, thinned out, as the course of each tier's incumbent and bound for the document."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kubestow.models.documents.placement import SearchPoint, TierResult
from kubestow.solver.runtime.options import OnProgress, Progress

#: Points of one tier; every second one in between goes when there are more.
_MOST: Final = 200
_Tier = tuple[str, int | None]


@dataclass
class Trace:
    """Points by tier; those that change neither incumbent nor bound are left out."""

    _points: dict[_Tier, list[SearchPoint]] = field(default_factory=dict)

    def note(self, tier: str, priority: int | None, seconds: float, value: int, bound: int | None) -> None:
        """An incumbent and a bound (None: not known yet), so many seconds after the start."""
        points = self._points.setdefault((tier, priority), [])
        if points and (points[-1].value, points[-1].bound) == (value, bound):
            return
        points.append(SearchPoint(tier, round(seconds, 3), value, bound, priority))
        if len(points) > _MOST:
            del points[1:-1:2]

    def finish(self, objective: Iterable[TierResult], seconds: float) -> list[SearchPoint]:
        """Return all points, tier by tier in the order of the objective, each ending with its result."""
        found: list[SearchPoint] = []
        for tier in objective:
            self.note(tier.tier, tier.priority, seconds, tier.value, tier.bound)
            found += self._points[tier.tier, tier.priority]
        return found


class ProgressReporter:
    """Passes progress on to ``on_progress`` (None: nobody listens), with the seconds since ``started`` on the monotonic clock."""

    def __init__(self, on_progress: OnProgress | None = None, started: float | None = None) -> None:
        self._on_progress = on_progress
        self._started = time.monotonic() if started is None else started
        self.trace = Trace()

    def __call__(
        self,
        phase: str,
        tier: str | None = None,
        value: int | None = None,
        bound: int | None = None,
        *,
        priority: int | None = None,
        detail: str | None = None,
    ) -> None:
        """Report a phase; with ``tier``, its incumbent and bound, which the trace keeps; or a ``detail``, a word on the size."""
        seconds = time.monotonic() - self._started
        if tier is not None and value is not None:
            self.trace.note(tier, priority, seconds, value, bound)
        if self._on_progress is not None:
            self._on_progress(Progress(phase, tier, priority, value, bound, seconds, detail))
