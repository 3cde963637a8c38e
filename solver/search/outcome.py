"""A placement before and after its preferences are improved, with the value and bound of its soft tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.documents.placement import TierResult
from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import AssignedZones
from kubestow.solver.rules.base import Rule
from kubestow.solver.search.local_search import LocalSearch

#: Variables. CP-SAT never gets a larger model of a soft tier: presolve alone would use up the time.
MAX_SOFT_MODEL_VARIABLES = 250_000
#: Pods. In larger instances the engine `greedy` moves no pods for preferences or emptier domains: that would take a quarter of the time to
#: close a few hundredths of the gap.
LARGE_INSTANCE_PODS = 20_000


@dataclass
class StartPlacement:
    """A placement to improve.

    Attributes:
        counts: int64[G, N].
        sequence: Bind order.
        encoding: Exact model, if one exists.
        state: Rules and soft counters in the state of the placement, if available.
    """

    counts: Ints
    sequence: Sequence_
    encoding: PlacementModel | None = None
    state: tuple[Sequence[Rule], SoftState | None] | None = None


@dataclass
class SoftOutcome:
    """The best placement of a search.

    Attributes:
        counts: int64[G, N].
        sequence: Bind order.
        zones: NUMA zones of containers.
        value: Weighted points of the placement.
        bound: Upper bound on the points of placements with the same placed tiers.
        notes: Notes for the result.
        state: Rules and soft counters in its state, if available. The local search consumes them.
    """

    counts: Ints
    sequence: Sequence_
    zones: AssignedZones
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
        """Replace the placement in place: with 5,000 nodes and 5,000 classes, int64[G, N] takes 200 MB."""
        if counts is not self.counts:
            np.copyto(self.counts, counts)
        self.sequence, self.state = sequence, None

    def local_search(self, objective: Objective, eligibility: Ints, *, seed: int) -> LocalSearch:
        """Return a local search in the state of the placement. It is created once, because its counters take most of the memory."""
        search = self._local_search
        if search is None:
            active, soft = self.state or (rules.replay(objective.cluster, self.sequence), None)
            search = self._local_search = LocalSearch(objective, active, eligibility, self.counts, seed=seed, soft=soft)
            self.state = None
        elif (search.counts != self.counts).any():
            search.go_to(self.counts)
        else:
            search.refresh()
        return search
