"""What comes after the placed tiers: the soft tier, then the strategy tier, each held while the next is improved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from models.cluster.cluster import Cluster, Ints
from models.documents import placement as doc
from solver import rules
from solver.bind_order.order import Sequence_, find_order
from solver.objective.container_affinity import Zones
from solver.objective.incremental_score import SoftState
from solver.objective.preferences import Objective
from solver.objective.tie_break import Spread, Strategy
from solver.rules.base import Rule
from solver.rules.eligibility import fits
from solver.runtime.deadline import Deadline
from solver.runtime.options import Options
from solver.search.outcome import LARGE, SoftOutcome

#: Unless a strategy was asked for, construction alone follows it; CP-SAT sees it on models of at most so many variables only, for this
#: share of the time that the search took and at least so many seconds.
SHARE, LEAST, SMALL = 0.05, 0.25, 100
#: Otherwise this share of the time is kept for it.
RESERVE = 0.25
#: With it, moving pods one by one takes at most this share of what is left.
MOVES = 0.3

if TYPE_CHECKING:  # ortools takes longer to import than many a snapshot to solve
    from solver.cpsat.model import PlacementModel
    from solver.search.preference_search import SoftSearch

Report = Callable[[str, int, int], None]


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


@dataclass
class Start:
    """A placement int64[G, N] with its bind order; the exact model, and rules and soft counters in its state, if there are some."""

    counts: Ints
    sequence: Sequence_
    encoding: PlacementModel | None = None
    state: tuple[Sequence[Rule], SoftState | None] | None = None


def improve(
    objective: Objective,
    active: Sequence[Rule],
    limits: Ints,
    start: Start,
    strategy: Strategy | None,
    options: Options,
    stop: threading.Event,
    report: Report,
    started: float,
) -> LaterTiers:
    """Improve a placement without placing fewer pods of any priority."""
    cluster = objective.cluster
    objective.containers.stop = stop
    budget = Deadline(options, started)
    left = cluster.per_priority(fits(cluster, limits) - start.counts.sum(axis=1))  # pods that fit somewhere and are not placed
    search: SoftSearch | None = None
    best = SoftOutcome(start.counts, start.sequence, Zones(), 0, 0)
    if not objective.empty:
        from solver.search.preference_search import SoftSearch

        search = SoftSearch(cluster, objective, limits, options, budget, stop, lambda v, b: report("soft", v, b))
        reserve = RESERVE if strategy is not None and options.search_strategy else 0.0
        best = search.improve(start.counts, start.sequence, left, start.encoding, reserve=reserve, state=start.state)
    elif cluster.trees:
        from solver.objective.assign_zones import assign

        best.zones = assign(cluster, objective.containers, start.sequence)
    polished: doc.TierResult | None = None
    polish = _Strategy(cluster, objective, limits, options, budget, stop, started, lambda v, b: report("strategy", v, b))
    if strategy is not None:
        polished = polish.improve(strategy, best, left, search, start.encoding)
    later = LaterTiers(best.counts, best.sequence, best.zones, zoneless=best.zones.zoneless)
    if search is not None:
        later.tiers.append(doc.TierResult("soft", best.value, max(best.value, best.bound)))
        from solver.objective import report as preferences

        later.preferences = preferences.report(objective, best.counts, best.sequence, best.zones)
        later.notes += best.notes
    if polished is not None:
        later.tiers.append(polished)
    later.engine = (search.engine if search is not None else None) or ("exact" if polish.asked and options.engine != "lns" else None)
    for n in best.zones.elsewhere:
        name = cluster.nodes.names[n]
        later.notes.append(f"node {name}: the kubelet's own order takes other NUMA zones than those listed; they need pinning")
    return later


class _Strategy:
    def __init__(
        self,
        cluster: Cluster,
        objective: Objective,
        limits: Ints,
        options: Options,
        budget: Deadline,
        stop: threading.Event,
        started: float,
        report: Callable[[int, int], None],
    ) -> None:
        self.cluster, self.objective, self.limits, self.options = cluster, objective, limits, options
        self.budget, self.stop, self.started, self.report = budget, stop, started, report
        self.asked = False

    def improve(
        self, strategy: Strategy, best: SoftOutcome, left: dict[int, int], search: SoftSearch | None, encoding: PlacementModel | None
    ) -> doc.TierResult:
        """Improve ``best`` in place; gives the tier."""
        complete = int(best.counts.sum()) == int(self.cluster.count.sum())
        value, bound = strategy.value(best.counts), strategy.bound(best.counts, complete=complete)
        self.report(value, bound)
        size = int(np.count_nonzero(self.limits))
        allowance = LEAST if self.options.deterministic else max(LEAST, SHARE * (time.monotonic() - self.started))
        if value < bound and isinstance(strategy, Spread) and self.options.search_strategy and not self.stop.is_set():
            seconds = MOVES * self.budget.left()
            self._move(strategy, best, min(max(seconds, 0.01), 20.0))
            value = strategy.value(best.counts)
            self.report(value, bound)
        limit = LARGE if self.options.search_strategy else SMALL
        done = self.stop.is_set() or self.budget.left() <= 0 or self.options.engine == "greedy"
        if value < bound and size <= limit and not done:
            self.asked = True
            from solver.search.preference_search import SoftSearch

            search = search or SoftSearch(self.cluster, self.objective, self.limits, self.options, self.budget, self.stop)
            seconds = self.budget.left() if self.options.search_strategy else allowance
            proved = search.strategy(
                strategy, best, left, min(seconds, self.budget.left()), encoding, lambda v, b: self.report(v, min(b, bound))
            )
            value = strategy.value(best.counts)
            bound = max(value, min(bound, proved))
        return doc.TierResult("strategy", value, max(value, bound))

    def _move(self, strategy: Spread, best: SoftOutcome, seconds: float) -> None:
        """One pod after the other to emptier nodes, no preference losing."""
        from solver.search.annealing import LocalSearch

        active = rules.replay(self.cluster, best.sequence)
        search = LocalSearch(self.objective, active, self.limits, best.counts, seed=self.options.seed)
        started, looks = time.monotonic(), 0
        most = 3 * len(search.pairs) // search.block + 2

        def progress() -> float:
            nonlocal looks
            looks += 1
            spent = looks / most if self.options.deterministic else (time.monotonic() - started) / seconds
            return 1.0 if self.stop.is_set() else spent

        if not search.even_out(strategy, progress):
            return
        found = find_order(self.cluster, search.counts, seed=self.options.seed)
        if found.sequence is None:
            return
        value, zones = 0, Zones()
        if self.cluster.trees or not self.objective.empty:
            from solver.search.preference_search import value_of

            value, zones = value_of(self.objective, search.counts, found.sequence)
        if value >= best.value:
            best.counts, best.sequence, best.zones, best.value = search.counts.copy(), found.sequence, zones, value
