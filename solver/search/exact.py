"""Exact engine: one CP-SAT model solved priority tier by priority tier, and the exact model of the soft tiers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_, find_order
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.cpsat.run import MAX_TIGHT_VARIABLES, CpSat, OnValue, add_hint
from kubestow.solver.objective import encoding as objective_encoding
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.tie_break import Strategy
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.runtime.run_context import RunContext

#: A tier is first searched among placements that leave at most 1 / this of its pods unplaced: a narrow search without a hint finds
#: near-perfect placements sooner than improving on a greedy one.
NARROW_SEARCH_DIVISOR = 50
MIN_NARROW_PODS = 3  #: Least number of unplaced pods that the narrow search allows.


@dataclass
class ExactOutcome:
    """The best placement with a bind order.

    Attributes:
        counts: int64[G, N].
        sequence: Bind order.
        bounds: Per priority, upper bound on placed pods, given the values of the higher tiers.
        notes: Notes for the result.
        interrupted: True if the search was stopped.
    """

    counts: Ints
    sequence: Sequence_
    bounds: dict[int, int]
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False


class ExactEngine:
    """The exact engine for one compiled cluster."""

    def __init__(self, cluster: Cluster, context: RunContext) -> None:
        self.cluster, self.context, self.deadline = cluster, context, context.deadline
        self.cpsat = CpSat(context)
        self.encoding = build_model(cluster, rules.build(cluster))
        self.tiers = sorted({int(p) for p in cluster.priority}, reverse=True)
        self.members = {p: np.flatnonzero(cluster.priority == p).tolist() for p in self.tiers}
        self.fits = {p: sum(self.encoding.fits[g] for g in self.members[p]) for p in self.tiers}
        self.sound = True  # every assignment cut off so far provably has no bind order

    def solve(self, counts: Ints, sequence: Sequence_, bounds: dict[int, int] | None = None) -> ExactOutcome:
        """Return the best placement found until every tier is proved, time is up, or ``stop`` is set.

        Args:
            counts: A valid placement to start from, int64[G, N].
            sequence: Its bind order.
            bounds: Known upper bounds on placed pods, by priority.
        """
        best = ExactOutcome(counts, sequence, {p: min(fits, (bounds or self.fits)[p]) for p, fits in self.fits.items()})
        self._all_at_once(best)
        for i, p in enumerate(self.tiers):
            self._tier(best, p, len(self.tiers) - i)
            self.encoding.model.add(self._missing(self.encoding.model, p) <= self.fits[p] - self._placed(best.counts, p))
        best.interrupted = self.context.stop.is_set()
        return best

    # --- the model --------------------------------------------------------------------------------------------------------

    def _placed(self, counts: Ints, priority: int) -> int:
        return int(counts[self.members[priority]].sum())

    def _missing(self, model: cp_model.CpModel, priority: int) -> cp_model.LinearExprT:
        """Return the expression for the unplaced pods of a tier that fit somewhere."""
        return cp_model.LinearExpr.sum(
            [model.get_int_var_from_proto_index(self.encoding.unplaced[g].index) for g in self.members[priority]]
        )

    # --- tiers ----------------------------------------------------------------------------------------------------------

    def _all_at_once(self, best: ExactOutcome) -> None:
        """Look for a placement of every pod that fits somewhere, and adopt it in ``best``.

        As a feasibility problem, this is far easier than maximising.
        """
        while not self.context.over():
            model = self.encoding.model.clone()
            for unplaced in self.encoding.unplaced.values():
                model.add(model.get_int_var_from_proto_index(unplaced.index) == 0)
            answer = self.cpsat.run(model, self.deadline.remaining() * 0.6, tight=len(self.encoding.x) <= MAX_TIGHT_VARIABLES)
            if answer.solution is None or self._adopt(best, self.encoding.counts(answer.solution)):
                return

    def _tier(self, best: ExactOutcome, p: int, tiers_left: int) -> None:
        """Maximise one tier with the higher tiers held at their values, and adopt improvements in ``best``.

        If many pods of the tier are unplaced, half of its time goes to placements that leave only few unplaced.

        Args:
            p: Priority of the tier.
            tiers_left: Number of tiers, including this one, that share the remaining time.
        """
        seconds = self.deadline.remaining() / tiers_left
        nearly = max(MIN_NARROW_PODS, self.fits[p] // NARROW_SEARCH_DIVISOR)
        if self.fits[p] - self._placed(best.counts, p) > nearly:
            self._search(best, p, seconds / 2, at_most=nearly)
        if self._placed(best.counts, p) < best.bounds[p]:
            self._search(best, p, self.deadline.remaining() / tiers_left)

    def _search(self, best: ExactOutcome, p: int, seconds: float, *, at_most: int | None = None) -> None:
        """Search for a better placement of a tier, with at most ``at_most`` unplaced pods, or (None) hinted with the incumbent."""
        fits = self.fits[p]
        while not self.context.over():
            model = self.encoding.model.clone()
            missing = self._missing(model, p)
            model.minimize(missing)
            if at_most is not None:
                model.add(missing <= at_most)
            else:
                add_hint(model, self.cpsat.assignment(self.encoding, best.counts) or ())
            answer = self.cpsat.run(model, seconds, self._reporter(p))
            min_unplaced = answer.bound
            if at_most is not None:
                min_unplaced = (
                    at_most + 1
                    if answer.status == cp_model.INFEASIBLE
                    else (None if min_unplaced is None else min(min_unplaced, at_most + 1))
                )
            if min_unplaced is not None and self.sound and fits - min_unplaced >= self._placed(best.counts, p):
                best.bounds[p] = min(best.bounds[p], fits - min_unplaced)
            if answer.solution is None:
                return
            counts = self.encoding.counts(answer.solution)
            if self._placed(counts, p) <= self._placed(best.counts, p) or self._adopt(best, counts):
                return

    def _reporter(self, p: int) -> OnValue:
        report, fits = self.context.report, self.fits[p]
        return lambda unplaced, min_unplaced: report("exact", "placed", fits - unplaced, fits - min_unplaced, priority=p)

    def _adopt(self, best: ExactOutcome, counts: Ints) -> bool:
        """Adopt a placement if it has a bind order; otherwise cut it off in the model. Return whether it was adopted."""
        ordering = find_order(self.cluster, counts, seed=self.context.options.seed)
        if ordering.sequence is not None:
            best.counts, best.sequence = counts, ordering.sequence
            return True
        note = "an assignment without a bind order was cut off; proofs refer to placements that can be bound one by one"
        if not ordering.exhausted:
            self.sound = False
            note = "an assignment was set aside because no bind order was found in time; bounds count it as possible"
        if note not in best.notes:
            best.notes.append(note)
        self.encoding.forbid(counts, ordering.stuck, ordering.node)
        return False


class SoftModel:
    """The exact model with the placed tiers held and the soft objective, built on first use.

    Args:
        unplaced: Per priority, pods that stay unplaced.
        encoding: Existing model of the placed tiers, if any.

    Attributes:
        sound: True if its bounds hold for all placements.
    """

    def __init__(self, objective: Objective, unplaced: dict[int, int], encoding: PlacementModel | None, *, seed: int) -> None:
        self._objective, self._unplaced, self._encoding, self._seed = objective, unplaced, encoding, seed
        self._made: tuple[PlacementModel, Points] | None = None
        self._tiers: dict[Strategy, Points] = {}
        self.sound = True

    def made(self) -> tuple[PlacementModel, Points]:
        """Return the model and its soft objective."""
        if self._made is None:
            cluster = self._objective.cluster
            encoding = self._encoding or build_model(cluster, rules.build(cluster))
            encoding.model.proto.clear_objective()
            points = objective_encoding.encode(encoding, self._objective)
            encoding.hold(self._unplaced)
            encoding.model.maximize(points.expression())
            self.sound &= not encoding.zoneless  # containers left without zones in the model could gain more than its bound
            self._made = encoding, points
        return self._made

    def points(self, tier: Strategy) -> Points:
        """Return the value of a lower tier over the model, built once.

        Raises:
            OverflowError: The costs exceed what CP-SAT can sum.
        """
        if tier not in self._tiers:
            self._tiers[tier] = tier.encode(self.made()[0])
        return self._tiers[tier]

    def cut(self, counts: Ints) -> bool:
        """Forbid an assignment int64[G, N] without a bind order. Return False if it has one."""
        ordering = find_order(self._objective.cluster, counts, seed=self._seed)
        if ordering.sequence is not None:
            return False
        self.sound &= ordering.exhausted
        self.made()[0].forbid(counts, ordering.stuck, ordering.node)
        return True
