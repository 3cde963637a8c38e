"""The placed tiers: construct, repair and bound a placement, then use CP-SAT on the whole model or on neighbourhoods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_, most_in_order, node_orders
from kubestow.solver.bounds.placed_bounds import placed_bounds
from kubestow.solver.construction.exact_filling import fill_exactly
from kubestow.solver.construction.gang_packing import GangPacking
from kubestow.solver.construction.greedy import complete, construct, rank
from kubestow.solver.construction.repair import EjectionRepair
from kubestow.solver.construction.share_filling import ShareFilling
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.cpsat.run import MAX_TIGHT_VARIABLES, CpSat
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.eligibility import fits, short
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.runtime.time_slice import TimeSlice
from kubestow.solver.search.exact import ExactEngine
from kubestow.solver.search.lns import Lns
from kubestow.solver.search.local_search import LocalSearch
from kubestow.solver.soft_tiers import LaterTiers
from kubestow.solver.tight_packing.tight_packing import TightPacking


@dataclass(frozen=True)
class PlacedParameters:
    """Budgets of the steps. Fractions apply to the remaining time, capped at ``max_budget_seconds``.

    Attributes:
        exact_limit: (class, node) pairs above which `auto` searches neighbourhoods instead of the exact model.
        tries: Greedy constructions with different pod orders (small instances only).
        few_pods_to_try: Pods up to which there are several constructions.
        max_budget_seconds: Cap on the remaining time before the fractions below are applied.
        fill_fraction: Time fraction for refilling shared devices, and for filling nodes to the last unit.
        filling_seconds: Deterministic seconds charged for filling one node.
        step_fraction: Time fraction for the repair, for unplaced gangs, and of a gang's time for an exact model of one domain.
        long_fraction: Time fraction for a step that little can follow: the repair if pods request devices, whose models are large, and
            bounds and repacking if pods demand about as much as the nodes have. Half of it before the repair, if all may fit.
        patience: Insertions without gain after which the repair ends.
        patience_per_pod: Additional insertions per unplaced pod.
        insertion_seconds: Deterministic seconds charged for one insertion of the repair.
        gangs_at_once: Gangs that share the remaining time for gangs.
        compile_seconds: Deterministic seconds charged for compiling one gang.
        few_pods: Pods up to which the exact model is faster than packing gangs one by one.
        few_pairs: (class, node) pairs up to which it is faster.
        relax_fraction: Time fraction for the linear relaxation.
        relax_seconds: Cap on the remaining time for this fraction.
    """

    exact_limit: int = 15_000
    tries: int = 8
    few_pods_to_try: int = 2_000
    max_budget_seconds: float = 600.0
    fill_fraction: float = 0.3
    filling_seconds: float = 2e-3
    step_fraction: float = 0.4
    long_fraction: float = 0.7
    patience: int = 400
    patience_per_pod: int = 20
    insertion_seconds: float = 5e-4
    gangs_at_once: int = 8
    compile_seconds: float = 0.05
    few_pods: int = 50
    few_pairs: int = 500
    relax_fraction: float = 0.15
    relax_seconds: float = 60.0


PARAMETERS = PlacedParameters()
#: End of notes on the engine if every placed tier is proved.
PROVED = "the placed tiers are proved"


@dataclass
class PlacedAnswer:
    """The best placement, int64[G, N], with its bind order, a bound per priority, and rules and counters in its state, if known."""

    counts: Ints
    sequence: Sequence_
    bounds: dict[int, int]
    engine: str
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    later: LaterTiers | None = None
    encoding: PlacementModel | None = None
    state: tuple[Sequence[Rule], SoftState | None] | None = None


class PlacedSearch:
    """Search for placed pods; ``active``: rules in the state of the fixed pods, consumed; ``eligibility``: int64[G, N]."""

    def __init__(
        self, objective: Objective, active: Sequence[Rule], eligibility: Ints, context: RunContext,
        parameters: PlacedParameters = PARAMETERS,
    ) -> None:  # fmt: skip
        self.objective, self.active, self.eligibility, self.context, self.parameters = objective, active, eligibility, context, parameters
        self.cluster, self.options, self.deadline, self.stop = objective.cluster, context.options, context.deadline, context.stop

    def run(self) -> PlacedAnswer:
        """Place as many pods as possible, highest priority first."""
        options, cluster = self.options, self.cluster
        bounds = cluster.per_priority(fits(cluster, self.eligibility))  # valid before any search
        answer = self._construct(bounds)
        self._report("greedy", answer)
        if self._complete(answer):
            return self._proved(answer, f"greedy construction placed every pod that fits anywhere: {PROVED}")
        if short(cluster, self.eligibility):
            self._bound_tiers(answer)
        self._fill_exactly(answer)
        tight = self._tight_packing(answer)
        if tight is not None and not tight.constrained:
            scarce = short(cluster, self.eligibility) or tight.all.full
            self._tighten(answer, tight, self.parameters.long_fraction / (1 if scarce else 2))
        if not self._complete(answer) and self.cluster.devices is not None:
            self._fill(answer)
        if not self._complete(answer):
            self._repair(answer)
        if not self._complete(answer):
            self._pack(answer)
        if not self._complete(answer) and not self.stop.is_set():
            self._bound_tiers(answer)
        if self._complete(answer):
            return self._proved(answer, f"construction and repair placed every pod that can be placed: {PROVED}")
        if options.engine == "greedy" or self.context.over():
            answer.interrupted = self.stop.is_set()
            return answer
        pairs = int(np.count_nonzero(self.eligibility))
        if tight is not None:
            self._tighten(answer, tight, self.parameters.long_fraction)
            if self._complete(answer):
                return self._proved(answer, f"repacking placed every pod that can be placed: {PROVED}")
        if options.engine == "exact" or (options.engine == "auto" and pairs <= self.parameters.exact_limit):
            return self._exact(answer)
        if options.engine == "auto":
            answer.notes.append(f"engine auto chose lns: an exact model would have {pairs} variables (limit {self.parameters.exact_limit})")
        self._neighbourhoods(answer)
        return answer

    def _proved(self, answer: PlacedAnswer, note: str) -> PlacedAnswer:
        """Return the answer with nothing left to search; ``note``: added for engine `auto`."""
        if self.options.engine == "auto":
            answer.notes += [note] if self.cluster.scope.pending else []
        else:
            answer.engine = self.options.engine
        return answer

    def _slice(self, fraction: float, *, charge: float = 0.0, patience: int | None = None) -> TimeSlice:
        """Return a fraction of the remaining time, capped first."""
        return self.context.slice(fraction, cap=self.parameters.max_budget_seconds, charge=charge, patience=patience)

    # --- steps ------------------------------------------------------------------------------------------------------------------

    def _construct(self, bounds: dict[int, int]) -> PlacedAnswer:
        few = len(self.cluster.scope.pending) <= self.parameters.few_pods_to_try
        few &= self.cluster.devices is None  # another construction gains less than the repair in the same time
        built = construct(
            self.cluster, self.active, self.eligibility, self.context, tries=self.parameters.tries if few else 1,
            even=self.options.policy.strategy == "spread", soft=None if self.objective.empty else SoftState(self.objective),
        )  # fmt: skip
        state = built.active, built.soft
        return PlacedAnswer(built.counts, built.sequence, bounds, "greedy", interrupted=self.stop.is_set(), state=state)

    def _fill(self, answer: PlacedAnswer) -> None:
        """Place pods that take shares of devices again, if some are unplaced."""
        time = self._slice(self.parameters.fill_fraction, charge=self.parameters.filling_seconds)
        active = answer.state[0] if answer.state is not None else rules.replay(self.cluster, answer.sequence)
        counts = ShareFilling(self.cluster, active, self.eligibility, answer.counts, seed=self.options.seed).run(time.is_over)
        if counts is not None:
            self._adopt(answer, counts)
            answer.state = None
            self._report("shares", answer)

    def _fill_exactly(self, answer: PlacedAnswer) -> None:
        """Place all pods again if there is almost no slack."""
        time = self._slice(self.parameters.fill_fraction, charge=self.parameters.insertion_seconds)
        counts = fill_exactly(self.cluster, self.eligibility, seed=self.options.seed, time=time)
        if counts is not None:
            self._adopt(answer, counts)
            answer.state = None
            self._report("repair", answer)

    def _repair(self, answer: PlacedAnswer) -> None:
        """Make room for the pods that construction left unplaced."""
        active = answer.state[0] if answer.state is not None else rules.replay(self.cluster, answer.sequence)
        answer.state = None
        unplaced = int(fits(self.cluster, self.eligibility).sum() - answer.counts.sum())
        patience = self.parameters.patience + self.parameters.patience_per_pod * unplaced
        share = self.parameters.step_fraction if self.cluster.devices is None else self.parameters.long_fraction
        time = self._slice(share, charge=self.parameters.insertion_seconds, patience=patience)
        search = EjectionRepair(self.cluster, active, self.eligibility, answer.counts, seed=self.options.seed)
        self._adopt(answer, search.run(time, answer.bounds))
        self._report("repair", answer)

    def _pack(self, answer: PlacedAnswer) -> None:
        """Place unplaced gangs one by one, highest priority first."""
        could = fits(self.cluster, self.eligibility)
        gangs = [k for k, gang in enumerate(self.cluster.gangs) if not answer.counts[list(gang.classes)].any()]
        gangs = [k for k in gangs if 0 < self.cluster.gangs[k].needed <= could[list(self.cluster.gangs[k].classes)].sum()]
        pairs = np.count_nonzero(self.eligibility)
        small = int(self.cluster.count.sum()) <= self.parameters.few_pods and pairs <= self.parameters.few_pairs
        if not gangs or (small and self.options.engine in ("auto", "exact")):
            return
        gangs.sort(key=lambda k: -self.cluster.classes[self.cluster.gangs[k].classes[0]].priority)

        def exact(site: Cluster, eligibility: Ints, needed: int) -> Ints | None:
            nowhere: Bools = np.asarray(eligibility.sum(axis=0) == 0)  # room that does not count
            site = replace(site, free=np.where(nowhere[:, None], np.minimum(site.free, 0), site.free))
            encoding = build_model(site, rules.build(site), eligibility=eligibility)
            encoding.model.add(encoding.sum(list(encoding.unplaced.values())) <= sum(encoding.fits) - needed)
            tight = len(encoding.x) <= MAX_TIGHT_VARIABLES
            answer = CpSat(self.context).run(encoding.model, time.remaining() * self.parameters.step_fraction, tight=tight)
            return None if answer.solution is None else encoding.counts(answer.solution)

        ask = None if self.options.engine == "greedy" else exact
        packing = GangPacking(self.cluster, self.eligibility, self.options, ask)
        whole = self._slice(self.parameters.step_fraction)
        for number, k in enumerate(gangs):
            if whole.is_over():
                break
            time = whole.part(1 / min(self.parameters.gangs_at_once, len(gangs) - number), charge=self.parameters.insertion_seconds)
            self.deadline.charge(self.parameters.compile_seconds)
            counts = packing.pack(answer.counts, k, time)
            if counts is not None and self._obeyed(counts):
                self._adopt(answer, counts)
                self._report("gangs", answer)

    def _obeyed(self, counts: Ints) -> bool:
        """Return whether all spread constraints of placed pods hold at the end, also of pods that others were placed around."""
        settled = rules.having(self.cluster, lambda kind: kind.settled)
        for g, n in zip(*(cells.tolist() for cells in np.nonzero(counts)), strict=True):
            for rule in settled:
                rule.place(g, n, int(counts[g, n]))
        return all(rule.kept(g) for rule in settled for g in range(self.cluster.n_classes))

    def _bound_tiers(self, answer: PlacedAnswer) -> None:
        """Bound the tiers by linear relaxation."""
        seconds = min(self.deadline.remaining(), self.parameters.relax_seconds) * self.parameters.relax_fraction
        placed, steady = self.cluster.per_priority(answer.counts.sum(axis=1)), self.options.deterministic
        bounds = placed_bounds(self.cluster, self.eligibility, placed, seconds=seconds, deterministic=steady, stop=self.stop)
        self.deadline.charge(seconds)
        answer.bounds = {p: min(bound, self._in_whole_gangs(p, bounds[p])) for p, bound in answer.bounds.items()}
        self._report("bound", answer)

    def _tight_packing(self, answer: PlacedAnswer) -> TightPacking | None:
        """Return the tight packing. None if there is nothing to pack, no time, or if amounts are too large to sum."""
        if self._complete(answer) or self.options.engine == "greedy" or self.stop.is_set():
            return None
        tight = TightPacking(self.cluster, rules.build(self.cluster), self.eligibility, self.context)
        return tight if tight.all.countable else None

    def _tighten(self, answer: PlacedAnswer, tight: TightPacking, share: float) -> None:
        """Bound each tier by node patterns, choose the pods that stay out, and pack the others."""
        time = self._slice(share)
        for p in sorted(answer.bounds, reverse=True):
            placed = self.cluster.per_priority(answer.counts.sum(axis=1))
            seconds = time.remaining()
            if placed[p] == answer.bounds[p]:
                continue
            if seconds <= 0 or self.stop.is_set():
                return
            answer.bounds[p], counts = tight.bound(p, placed, answer.bounds[p], seconds * 0.6)
            self._report("bound", answer)
            above = {q: n for q, n in placed.items() if q > p}
            # one less than the bound is nearly always found quickly, the bound itself not always
            for wanted in (*range(answer.bounds[p] - 1, placed[p], -1), answer.bounds[p]):
                if counts is None and self._of_priority(answer, p) < wanted:
                    share = 1 if wanted == answer.bounds[p] else 2
                    counts = tight.pack(answer.counts, above | {p: wanted}, time.remaining() / share)
                self._take_over(answer, counts)
                counts = None
            if self._of_priority(answer, p) > placed[p] and not self._complete(answer):
                self._bound_tiers(answer)

    def _take_over(self, answer: PlacedAnswer, counts: Ints | None) -> None:
        """Adopt a packing, and place further pods that fit."""
        if counts is not None:
            self._adopt(answer, counts)
            answer.counts, answer.sequence = complete(self.cluster, self.eligibility, answer.counts, answer.sequence)
            answer.state = None
            self._report("repacking", answer)

    def _of_priority(self, answer: PlacedAnswer, priority: int) -> int:
        return int(answer.counts[self.cluster.priority == priority].sum())

    def _in_whole_gangs(self, priority: int, bound: int) -> int:
        """Round a bound down to a multiple of the gcd of gang sizes, if all pods of the tier are in gangs of fixed size."""
        sizes = []
        for g in np.flatnonzero((self.cluster.priority == priority) & self.eligibility.any(axis=1)).tolist():
            gang = self.cluster.gangs[k] if (k := self.cluster.classes[g].gang) is not None else None
            if gang is None or gang.needed != int(self.cluster.count[list(gang.classes)].sum()):
                return bound
            sizes.append(gang.needed)
        unit = gcd(*sizes)
        return bound // unit * unit if unit else bound

    def _exact(self, answer: PlacedAnswer) -> PlacedAnswer:
        self._report("exact", answer)
        exact = ExactEngine(self.cluster, self.context)
        outcome = exact.solve(answer.counts, answer.sequence, answer.bounds)
        counts, sequence = complete(self.cluster, self.eligibility, outcome.counts, outcome.sequence)
        encoding = exact.encoding if exact.sound else None
        return PlacedAnswer(counts, sequence, outcome.bounds, "exact", answer.notes + outcome.notes, outcome.interrupted, encoding=encoding)

    def _neighbourhoods(self, answer: PlacedAnswer) -> None:
        """Place unplaced pods with CP-SAT on a few nodes at a time."""
        answer.engine = "lns"
        active = rules.replay(self.cluster, answer.sequence)
        search = LocalSearch(self.objective, active, self.eligibility, answer.counts, seed=self.options.seed)
        time = self._slice(0.9 if self.objective.empty else 0.5)
        Lns(search, CpSat(self.context)).place(fits(self.cluster, self.eligibility), time.is_over)
        self._adopt(answer, search.counts)
        self._report("lns", answer)
        answer.interrupted = self.stop.is_set()

    # --- the answer -------------------------------------------------------------------------------------------------------------

    def _adopt(self, answer: PlacedAnswer, counts: Ints) -> None:
        """Adopt a better placement, or its largest part that has a bind order."""
        if rank(self.cluster, counts) <= rank(self.cluster, answer.counts):
            return
        known = node_orders(self.cluster, answer.sequence)
        counts, ordering = most_in_order(self.cluster, counts, known, seed=self.options.seed)
        if ordering.sequence is not None and rank(self.cluster, counts) > rank(self.cluster, answer.counts):
            answer.counts, answer.sequence = counts, ordering.sequence

    def _complete(self, answer: PlacedAnswer) -> bool:
        return self.cluster.per_priority(answer.counts.sum(axis=1)) == answer.bounds

    def _report(self, phase: str, answer: PlacedAnswer) -> None:
        for priority, value in sorted(self.cluster.per_priority(answer.counts.sum(axis=1)).items(), reverse=True):
            self.context.report(phase, "placed", value, answer.bounds[priority], priority=priority)
