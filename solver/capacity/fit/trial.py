"""The trial whether all pods of an instance fit: the search for placed pods, ended as soon as one cannot be placed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kubestow.solver import rules
from kubestow.solver.capacity.fit.question import FitInstance
from kubestow.solver.explain.conflict.placement_question import in_some_order
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.placed_steps import PARAMETERS, PlacedAnswer, PlacedSteps
from kubestow.solver.placed_tiers import BOUND, GANGS, NEIGHBOURHOODS, REPAIR, SHARES
from kubestow.solver.rules.eligibility import fits
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of greedy constructions. A trial is one of many, and a relaxation refutes it sooner.
MAX_CONSTRUCTIONS = 2


@dataclass
class FitVerdict:
    """The result of a trial.

    Attributes:
        answer: A placement of all pods; None if none was found.
        refuted: True if it is proved that there is none.
        more: True if it is proved that more units do not fit either.
        share: Placed pods and all pods, as numerator and denominator.
    """

    answer: PlacedAnswer | None
    refuted: bool = False
    more: bool = False
    share: tuple[int, int] = (0, 1)


class FitTrial(PlacedSteps):
    """A search that ends as soon as it knows whether all pods fit."""

    def __init__(self, instance: FitInstance, context: RunContext) -> None:
        cluster = instance.cluster
        active = rules.build(cluster)
        super().__init__(Objective(cluster, active), active, instance.eligibility, context, replace(PARAMETERS, tries=MAX_CONSTRUCTIONS))
        self.wanted = cluster.per_priority(cluster.count)
        self.room = instance.room

    def ask(self) -> FitVerdict:
        """Return the verdict whether the units fit, after bounds, construction, and the searches that time allows."""
        bounds = self.cluster.per_priority(fits(self.cluster, self.eligibility))
        if bounds != self.wanted:
            cluster = self.cluster  # more units mean more members
            enough = all(gang.needed <= int(cluster.count[list(gang.classes)].sum()) for gang in cluster.gangs)
            return FitVerdict(None, refuted=True, more=enough, share=(sum(bounds.values()), sum(self.wanted.values())))
        answer = self.construct(bounds)
        if not self.complete(answer):  # this bound ignores reserved room
            answer = BOUND.take(self, answer)
            if answer.bounds != self.wanted:
                return FitVerdict(None, refuted=True, more=True, share=self._share(answer))
        if self._placed(answer):
            return FitVerdict(answer)
        if self.room is not None:  # no other engine respects reserved room
            return FitVerdict(None) if self.context.over() else self._decide(self._share(answer))
        for step in (SHARES, REPAIR, GANGS):
            if not self.context.over():
                answer = step.take(self, answer)
            if self._placed(answer):
                return FitVerdict(answer)
        share = self._share(answer)
        if not self.options.strategy.searches or self.context.over():
            return FitVerdict(None, share=share)
        if self.options.strategy.whole_models and self.pairs <= self.parameters.exact_limit:
            return self._decide(share)
        answer = NEIGHBOURHOODS.take(self, answer)
        return FitVerdict(answer if self._placed(answer) else None, share=share)

    def _placed(self, answer: PlacedAnswer) -> bool:
        if self.room is not None and (self.room.usage(self.cluster, answer.counts) > self.room.residual).any():
            return False
        return self.cluster.per_priority(answer.counts.sum(axis=1)) == self.wanted

    def _share(self, answer: PlacedAnswer) -> tuple[int, int]:
        return int(answer.counts.sum()), sum(self.wanted.values())

    def _decide(self, share: tuple[int, int]) -> FitVerdict:
        """Return the verdict of the exact model, in which every pod must be placed."""
        encoding = build_model(self.cluster, rules.build(self.cluster), eligibility=self.eligibility)
        for unplaced in encoding.unplaced.values():
            encoding.model.add(unplaced == 0)
        if self.room is not None:
            self.room.encode(encoding)
        order = in_some_order(self.cluster, encoding, self.context)
        if order.placed is None:
            return FitVerdict(None, refuted=order.refuted, share=share)
        return FitVerdict(PlacedAnswer(*order.placed, dict(self.wanted), "exact"))
