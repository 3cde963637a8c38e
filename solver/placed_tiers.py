"""The placed tiers: the search for placed pods as a list of steps, from construction to CP-SAT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from kubestow.solver.placed_steps import PlacedAnswer, PlacedSteps
from kubestow.solver.rules.eligibility import fits, short

#: End of notes on the engine if every placed tier is proved.
PROVED = "the placed tiers are proved"


_Needs = Callable[[PlacedSteps, PlacedAnswer], bool]
_Costs = Callable[[PlacedSteps], float]


@dataclass(frozen=True)
class PlacedStep:
    """A step of the search. No step returns a placement of fewer pods of a priority without more of a higher one, or a larger bound.

    Attributes:
        run: Returns the answer after the step, which may use this many seconds.
        guarantees: The additional result of the step.
        costs: Returns the seconds that the step may use.
        needs: Returns True if the step can help with an answer.
    """

    run: Callable[[PlacedSteps, PlacedAnswer, float], PlacedAnswer]
    guarantees: str
    costs: _Costs
    needs: _Needs = lambda *_: True

    def take(self, search: PlacedSteps, answer: PlacedAnswer) -> PlacedAnswer:
        """Return the answer after the step, or the same if it cannot help."""
        return self.run(search, answer, self.costs(search)) if self.needs(search, answer) else answer


def _incomplete(search: PlacedSteps, answer: PlacedAnswer) -> bool:
    return not search.complete(answer)


def _tightens_early(search: PlacedSteps, answer: PlacedAnswer) -> bool:
    """Return whether pods without further rules are left, and the engine searches."""
    searches = _incomplete(search, answer) and search.options.strategy.searches and not search.stop.is_set()
    return searches and search.tight is not None and not search.tight.constrained


def _early(search: PlacedSteps) -> float:
    """Return more seconds if not all pods can fit."""
    scarce = short(search.cluster, search.eligibility) or (search.tight is not None and search.tight.all.full)
    return search.budget(search.parameters.long_fraction / (1 if scarce else 2))


def _repairing(search: PlacedSteps) -> float:
    devices = search.cluster.devices is not None
    return search.budget(search.parameters.long_fraction if devices else search.parameters.step_fraction)


def _relaxing(search: PlacedSteps) -> float:
    return search.budget(search.parameters.relax_fraction, search.parameters.relax_seconds)


def _has_shares(search: PlacedSteps, answer: PlacedAnswer) -> bool:
    return search.cluster.devices is not None and _incomplete(search, answer)


def _takes_whole(search: PlacedSteps, _: PlacedAnswer) -> bool:
    return search.options.strategy.takes_whole(search.pairs, search.parameters.exact_limit)


# fmt: off
BOUND: Final = PlacedStep(PlacedSteps.bound, "bounds of a linear relaxation, in whole gangs", _relaxing)
EXACTLY: Final = PlacedStep(
    PlacedSteps.fill_exactly, "nodes filled to the last unit, if there is almost no slack", lambda s: s.budget(s.parameters.fill_fraction))
TIGHTEN: Final = PlacedStep(
    PlacedSteps.tighten, "bounds of node patterns, and the chosen pods packed", lambda s: s.budget(s.parameters.long_fraction),
    lambda s, _: s.tight is not None)
SHARES: Final = PlacedStep(
    PlacedSteps.fill, "nodes with shared devices refilled", lambda s: s.budget(s.parameters.fill_fraction), _has_shares)
REPAIR: Final = PlacedStep(PlacedSteps.repair, "no gain by insertions within the patience", _repairing, _incomplete)
GANGS: Final = PlacedStep(
    PlacedSteps.pack, "each unplaced gang tried alone, unless an exact model is faster", lambda s: s.budget(s.parameters.step_fraction),
    _incomplete)
EXACT: Final = PlacedStep(
    PlacedSteps.exact, "the bounds of CP-SAT on the whole model, and its encoding", lambda s: s.deadline.remaining(), _takes_whole)
NEIGHBOURHOODS: Final = PlacedStep(
    PlacedSteps.neighbourhoods, "unplaced pods tried on a few nodes at a time", lambda s: s.budget(0.9 if s.objective.empty else 0.5))
#: The steps of every engine, in this order.
CONSTRUCTION: Final = (
    replace(BOUND, needs=lambda search, _: short(search.cluster, search.eligibility)),
    EXACTLY,
    replace(TIGHTEN, needs=_tightens_early, costs=_early),
    SHARES,
    REPAIR,
    GANGS,
    replace(BOUND, needs=lambda search, answer: _incomplete(search, answer) and not search.stop.is_set()),
)
# fmt: on


class PlacedSearch(PlacedSteps):
    """The search for placed pods."""

    def run(self) -> PlacedAnswer:
        """Place as many pods as possible, highest priority first."""
        answer = self.construct(self.cluster.per_priority(fits(self.cluster, self.eligibility)))  # valid bounds before any search
        self.report("greedy", answer)
        if self.complete(answer):
            return self._proved(answer, "greedy construction placed every pod that fits anywhere")
        for step in CONSTRUCTION:
            answer = step.take(self, answer)
        if self.complete(answer):
            return self._proved(answer, "construction and repair placed every pod that can be placed")
        if not self.options.strategy.searches or self.context.over():
            return replace(answer, interrupted=self.stop.is_set())
        answer = TIGHTEN.take(self, answer)
        if self.complete(answer):
            return self._proved(answer, "repacking placed every pod that can be placed")
        if EXACT.needs(self, answer):
            return EXACT.take(self, answer)
        if self.options.strategy.chooses:
            limit = self.parameters.exact_limit
            answer = answer.noting(f"engine auto chose lns: an exact model would have {self.pairs} variables (limit {limit})")
        return NEIGHBOURHOODS.take(self, answer)

    def _proved(self, answer: PlacedAnswer, how: str) -> PlacedAnswer:
        """Return the answer with nothing left to search. The engine `auto` says how."""
        if not self.options.strategy.chooses:
            return replace(answer, engine=self.options.engine)
        return answer.noting(f"{how}: {PROVED}") if self.cluster.scope.pending else answer
