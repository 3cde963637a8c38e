"""How incumbent and bound of each tier came about, for the document: what a search reports, thinned out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from models.documents.placement import SearchPoint, TierResult

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
        """All points, tier by tier in the order of the objective, each ending with its result."""
        found: list[SearchPoint] = []
        for tier in objective:
            self.note(tier.tier, tier.priority, seconds, tier.value, tier.bound)
            found += self._points[tier.tier, tier.priority]
        return found
