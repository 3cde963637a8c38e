"""The steps of the search for placed pods: construct, bound, repair and pack a placement, or use CP-SAT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
from kubestow.solver.rules.eligibility import fits
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.runtime.run_context import RunContext
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


@dataclass(frozen=True)
class PlacedAnswer:
    """A placement of pods. Steps return another one instead of changing it.

    Attributes:
        counts: int64[G, N].
        sequence: Bind order.
        bounds: A bound on the placed pods of each priority.
        engine: Engine that found it.
        notes: Notes for the result.
        interrupted: True if the search was stopped.
        later: The tiers after the placed ones.
        encoding: Exact model, if it was solved.
        state: Rules and soft counters in the state of the placement, if known. A search may consume them once.
    """

    counts: Ints
    sequence: Sequence_
    bounds: dict[int, int]
    engine: str
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    later: LaterTiers | None = None
    encoding: PlacementModel | None = None
    state: tuple[Sequence[Rule], SoftState | None] | None = None

    def noting(self, *notes: str) -> PlacedAnswer:
        """Return the answer with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def bounded(self, bounds: Mapping[int, int]) -> PlacedAnswer:
        """Return the answer with the smaller of its own and the given bounds."""
        return replace(self, bounds={p: min(bound, bounds[p]) for p, bound in self.bounds.items()})


class PlacedSteps:
    """The steps of a search for placed pods. Each returns an answer that is no worse, within some seconds.

    Args:
        active: Rules in the state of the fixed pods, consumed.
        eligibility: int64[G, N].
    """

    def __init__(
        self, objective: Objective, active: Sequence[Rule], eligibility: Ints, context: RunContext,
        parameters: PlacedParameters = PARAMETERS,
    ) -> None:  # fmt: skip
        self.objective, self.active, self.eligibility, self.context, self.parameters = objective, active, eligibility, context, parameters
        self.cluster, self.options, self.deadline, self.stop = objective.cluster, context.options, context.deadline, context.stop

    @property
    def pairs(self) -> int:
        """Number of (class, node) pairs, which are the variables of an exact model."""
        return int(np.count_nonzero(self.eligibility))

    def complete(self, answer: PlacedAnswer) -> bool:
        """Return whether every tier is proved."""
        return self.cluster.per_priority(answer.counts.sum(axis=1)) == answer.bounds

    @cached_property
    def tight(self) -> TightPacking | None:
        """Return the packing of pods that demand about as much as the nodes have; None if amounts are too large to sum."""
        tight = TightPacking(self.cluster, rules.build(self.cluster), self.eligibility, self.context)
        return tight if tight.all.countable else None

    # --- steps ------------------------------------------------------------------------------------------------------------------

    def construct(self, bounds: dict[int, int]) -> PlacedAnswer:
        few = len(self.cluster.scope.pending) <= self.parameters.few_pods_to_try
        few &= self.cluster.devices is None  # another construction gains less than the repair in the same time
        built = construct(
            self.cluster, self.active, self.eligibility, self.context, tries=self.parameters.tries if few else 1,
            even=self.options.policy.strategy == "spread", soft=None if self.objective.empty else SoftState(self.objective),
        )  # fmt: skip
        state = built.active, built.soft
        return PlacedAnswer(built.counts, built.sequence, bounds, "greedy", interrupted=self.stop.is_set(), state=state)

    def budget(self, fraction: float, cap: float | None = None) -> float:
        """Return a fraction of the remaining time, which counts up to a cap."""
        return min(self.deadline.remaining(), self.parameters.max_budget_seconds if cap is None else cap) * fraction

    def _rules(self, answer: PlacedAnswer) -> Sequence[Rule]:
        """Return the rules in the state of an answer, whose own are consumed."""
        return answer.state[0] if answer.state is not None else rules.replay(self.cluster, answer.sequence)

    def fill(self, answer: PlacedAnswer, seconds: float) -> PlacedAnswer:
        """Place pods that take shares of devices again."""
        time = self.context.slice(cap=seconds, charge=self.parameters.filling_seconds)
        filling = ShareFilling(self.cluster, self._rules(answer), self.eligibility, answer.counts, seed=self.options.seed)
        return self._adopted(answer, filling.run(time.is_over), "shares")

    def fill_exactly(self, answer: PlacedAnswer, seconds: float) -> PlacedAnswer:
        """Place all pods again if there is almost no slack."""
        time = self.context.slice(cap=seconds, charge=self.parameters.insertion_seconds)
        return self._adopted(answer, fill_exactly(self.cluster, self.eligibility, seed=self.options.seed, time=time), "repair")

    def repair(self, answer: PlacedAnswer, seconds: float) -> PlacedAnswer:
        """Make room for the pods that construction left unplaced."""
        active = self._rules(answer)
        unplaced = int(fits(self.cluster, self.eligibility).sum() - answer.counts.sum())
        patience = self.parameters.patience + self.parameters.patience_per_pod * unplaced
        time = self.context.slice(cap=seconds, charge=self.parameters.insertion_seconds, patience=patience)
        search = EjectionRepair(self.cluster, active, self.eligibility, answer.counts, seed=self.options.seed)
        return self._adopted(answer, search.run(time, answer.bounds), "repair")

    def pack(self, answer: PlacedAnswer, seconds: float) -> PlacedAnswer:
        """Place unplaced gangs one by one, highest priority first."""
        could = fits(self.cluster, self.eligibility)
        gangs = [k for k, gang in enumerate(self.cluster.gangs) if not answer.counts[list(gang.classes)].any()]
        gangs = [k for k in gangs if 0 < self.cluster.gangs[k].needed <= could[list(self.cluster.gangs[k].classes)].sum()]
        small = int(self.cluster.count.sum()) <= self.parameters.few_pods and self.pairs <= self.parameters.few_pairs
        if not gangs or (small and self.options.strategy.whole_models):
            return answer
        gangs.sort(key=lambda k: -self.cluster.classes[self.cluster.gangs[k].classes[0]].priority)
        whole = self.context.slice(cap=seconds)
        time = whole

        def exact(site: Cluster, eligibility: Ints, needed: int) -> Ints | None:
            nowhere: Bools = np.asarray(eligibility.sum(axis=0) == 0)  # room that does not count
            site = replace(site, free=np.where(nowhere[:, None], np.minimum(site.free, 0), site.free))
            encoding = build_model(site, rules.build(site), eligibility=eligibility)
            encoding.model.add(encoding.sum(list(encoding.unplaced.values())) <= sum(encoding.fits) - needed)
            tight = len(encoding.x) <= MAX_TIGHT_VARIABLES
            answer = CpSat(self.context).run(encoding.model, time.remaining() * self.parameters.step_fraction, tight=tight)
            return None if answer.solution is None else encoding.counts(answer.solution)

        ask = exact if self.options.strategy.searches else None
        packing = GangPacking(self.cluster, self.eligibility, self.options, ask)
        for number, k in enumerate(gangs):
            if whole.is_over():
                break
            time = whole.part(1 / min(self.parameters.gangs_at_once, len(gangs) - number), charge=self.parameters.insertion_seconds)
            self.deadline.charge(self.parameters.compile_seconds)
            counts = packing.pack(answer.counts, k, time)
            if counts is not None and self._obeyed(counts):
                answer = self._adopted(answer, counts, "gangs")
        return answer

    def _obeyed(self, counts: Ints) -> bool:
        """Return whether all spread constraints of placed pods hold at the end, also of pods that others were placed around."""
        settled = rules.having(self.cluster, lambda kind: kind.settled)
        for g, n in zip(*(cells.tolist() for cells in np.nonzero(counts)), strict=True):
            for rule in settled:
                rule.place(g, n, int(counts[g, n]))
        return all(rule.kept(g) for rule in settled for g in range(self.cluster.n_classes))

    def bound(self, answer: PlacedAnswer, seconds: float) -> PlacedAnswer:
        """Bound the tiers by linear relaxation."""
        placed, steady = self.cluster.per_priority(answer.counts.sum(axis=1)), self.options.deterministic
        bounds = placed_bounds(self.cluster, self.eligibility, placed, seconds=seconds, deterministic=steady, stop=self.stop)
        self.deadline.charge(seconds)
        answer = answer.bounded({p: self._in_whole_gangs(p, bounds[p]) for p in answer.bounds})
        self.report("bound", answer)
        return answer

    def tighten(self, answer: PlacedAnswer, seconds: float) -> PlacedAnswer:
        """Bound each tier by node patterns, choose the pods that stay out, and pack the others."""
        assert self.tight is not None
        time = self.context.slice(cap=seconds)
        for p in sorted(answer.bounds, reverse=True):
            placed = self.cluster.per_priority(answer.counts.sum(axis=1))
            seconds = time.remaining()
            if placed[p] == answer.bounds[p]:
                continue
            if seconds <= 0 or self.stop.is_set():
                break
            bound, counts = self.tight.bound(p, placed, answer.bounds[p], seconds * 0.6)
            answer = replace(answer, bounds={**answer.bounds, p: bound})
            self.report("bound", answer)
            above = {q: n for q, n in placed.items() if q > p}
            # one less than the bound is nearly always found quickly, the bound itself not always
            for wanted in (*range(bound - 1, placed[p], -1), bound):
                if counts is None and self._of_priority(answer, p) < wanted:
                    share = 1 if wanted == bound else 2
                    counts = self.tight.pack(answer.counts, above | {p: wanted}, time.remaining() / share)
                answer = self._taken_over(answer, counts)
                counts = None
            if self._of_priority(answer, p) > placed[p] and not self.complete(answer):
                answer = self.bound(answer, self.budget(self.parameters.relax_fraction, self.parameters.relax_seconds))
        return answer

    def _taken_over(self, answer: PlacedAnswer, counts: Ints | None) -> PlacedAnswer:
        """Return the answer with a packing, and with further pods that fit."""
        if counts is None:
            return answer
        answer = self._adopted(answer, counts)
        counts, sequence = complete(self.cluster, self.eligibility, answer.counts, answer.sequence)
        answer = replace(answer, counts=counts, sequence=sequence)
        self.report("repacking", answer)
        return answer

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

    def exact(self, answer: PlacedAnswer, _seconds: float) -> PlacedAnswer:
        """Solve the whole model with CP-SAT."""
        self.report("exact", answer)
        exact = ExactEngine(self.cluster, self.context)
        outcome = exact.solve(answer.counts, answer.sequence, answer.bounds)
        counts, sequence = complete(self.cluster, self.eligibility, outcome.counts, outcome.sequence)
        encoding = exact.encoding if exact.sound else None
        notes = (*answer.notes, *outcome.notes)
        return PlacedAnswer(counts, sequence, outcome.bounds, "exact", notes, outcome.interrupted, encoding=encoding)

    def neighbourhoods(self, answer: PlacedAnswer, seconds: float) -> PlacedAnswer:
        """Place unplaced pods with CP-SAT on a few nodes at a time."""
        time = self.context.slice(cap=seconds)
        active = rules.replay(self.cluster, answer.sequence)
        search = LocalSearch(self.objective, active, self.eligibility, answer.counts, seed=self.options.seed)
        Lns(search, CpSat(self.context)).place(fits(self.cluster, self.eligibility), time.is_over)
        answer = self._adopted(answer, search.counts, "lns")
        return replace(answer, engine="lns", interrupted=self.stop.is_set())

    # --- the answer -------------------------------------------------------------------------------------------------------------

    def _adopted(self, answer: PlacedAnswer, counts: Ints | None, phase: str | None = None) -> PlacedAnswer:
        """Return the answer with a better placement, or with its largest part that has a bind order. The state is forgotten."""
        if counts is None:
            return answer
        answer = replace(answer, state=None)
        if rank(self.cluster, counts) > rank(self.cluster, answer.counts):
            known = node_orders(self.cluster, answer.sequence)
            counts, ordering = most_in_order(self.cluster, counts, known, seed=self.options.seed)
            if ordering.sequence is not None and rank(self.cluster, counts) > rank(self.cluster, answer.counts):
                answer = replace(answer, counts=counts, sequence=ordering.sequence)
        if phase is not None:
            self.report(phase, answer)
        return answer

    def report(self, phase: str, answer: PlacedAnswer) -> None:
        for priority, value in sorted(self.cluster.per_priority(answer.counts.sum(axis=1)).items(), reverse=True):
            self.context.report(phase, "placed", value, answer.bounds[priority], priority=priority)
