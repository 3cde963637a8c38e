"""Progress of a run: forwarded to the caller, and recorded as the course of each tier's incumbent and bound for the document."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kubestow.models.documents.placement import SearchPoint, TierResult
from kubestow.solver.runtime.options import OnProgress, Progress

_MAX_POINTS: Final = 200  #: Points of one tier. Beyond that, every second inner point is dropped.
_Tier = tuple[str, int | None]


@dataclass
class Trace:
    """Recorded points by tier, without points that change neither incumbent nor bound."""

    _points: dict[_Tier, list[SearchPoint]] = field(default_factory=dict)

    def note(self, tier: str, priority: int | None, seconds: float, value: int, bound: int | None) -> None:
        """Record an incumbent and a bound (None: unknown), ``seconds`` after the start."""
        points = self._points.setdefault((tier, priority), [])
        if points and (points[-1].value, points[-1].bound) == (value, bound):
            return
        points.append(SearchPoint(tier, round(seconds, 3), value, bound, priority))
        if len(points) > _MAX_POINTS:
            del points[1:-1:2]

    def finish(self, objective: Iterable[TierResult], seconds: float) -> list[SearchPoint]:
        """Return all points in the order of the objective's tiers, each tier ending with its result."""
        found: list[SearchPoint] = []
        for tier in objective:
            self.note(tier.tier, tier.priority, seconds, tier.value, tier.bound)
            found += self._points[tier.tier, tier.priority]
        return found


class ProgressReporter:
    """Forwards progress to ``on_progress``, if given, with the seconds since ``started`` on the monotonic clock."""

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
        """Report a phase, with ``tier`` also its incumbent and bound, which are recorded; ``detail``: a note on the size."""
        seconds = time.monotonic() - self._started
        if tier is not None and value is not None:
            self.trace.note(tier, priority, seconds, value, bound)
        if self._on_progress is not None:
            self._on_progress(Progress(phase, tier, priority, value, bound, seconds, detail))
