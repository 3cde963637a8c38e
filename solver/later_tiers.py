"""What comes after the placed tiers: the soft tier, then the strategy tier, each held while the next is improved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from models import placement as doc
from models.cluster import Cluster, Ints
from solver import preferences, rules
from solver.assign_zones import Zones, assign
from solver.cpsat import Budget
from solver.encoding import Encoding
from solver.limits import fits
from solver.local_search import LocalSearch
from solver.objective import Objective
from solver.options import Options
from solver.ordering import Sequence_, find_order
from solver.rules.base import Rule
from solver.soft_search import LARGE, SoftOutcome, SoftSearch
from solver.strategy import Spread, Strategy, choose

#: Without --strategy on the command line or in the policy, the strategy tier may take this share of the time that the search took, and
#: at least so many seconds; CP-SAT only sees it on models of at most so many variables.
SHARE, LEAST, SMALL = 0.05, 0.25, 1_000
#: With it, moving pods one by one takes at most this share of what is left.
MOVES = 0.3

Report = Callable[[str, int, int], None]


@dataclass
class LaterTiers:
    """``tiers``: of the result document; ``searched``: CP-SAT was asked."""

    counts: Ints
    sequence: Sequence_
    zones: Zones
    tiers: list[doc.TierResult] = field(default_factory=list)
    preferences: doc.Preferences | None = None
    notes: list[str] = field(default_factory=list)
    zoneless: set[tuple[int, int]] = field(default_factory=set)
    searched: bool = False


def improve(
    cluster: Cluster,
    active: Sequence[Rule],
    limits: Ints,
    counts: Ints,
    sequence: Sequence_,
    encoding: Encoding | None,
    options: Options,
    stop: threading.Event,
    report: Report,
    started: float,
) -> LaterTiers:
    """Improve a placement int64[G, N] with its bind order without placing fewer pods of any priority."""
    objective = Objective(cluster, active)
    budget = Budget(options, started)
    left = _left(cluster, limits, counts)
    searched = False
    search: SoftSearch | None = None
    best = SoftOutcome(counts, sequence, Zones(), 0, 0)
    later = LaterTiers(counts, sequence, best.zones)
    if not objective.empty:
        search = SoftSearch(cluster, objective, limits, options, budget, stop, lambda v, b: report("soft", v, b))
        best = search.improve(counts, sequence, left, encoding)
        searched = search.asked
        later.tiers.append(doc.TierResult("soft", best.value, best.bound))
        later.notes += best.notes
    else:
        best.zones = assign(cluster, objective.containers, sequence)
    strategy = choose(cluster, options.policy.strategy)
    if strategy is not None:
        polish = _Strategy(cluster, objective, limits, options, budget, stop, started, lambda v, b: report("strategy", v, b))
        later.tiers.append(polish.improve(strategy, best, left, search, encoding))
        searched |= polish.asked
    later.counts, later.sequence, later.zones, later.searched = best.counts, best.sequence, best.zones, searched
    if not objective.empty:
        later.preferences = preferences.report(objective, best.counts, best.sequence, best.zones)
    for n in best.zones.elsewhere:
        name = cluster.nodes.names[n]
        later.notes.append(f"node {name}: the kubelet's own order takes other NUMA zones than those listed; they need pinning")
    if search is not None:
        later.zoneless = search.zoneless
    return later


def _left(cluster: Cluster, limits: Ints, counts: Ints) -> dict[int, int]:
    """Per priority, the pods that fit somewhere and are not placed."""
    missing = fits(cluster, limits) - counts.sum(axis=1)
    found: dict[int, int] = {}
    for priority, k in zip(cluster.priority.tolist(), missing.tolist(), strict=True):
        found[priority] = found.get(priority, 0) + k
    return found


class _Strategy:
    def __init__(
        self,
        cluster: Cluster,
        objective: Objective,
        limits: Ints,
        options: Options,
        budget: Budget,
        stop: threading.Event,
        started: float,
        report: Callable[[int, int], None],
    ) -> None:
        self.cluster, self.objective, self.limits, self.options = cluster, objective, limits, options
        self.budget, self.stop, self.started, self.report = budget, stop, started, report
        self.asked = False

    def improve(
        self, strategy: Strategy, best: SoftOutcome, left: dict[int, int], search: SoftSearch | None, encoding: Encoding | None
    ) -> doc.TierResult:
        """Improve ``best`` in place; gives the tier."""
        complete = int(best.counts.sum()) == int(self.cluster.count.sum())
        value, bound = strategy.value(best.counts), strategy.bound(best.counts, complete=complete)
        self.report(value, bound)
        size = int(np.count_nonzero(self.limits))
        allowance = max(LEAST, SHARE * (time.monotonic() - self.started))
        if value < bound and isinstance(strategy, Spread) and not self.stop.is_set():
            seconds = MOVES * self.budget.left() if self.options.search_strategy else allowance / 2
            self._move(strategy, best, min(seconds, 20.0))
            value = strategy.value(best.counts)
            self.report(value, bound)
        limit = LARGE if self.options.search_strategy else SMALL
        done = self.stop.is_set() or self.budget.left() <= 0 or self.options.engine == "greedy"
        if value < bound and size <= limit and not done:
            self.asked = True
            search = search or SoftSearch(self.cluster, self.objective, self.limits, self.options, self.budget, self.stop)
            seconds = self.budget.left() if self.options.search_strategy else allowance / 2
            proved = search.strategy(
                strategy, best, left, min(seconds, self.budget.left()), encoding, lambda v, b: self.report(v, min(b, bound))
            )
            value = strategy.value(best.counts)
            bound = max(value, min(bound, proved))
        return doc.TierResult("strategy", value, max(value, bound))

    def _move(self, strategy: Spread, best: SoftOutcome, seconds: float) -> None:
        """One pod after the other to emptier nodes, no preference losing."""
        active = rules.build(self.cluster)
        for g, n, k in best.sequence:
            for rule in active:
                rule.place(g, n, k)
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
        zones = assign(self.cluster, self.objective.containers, found.sequence)
        if zones.points >= best.zones.points:
            best.counts, best.sequence, best.zones = search.counts.copy(), found.sequence, zones
