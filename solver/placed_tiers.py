"""The placed tiers: the search for placed pods as a list of steps, from construction to CP-SAT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from kubestow.solver.placed_steps import PlacedAnswer, PlacedSteps
from kubestow.solver.rules.eligibility import fits, short

#: End of notes on the engine if every placed tier is proved.
PROVED = "the placed tiers are proved"


@dataclass(frozen=True)
class PlacedStep:
    """A step of the search. No step returns a placement of fewer pods of a priority without more of a higher one, or a larger bound.

    Attributes:
        run: Returns the answer after the step, which may use this many seconds.
        needs: Whether the step can help with an answer.
        costs: Returns the seconds that it may use.
        guarantees: What holds afterwards, in addition.
    """

    run: Callable[[PlacedSteps, PlacedAnswer, float], PlacedAnswer]
    needs: Callable[[PlacedSteps, PlacedAnswer], bool]
    costs: Callable[[PlacedSteps], float]
    guarantees: str

    def take(self, search: PlacedSteps, answer: PlacedAnswer) -> PlacedAnswer:
        """Return the answer after the step, or the same if it cannot help."""
        return self.run(search, answer, self.costs(search)) if self.needs(search, answer) else answer


def _incomplete(search: PlacedSteps, answer: PlacedAnswer) -> bool:
    return not search.complete(answer)


def _can_be_tightened(search: PlacedSteps, answer: PlacedAnswer) -> bool:
    """Return whether pods without further rules are left, and the engine searches."""
    searches = _incomplete(search, answer) and search.options.strategy.searches and not search.stop.is_set()
    return searches and search.tight is not None and not search.tight.constrained


def _early_fraction(search: PlacedSteps) -> float:
    """Return the larger fraction of time if not all pods can fit."""
    scarce = short(search.cluster, search.eligibility) or (search.tight is not None and search.tight.all.full)
    return search.parameters.tighten_fraction if scarce else search.parameters.early_tighten_fraction


def _repair_fraction(search: PlacedSteps) -> float:
    return search.parameters.repair_fraction if search.cluster.devices is None else search.parameters.device_repair_fraction


BOUND: Final = PlacedStep(
    PlacedSteps.bound,
    needs=lambda *_: True,
    costs=lambda search: search.budget(search.parameters.relax_fraction, search.parameters.relax_seconds),
    guarantees="Bounds of a linear relaxation, in whole gangs.",
)
EXACTLY: Final = PlacedStep(
    PlacedSteps.fill_exactly,
    needs=lambda *_: True,
    costs=lambda search: search.budget(search.parameters.fill_fraction),
    guarantees="Nodes filled to the last unit, if there is almost no slack.",
)
TIGHTEN: Final = PlacedStep(
    PlacedSteps.tighten,
    needs=lambda search, _: search.tight is not None,
    costs=lambda search: search.budget(search.parameters.tighten_fraction),
    guarantees="Bounds of node patterns, and the chosen pods packed as they allow.",
)
SHARES: Final = PlacedStep(
    PlacedSteps.fill,
    needs=lambda search, answer: search.cluster.devices is not None and _incomplete(search, answer),
    costs=lambda search: search.budget(search.parameters.fill_fraction),
    guarantees="Nodes with shared devices refilled.",
)
REPAIR: Final = PlacedStep(
    PlacedSteps.repair,
    needs=_incomplete,
    costs=lambda search: search.budget(_repair_fraction(search)),
    guarantees="No gain by insertions within the patience.",
)
GANGS: Final = PlacedStep(
    PlacedSteps.pack,
    needs=_incomplete,
    costs=lambda search: search.budget(search.parameters.pack_fraction),
    guarantees="Each unplaced gang was tried alone, except in instances that an exact model solves faster.",
)
EXACT: Final = PlacedStep(
    PlacedSteps.exact,
    needs=lambda search, _: search.options.strategy.takes_whole(search.pairs, search.parameters.exact_limit),
    costs=lambda search: search.deadline.remaining(),
    guarantees="The bounds of CP-SAT on the whole model, and its encoding.",
)
NEIGHBOURHOODS: Final = PlacedStep(
    PlacedSteps.neighbourhoods,
    needs=lambda *_: True,
    costs=lambda search: search.budget(0.9 if search.objective.empty else 0.5),
    guarantees="The unplaced pods were tried on a few nodes at a time.",
)
#: The steps of every engine, in this order.
CONSTRUCTION: Final = (
    replace(BOUND, needs=lambda search, _: short(search.cluster, search.eligibility)),
    EXACTLY,
    replace(TIGHTEN, needs=_can_be_tightened, costs=lambda search: search.budget(_early_fraction(search))),
    SHARES,
    REPAIR,
    GANGS,
    replace(BOUND, needs=lambda search, answer: _incomplete(search, answer) and not search.stop.is_set()),
)


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
