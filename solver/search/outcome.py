"""A placement before its preferences are improved, and after, with the value and the bound of its soft tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from models.cluster.cluster import Ints
from models.documents.placement import TierResult
from solver.bind_order.order import Sequence_
from solver.objective.container_affinity import Zones
from solver.objective.incremental_score import SoftState
from solver.rules.base import Rule

if TYPE_CHECKING:  # ortools takes longer to import than many a snapshot to solve
    from solver.cpsat.model import PlacementModel

#: Above this many variables CP-SAT never gets the whole model for a soft tier: presolve alone would take the time.
LARGE = 250_000


@dataclass
class Start:
    """A placement int64[G, N] with its bind order; the exact model, and rules and soft counters in its state, if there are some."""

    counts: Ints
    sequence: Sequence_
    encoding: PlacementModel | None = None
    state: tuple[Sequence[Rule], SoftState | None] | None = None


@dataclass
class SoftOutcome:
    """``value``: weighted points of the incumbent, ``bound``: points that no placement with the same placed tiers exceeds."""

    counts: Ints
    sequence: Sequence_
    zones: Zones
    value: int
    bound: int
    notes: list[str] = field(default_factory=list)

    @property
    def tier(self) -> TierResult:
        """The soft tier of the result document."""
        return TierResult("soft", self.value, max(self.value, self.bound))
