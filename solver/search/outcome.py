"""A placement with the value and the bound of its soft tier."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.cluster.cluster import Ints
from solver.bind_order.order import Sequence_
from solver.objective.container_affinity import Zones

#: Above this many variables CP-SAT never gets the whole model for a soft tier: presolve alone would take the time.
LARGE = 250_000


@dataclass
class SoftOutcome:
    """``value``: weighted points of the incumbent, ``bound``: points that no placement with the same placed tiers exceeds."""

    counts: Ints
    sequence: Sequence_
    zones: Zones
    value: int
    bound: int
    notes: list[str] = field(default_factory=list)
