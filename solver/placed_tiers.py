"""The placed tiers: construct, repair, bound, and where pods are left ask CP-SAT, over everything or over neighbourhoods."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import TYPE_CHECKING, Protocol

import numpy as np

from models.cluster.cluster import Cluster, Ints
from models.kube.selectors import Bools
from solver import rules
from solver.bind_order.order import Sequence_, find_order
from solver.construction.greedy import Construction, complete, construct, rank
from solver.objective.incremental_score import SoftState
from solver.objective.preferences import Objective
from solver.rules.base import Rule
from solver.rules.eligibility import fits, short
from solver.rules.pod_topology_spread import PodTopologySpread
from solver.runtime.options import Options
from solver.runtime.run_context import RunContext

if TYPE_CHECKING:  # ortools takes longer to import than many a snapshot to solve
    from solver.cpsat.model import PlacementModel
    from solver.runtime.deadline import Deadline
    from solver.soft_tiers import LaterTiers

#: Above this many (class, node) pairs `auto` leaves the exact model alone and searches neighbourhoods.
EXACT_LIMIT = 15_000
#: Gangs that share the time that is left for gangs; deterministic seconds that compiling one counts.
AT_ONCE, COMPILE = 8, 0.05
#: Share of a gang's time for an exact model of one domain; up to so many variables with the full linear relaxation.
SITE, TIGHT_LIMIT = 0.4, 2_000
#: Up to so many pods and (class, node) pairs the exact model is sooner done than gangs are packed one by one.
FEW_PODS, SMALL = 50, 500
#: Insertions without gain after which the repair ends: so many, and so many for each pod that is left.
PATIENCE, PATIENCE_EACH = 400, 20
#: Deterministic seconds that one insertion of the repair counts.
INSERTION = 5e-4
#: Shares are of so many seconds at most.
LONG = 600.0
#: Shares of the time: for the repair, for gangs that are left, and for the linear relaxation.
REPAIR, PACK, RELAX = 0.4, 0.4, 0.15
#: Constructions in different orders: many where pods are few.
TRIES, FEW = 8, 2_000


class ReportProgress(Protocol):
    """Progress: phase, and for a tier its priority, incumbent and bound."""

    def __call__(self, phase: str, priority: int | None = None, value: int | None = None, bound: int | None = None) -> None: ...


@dataclass
class Answer:
    """The best placement (``counts``: int64[G, N]) with its bind order, and a bound per priority."""

    counts: Ints
    sequence: Sequence_
    bounds: dict[int, int]
    engine: str
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    later: LaterTiers | None = None
    encoding: PlacementModel | None = None
    state: tuple[Sequence[Rule], SoftState | None] | None = None  # rules and soft counters in the state of the placement, if at hand


class PlacedSearch:
    """``active``: rules in the state of the fixed pods, consumed. ``limits``: int64[G, N]. ``started``: on the monotonic clock."""

    def __init__(
        self,
        objective: Objective,
        active: Sequence[Rule],
        limits: Ints,
        options: Options,
        stop: threading.Event,
        tell: ReportProgress,
        started: float,
    ) -> None:
        self.objective, self.active, self.limits, self.options = objective, active, limits, options
        self.cluster, self.stop, self.tell, self.started = objective.cluster, stop, tell, started

    def run(self) -> Answer:
        """Place as many pods as can be, highest priority first."""
        from solver.runtime.deadline import Deadline

        options, cluster = self.options, self.cluster
        budget = Deadline(options, self.started)
        bounds = cluster.per_priority(fits(cluster, self.limits))  # a bound that holds before any search
        answer = self._construct(bounds)
        self._report("greedy", answer)
        if self._complete(answer):
            return self._proved(answer, "greedy construction placed every pod that fits anywhere: the placed tiers are proved")
        if short(cluster, self.limits):
            self._relax(answer, budget)
        if not self._complete(answer):
            self._repair(answer, budget)
        if not self._complete(answer):
            self._pack(answer, budget)
        if not self._complete(answer) and not self.stop.is_set():
            self._relax(answer, budget)
        if self._complete(answer):
            return self._proved(answer, "construction and repair placed every pod that can be placed: the placed tiers are proved")
        if options.engine == "greedy" or self.stop.is_set() or budget.left() <= 0:
            answer.interrupted = self.stop.is_set()
            return answer
        pairs = int(np.count_nonzero(self.limits))
        if options.engine == "exact" or (options.engine == "auto" and pairs <= EXACT_LIMIT):
            return self._exact(answer, budget)
        if options.engine == "auto":
            answer.notes.append(f"engine auto chose lns: an exact model would have {pairs} variables (limit {EXACT_LIMIT})")
        self._neighbourhoods(answer, budget)
        return answer

    def _proved(self, answer: Answer, note: str) -> Answer:
        """The answer with nothing left to search; ``note``: what `auto` says of it."""
        if self.options.engine == "auto":
            answer.notes += [note] if self.cluster.scope.pending else []
        else:
            answer.engine = self.options.engine
        return answer

    # --- steps ------------------------------------------------------------------------------------------------------------------

    def _construct(self, bounds: dict[int, int]) -> Answer:
        options = self.options
        deadline = None
        if options.time_limit is not None and not options.deterministic:
            deadline = self.started + options.time_limit
        built = construct(
            self.cluster, self.active, self.limits, seed=options.seed, deadline=deadline, stop=self.stop,
            tries=TRIES if len(self.cluster.scope.pending) <= FEW else 1,
            even=options.policy.strategy == "spread", soft=None if self.objective.empty else SoftState(self.objective),
        )  # fmt: skip
        state = built.active, built.soft
        return Answer(built.counts, built.sequence, bounds, "greedy", interrupted=self.stop.is_set(), state=state)

    def _repair(self, answer: Answer, budget: Deadline) -> None:
        """Make room for what construction left."""
        from solver.construction.repair import repair

        active = answer.state[0] if answer.state is not None else rules.replay(self.cluster, answer.sequence)
        answer.state = None
        left = int(fits(self.cluster, self.limits).sum() - answer.counts.sum())
        patience = PATIENCE + PATIENCE_EACH * left
        seconds, started = min(budget.left(), LONG) * REPAIR, time.monotonic()
        calls = last = 0

        def progress() -> float:
            nonlocal calls
            calls += 1
            budget.charge(INSERTION)
            spent = calls * INSERTION if self.options.deterministic else time.monotonic() - started
            return 1.0 if self.stop.is_set() else max(spent / max(seconds, 1e-6), (calls - last) / patience)

        wanted = self.cluster.per_priority(self.cluster.count)
        tiers = sorted(answer.bounds, reverse=True)

        def better(left: Ints) -> None:
            nonlocal last, seconds
            last = calls
            if all(wanted[p] - pending == answer.bounds[p] for p, pending in zip(tiers, left.tolist(), strict=True)):
                seconds = 0.0  # as good as can be

        counts = repair(self.cluster, active, self.limits, answer.counts, seed=self.options.seed, progress=progress, on_better=better)
        self._adopt(answer, counts)
        self._report("repair", answer)

    def _pack(self, answer: Answer, budget: Deadline) -> None:
        """Place gangs that are left, highest priority first, each on its own."""
        could = fits(self.cluster, self.limits)
        gangs = [k for k, gang in enumerate(self.cluster.gangs) if not answer.counts[list(gang.classes)].any()]
        gangs = [k for k in gangs if 0 < self.cluster.gangs[k].needed <= could[list(self.cluster.gangs[k].classes)].sum()]
        small = int(self.cluster.count.sum()) <= FEW_PODS and np.count_nonzero(self.limits) <= SMALL
        if not gangs or (small and self.options.engine in ("auto", "exact")):
            return
        from solver.construction.gang_packing import Packing

        gangs.sort(key=lambda k: -self.cluster.classes[self.cluster.gangs[k].classes[0]].priority)
        until = budget.left()

        def over() -> bool:
            return self.stop.is_set() or budget.left() <= until

        def charge() -> None:
            budget.charge(INSERTION)

        def exact(site: Cluster, limits: Ints, needed: int) -> Ints | None:
            from solver.cpsat.run import CpSat
            from solver.rules.placement_model import build_model

            nowhere: Bools = np.asarray(limits.sum(axis=0) == 0)  # room that does not count
            site = replace(site, free=np.where(nowhere[:, None], np.minimum(site.free, 0), site.free))
            encoding = build_model(site, rules.build(site), limits=limits)
            encoding.model.add(encoding.sum(list(encoding.left.values())) <= sum(encoding.fits) - needed)
            tight = len(encoding.x) <= TIGHT_LIMIT
            answer = CpSat(RunContext(self.options, budget, self.stop)).run(encoding.model, (budget.left() - until) * SITE, tight=tight)
            return None if answer.solution is None else encoding.counts(answer.solution)

        ask = None if self.options.engine == "greedy" else exact
        packing = Packing(self.cluster, self.limits, self.options.exempt, self.options.seed, over, charge, ask)
        end = budget.left() - min(budget.left(), LONG) * PACK
        for number, k in enumerate(gangs):
            if self.stop.is_set() or budget.left() <= end:
                break
            until = budget.left() - (budget.left() - end) / min(AT_ONCE, len(gangs) - number)
            budget.charge(COMPILE)
            counts = packing.pack(answer.counts, k)
            if counts is not None and self._obeyed(counts):
                self._adopt(answer, counts)
                self._report("gangs", answer)

    def _obeyed(self, counts: Ints) -> bool:
        """Whether every spread constraint of a placed pod holds in the end, those of pods included that others were placed around."""
        spread = PodTopologySpread(self.cluster)
        for g, n in zip(*(cells.tolist() for cells in np.nonzero(counts)), strict=True):
            spread.place(g, n, int(counts[g, n]))
        return all(spread.kept(g) for g in range(self.cluster.n_classes))

    def _relax(self, answer: Answer, budget: Deadline) -> None:
        """Bound the tiers by linear relaxation."""
        from solver.bounds.placed_bounds import placed_bounds

        seconds = min(budget.left(), 60.0) * RELAX
        placed = self.cluster.per_priority(answer.counts.sum(axis=1))
        found = placed_bounds(self.cluster, self.limits, placed, seconds=seconds, deterministic=self.options.deterministic, stop=self.stop)
        budget.charge(seconds)
        answer.bounds = {p: min(bound, self._in_whole_gangs(p, found[p])) for p, bound in answer.bounds.items()}
        self._report("bound", answer)

    def _in_whole_gangs(self, priority: int, bound: int) -> int:
        """A bound of a tier all of whose pods are of gangs that are placed with all their pods or not at all, rounded down to what such
        gangs add up to: a multiple of the greatest common divisor of their sizes."""
        sizes = []
        for g in np.flatnonzero((self.cluster.priority == priority) & self.limits.any(axis=1)).tolist():
            gang = self.cluster.gangs[k] if (k := self.cluster.classes[g].gang) is not None else None
            if gang is None or gang.needed != int(self.cluster.count[list(gang.classes)].sum()):
                return bound
            sizes.append(gang.needed)
        unit = gcd(*sizes)
        return bound // unit * unit if unit else bound

    def _exact(self, answer: Answer, budget: Deadline) -> Answer:
        from solver.search.exact import Exact

        self._report("exact", answer)
        exact = Exact(self.cluster, self.options, budget, self.stop, lambda p, value, bound: self.tell("exact", p, value, bound))
        outcome = exact.solve(answer.counts, answer.sequence, answer.bounds)
        counts, sequence = complete(self.cluster, self.limits, outcome.counts, outcome.sequence)
        encoding = exact.encoding if exact.sound else None
        return Answer(counts, sequence, outcome.bounds, "exact", answer.notes + outcome.notes, outcome.interrupted, encoding=encoding)

    def _neighbourhoods(self, answer: Answer, budget: Deadline) -> None:
        """Rounds of CP-SAT on a few nodes at a time, each with some of the pods that are left."""
        from solver.cpsat.run import CpSat
        from solver.search.annealing import LocalSearch
        from solver.search.lns import Lns

        answer.engine = "lns"
        search = LocalSearch(
            self.objective, rules.replay(self.cluster, answer.sequence), self.limits, answer.counts, seed=self.options.seed
        )
        keep = budget.left() - min(budget.left(), LONG) * (0.9 if self.objective.empty else 0.5)
        lns = Lns(search, CpSat(RunContext(self.options, budget, self.stop)))
        lns.place(fits(self.cluster, self.limits), lambda: budget.left() <= keep)
        self._adopt(answer, search.counts.copy())
        self._report("lns", answer)
        answer.interrupted = self.stop.is_set()

    # --- what is known ----------------------------------------------------------------------------------------------------------

    def _adopt(self, answer: Answer, counts: Ints) -> None:
        """Take a better placement over if it has a bind order."""
        old, new = Construction(answer.counts, []), Construction(counts, [])
        if rank(self.cluster, new) <= rank(self.cluster, old):
            return
        found = find_order(self.cluster, counts, seed=self.options.seed)
        if found.sequence is not None:
            answer.counts, answer.sequence = counts, found.sequence

    def _complete(self, answer: Answer) -> bool:
        return self.cluster.per_priority(answer.counts.sum(axis=1)) == answer.bounds

    def _report(self, phase: str, answer: Answer) -> None:
        for priority, value in sorted(self.cluster.per_priority(answer.counts.sum(axis=1)).items(), reverse=True):
            self.tell(phase, priority, value, answer.bounds[priority])
