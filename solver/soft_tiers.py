"""What comes after the placed tiers: preferences, then the tie-break, each held while the next is improved."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from models.cluster.cluster import Ints
from models.documents import placement as doc
from solver import rules
from solver.bind_order.order import Sequence_, find_order
from solver.objective.container_affinity import Zones
from solver.objective.preferences import Objective
from solver.objective.tie_break import PodCosts, Strategy
from solver.runtime.run_context import RunContext
from solver.search.outcome import LARGE, SoftOutcome, Start

if TYPE_CHECKING:  # ortools takes longer to import than many a snapshot to solve
    from solver.search.preference_search import PreferenceSearch


@dataclass(frozen=True)
class TieBreakParameters:
    """How much the tie-break may cost. Unless a strategy was asked for, construction alone follows it, and CP-SAT sees small models only.

    Attributes:
        unasked_share: Share of the time that the search took, for CP-SAT where no strategy was asked for.
        unasked_seconds: Seconds for that at least.
        unasked_variables: Variables of a model for that at most.
        reserve: Share of the time that is kept for a strategy that was asked for.
        moves: Share of what is left that moving pods one by one may take.
        moves_seconds: Seconds for that at most.
    """

    unasked_share: float = 0.05
    unasked_seconds: float = 0.25
    unasked_variables: int = 100
    reserve: float = 0.25
    moves: float = 0.3
    moves_seconds: float = 20.0


PARAMETERS = TieBreakParameters()


@dataclass
class LaterTiers:
    """``tiers``: of the result document; ``engine``: the one that CP-SAT was asked by, if it was."""

    counts: Ints
    sequence: Sequence_
    zones: Zones
    tiers: list[doc.TierResult] = field(default_factory=list)
    preferences: doc.Preferences | None = None
    notes: list[str] = field(default_factory=list)
    zoneless: set[tuple[int, int]] = field(default_factory=set)
    engine: str | None = None


def improve(objective: Objective, limits: Ints, start: Start, strategy: Strategy | None, context: RunContext) -> LaterTiers:
    """Improve a placement without placing fewer pods of any priority; ``limits``: int64[G, N]."""
    objective.containers.stop = context.stop
    search = _LaterTiersSearch(objective, limits, start, context)
    search.preferences(reserve=PARAMETERS.reserve if strategy is not None and context.options.search_strategy else 0.0)
    polished = [] if strategy is None else [search.tie_break(strategy)]
    best = search.best
    tiers = [*([] if objective.empty else [best.tier]), *polished]
    later = LaterTiers(best.counts, best.sequence, best.zones, tiers, notes=best.notes, zoneless=best.zones.zoneless, engine=search.engine)
    if not objective.empty:
        from solver.objective import report

        later.preferences = report.report(objective, best.counts, best.sequence, best.zones)
    for n in best.zones.elsewhere:
        name = objective.cluster.nodes.names[n]
        later.notes.append(f"node {name}: the kubelet's own order takes other NUMA zones than those listed; they need pinning")
    return later


class _LaterTiersSearch:
    """``best``: the placement, improved in place. ``engine``: by which CP-SAT was asked, if it was."""

    def __init__(self, objective: Objective, limits: Ints, start: Start, context: RunContext) -> None:
        self.objective, self.limits, self.context, self.cluster = objective, limits, context, objective.cluster
        self.best = SoftOutcome(start.counts, start.sequence, Zones(), 0, 0)
        self.engine: str | None = None
        self._start = start
        self._search: PreferenceSearch | None = None

    def _exact(self) -> PreferenceSearch:
        """The search by CP-SAT, made once."""
        from solver.search.preference_search import PreferenceSearch

        if self._search is None:
            self._search = PreferenceSearch(self.objective, self.limits, self._start, self.context)
        return self._search

    def preferences(self, *, reserve: float) -> None:
        """Improve the soft tier, if there is one; ``reserve``: share of the time that is left over."""
        if not self.objective.empty:
            search = self._exact()
            self.best = search.improve(reserve=reserve)
            self.engine = search.engine
        elif self.cluster.trees:
            from solver.objective.assign_zones import assign

            self.best.zones = assign(self.cluster, self.objective.containers, self.best.sequence)

    def tie_break(self, strategy: Strategy) -> doc.TierResult:
        """Improve the tie-break, no preference losing."""
        context, best, asked = self.context, self.best, self.context.options.search_strategy
        complete = int(best.counts.sum()) == int(self.cluster.count.sum())
        value, bound = strategy.value(best.counts), strategy.bound(best.counts, complete=complete)
        self._report(value, bound)
        spent = 0.0 if context.options.deterministic else context.deadline.elapsed()
        allowance = max(PARAMETERS.unasked_seconds, PARAMETERS.unasked_share * spent)
        costs = strategy.pod_costs(best.counts)
        if value < bound and costs is not None and asked and not context.stop.is_set():
            seconds = PARAMETERS.moves * context.deadline.left()
            self._even_out(costs, min(max(seconds, 0.01), PARAMETERS.moves_seconds))
            value = strategy.value(best.counts)
            self._report(value, bound)
        fits = int(np.count_nonzero(self.limits)) <= (LARGE if asked else PARAMETERS.unasked_variables)
        if value < bound and fits and not context.over() and context.options.engine != "greedy":
            if context.options.engine != "lns":
                self.engine = self.engine or "exact"
            left = context.deadline.left()
            seconds = left if asked else min(allowance, left)
            proved = self._exact().break_ties(strategy, best, seconds, lambda v, b: self._report(v, min(b, bound)))
            value = strategy.value(best.counts)
            bound = max(value, min(bound, proved))
        return doc.TierResult("strategy", value, max(value, bound))

    def _report(self, value: int, bound: int) -> None:
        self.context.report(self.context.phase, "strategy", value, bound)

    def _even_out(self, costs: PodCosts, seconds: float) -> None:
        """Move one pod after the other to emptier nodes, no preference losing."""
        from solver.search.annealing import LocalSearch

        best = self.best
        search = LocalSearch(
            self.objective, rules.replay(self.cluster, best.sequence), self.limits, best.counts, seed=self.context.options.seed
        )
        started, looks = time.monotonic(), 0
        most = 3 * len(search.pairs) // search.block + 2

        def progress() -> float:
            nonlocal looks
            looks += 1
            spent = looks / most if self.context.options.deterministic else (time.monotonic() - started) / seconds
            return 1.0 if self.context.stop.is_set() else spent

        if not search.even_out(costs, progress):
            return
        found = find_order(self.cluster, search.counts, seed=self.context.options.seed)
        if found.sequence is None:
            return
        value, zones = 0, Zones()
        if self.cluster.trees or not self.objective.empty:
            from solver.search.preference_search import value_of

            value, zones = value_of(self.objective, search.counts, found.sequence)
        if value >= best.value:
            best.counts, best.sequence, best.zones, best.value = search.counts.copy(), found.sequence, zones, value
