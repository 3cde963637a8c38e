"""One CP-SAT model, priority tier after priority tier, each proved before the next: wiring only. And the one of the tiers below."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from ortools.sat.python import cp_model

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_, find_order
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.cpsat.run import CpSat, OnValue, add_hint
from kubestow.solver.objective import encoding as objective_encoding
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.tie_break import Strategy
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.runtime.run_context import RunContext

#: Up to this many variables the feasibility problem is solved with the full linear relaxation: perfect packings need it, large models
#: are found faster without.
TIGHT_LIMIT = 2_000
#: A tier is first searched among placements that leave at most this share of its pods (and at least a few): a narrow search without a
#: hint finds near-perfect placements sooner than improving on a greedy one.
NEARLY = 50
A_FEW = 3


@dataclass
class Outcome:
    """The best placement found that has a bind order. ``bounds``: per priority, pods that no placement can exceed, given the value of
    the higher tiers. ``counts``: int64[G, N]."""

    counts: Ints
    sequence: Sequence_
    bounds: dict[int, int]
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False


class Exact:
    """The exact engine over one compiled cluster."""

    def __init__(self, cluster: Cluster, context: RunContext) -> None:
        self.cluster, self.context, self.deadline = cluster, context, context.deadline
        self.cpsat = CpSat(context)
        self.encoding = build_model(cluster, rules.build(cluster))
        self.tiers = sorted({int(p) for p in cluster.priority}, reverse=True)
        self.members = {p: np.flatnonzero(cluster.priority == p).tolist() for p in self.tiers}
        self.fits = {p: sum(self.encoding.fits[g] for g in self.members[p]) for p in self.tiers}
        self.sound = True  # every assignment that was cut off is proved to have no bind order

    def solve(self, counts: Ints, sequence: Sequence_, bounds: dict[int, int] | None = None) -> Outcome:
        """Improve a valid placement until every tier is proved, time is up, or ``stop`` is set. ``bounds``: known beforehand."""
        best = Outcome(counts, sequence, {p: min(fits, (bounds or self.fits)[p]) for p, fits in self.fits.items()})
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
        """Pods of a tier that fit somewhere and are left."""
        return cp_model.LinearExpr.sum([model.get_int_var_from_proto_index(self.encoding.left[g].index) for g in self.members[priority]])

    # --- tiers ----------------------------------------------------------------------------------------------------------

    def _all_at_once(self, best: Outcome) -> None:
        """Pose "every pod that fits somewhere is placed" as plain feasibility, which is far easier than maximising."""
        while not self.context.over():
            model = self.encoding.model.clone()
            for left in self.encoding.left.values():
                model.add(model.get_int_var_from_proto_index(left.index) == 0)
            answer = self.cpsat.run(model, self.deadline.left() * 0.6, tight=len(self.encoding.x) <= TIGHT_LIMIT)
            if answer.solution is None or self._adopt(best, self.encoding.counts(answer.solution)):
                return

    def _tier(self, best: Outcome, p: int, tiers_left: int) -> None:
        """Maximise one tier, the tiers above it held at their values."""
        seconds = self.deadline.left() / tiers_left
        nearly = max(A_FEW, self.fits[p] // NEARLY)
        if self.fits[p] - self._placed(best.counts, p) > nearly:
            self._search(best, p, seconds / 2, at_most=nearly)
        if self._placed(best.counts, p) < best.bounds[p]:
            self._search(best, p, self.deadline.left() / tiers_left)

    def _search(self, best: Outcome, p: int, seconds: float, *, at_most: int | None = None) -> None:
        """Look for a better placement of a tier: one that leaves ``at_most`` pods of it, or (None) from the incumbent as a hint."""
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
            least = answer.bound
            if at_most is not None:
                least = at_most + 1 if answer.status == cp_model.INFEASIBLE else (None if least is None else min(least, at_most + 1))
            if least is not None and self.sound and fits - least >= self._placed(best.counts, p):
                best.bounds[p] = min(best.bounds[p], fits - least)
            if answer.solution is None:
                return
            counts = self.encoding.counts(answer.solution)
            if self._placed(counts, p) <= self._placed(best.counts, p) or self._adopt(best, counts):
                return

    def _reporter(self, p: int) -> OnValue:
        report, fits = self.context.report, self.fits[p]
        return lambda left, least: report("exact", "placed", fits - left, fits - least, priority=p)

    def _adopt(self, best: Outcome, counts: Ints) -> bool:
        """Take a placement over if it has a bind order; else cut it off in the model. Whether it was taken."""
        found = find_order(self.cluster, counts, seed=self.context.options.seed)
        if found.sequence is not None:
            best.counts, best.sequence = counts, found.sequence
            return True
        note = "an assignment without a bind order was cut off; proofs refer to placements that can be bound one by one"
        if not found.exhausted:
            self.sound = False
            note = "an assignment was set aside because no bind order was found in time; bounds count it as possible"
        if note not in best.notes:
            best.notes.append(note)
        self.encoding.forbid(counts, found.stuck, found.node)
        return False


class SoftModel:
    """The exact model with the placed tiers held and the soft objective, made when it is first asked for. ``left``: per priority, pods that
    stay away; ``encoding``: the model of the placed tiers, if there is one. ``sound``: its bounds hold for all placements."""

    def __init__(self, objective: Objective, left: dict[int, int], encoding: PlacementModel | None, *, seed: int) -> None:
        self._objective, self._left, self._encoding, self._seed = objective, left, encoding, seed
        self._made: tuple[PlacementModel, Points] | None = None
        self._tiers: dict[Strategy, Points] = {}
        self.sound = True

    def made(self) -> tuple[PlacementModel, Points]:
        """Return the model, and the points of preferences over it."""
        if self._made is None:
            cluster = self._objective.cluster
            encoding = self._encoding or build_model(cluster, rules.build(cluster))
            encoding.model.proto.clear_objective()
            points = objective_encoding.encode(encoding, self._objective)
            encoding.hold(self._left)
            encoding.model.maximize(points.expression())
            self.sound &= not encoding.zoneless  # containers that the model leaves without zones could gain more than it knows
            self._made = encoding, points
        return self._made

    def points(self, tier: Strategy) -> Points:
        """Return the value of a tier below over the model, made once.

        Raises:
            OverflowError: its costs are beyond what CP-SAT can sum.
        """
        if tier not in self._tiers:
            self._tiers[tier] = tier.encode(self.made()[0])
        return self._tiers[tier]

    def cut(self, counts: Ints) -> bool:
        """Forbid an assignment int64[G, N] that has no bind order; False: it has one."""
        found = find_order(self._objective.cluster, counts, seed=self._seed)
        if found.sequence is not None:
            return False
        self.sound &= found.exhausted
        self.made()[0].forbid(counts, found.stuck, found.node)
        return True
