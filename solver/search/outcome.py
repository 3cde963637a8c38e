"""A placement before its preferences are improved, and after, with the value and the bound of its soft tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.documents.placement import TierResult
from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_
from kubestow.solver.objective.container_affinity import Zones
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.base import Rule
from kubestow.solver.search.local_search import LocalSearch

if TYPE_CHECKING:  # ortools takes longer to import than many a snapshot to solve
    from kubestow.solver.cpsat.model import PlacementModel

#: Above this many variables CP-SAT never gets the whole model for a soft tier: presolve alone would take the time.
LARGE = 250_000
#: Above this many pods the engine `greedy` moves none for the sake of preferences or of emptier domains: a few hundredths of the gap would
#: go, for a fourth of the whole time.
MANY_PODS = 20_000


@dataclass
class Start:
    """A placement int64[G, N] with its bind order; the exact model, and rules and soft counters in its state, if there are some."""

    counts: Ints
    sequence: Sequence_
    encoding: PlacementModel | None = None
    state: tuple[Sequence[Rule], SoftState | None] | None = None


@dataclass
class SoftOutcome:
    """``value``: weighted points of the incumbent, ``bound``: points that no placement with the same placed tiers exceeds.
    ``state``: rules and soft counters in the state of the placement, if at hand; consumed by the local search."""

    counts: Ints
    sequence: Sequence_
    zones: Zones
    value: int
    bound: int
    notes: list[str] = field(default_factory=list)
    state: tuple[Sequence[Rule], SoftState | None] | None = None
    _local_search: LocalSearch | None = None

    @property
    def tier(self) -> TierResult:
        """The soft tier of the result document."""
        return TierResult("soft", self.value, max(self.value, self.bound))

    def adopt(self, counts: Ints, sequence: Sequence_) -> None:
        """Take another placement over, in place: with 5,000 nodes and 5,000 classes, int64[G, N] are 200 MB."""
        if counts is not self.counts:
            np.copyto(self.counts, counts)
        self.sequence, self.state = sequence, None

    def local_search(self, objective: Objective, limits: Ints, *, seed: int) -> LocalSearch:
        """Return a local search in the state of the placement: made once, since its counters are most of what a search holds."""
        search = self._local_search
        if search is None:
            active, soft = self.state or (rules.replay(objective.cluster, self.sequence), None)
            search = self._local_search = LocalSearch(objective, active, limits, self.counts, seed=seed, soft=soft)
            self.state = None
        elif (search.counts != self.counts).any():
            search.go_to(self.counts)
        else:
            search.refresh()
        return search
