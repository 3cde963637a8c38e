"""The most units that fit, with a bound."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_
from kubestow.solver.capacity.fit.question import Ceiling, Instance, Question
from kubestow.solver.capacity.fit.trial import Trial, Verdict
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.placed_tiers import PlacedSearch
from kubestow.solver.runtime.run_context import RunContext

#: The share of the time that is left for one number of units.
TRIAL = 0.5
#: Seconds that a part of the work gets at least.
SHORT = 0.05


@dataclass
class Most:
    """``units`` fit, as ``sequence`` has them (class, node, pods; classes of ``instance``), and no more than ``bound`` do."""

    units: int
    bound: int
    instance: Instance | None = None
    sequence: Sequence_ = field(default_factory=list)
    engine: str = "greedy"


def most(question: Question, ceiling: Ceiling, context: RunContext) -> Most:
    """Return the most units that fit."""
    if _by_replicas(question):
        found = _replicas(question, ceiling, context)
        if found is not None:
            found.instance = question.at(found.units) if found.units else None
            assert found.instance is None or found.instance.alike(), "fewer of pods that are alike are alike"
            return found
    return _Units(question, ceiling.units, None, 0, context).run()


def range_of(question: Question, ceiling: Ceiling, start: int, floor: int, context: RunContext) -> tuple[int, int]:
    """Return how many units fit, and that no more than so many do. ``start``: where a search over numbers of units begins; ``floor``: so
    many are known to fit."""
    found = _replicas(question, ceiling, context) if _by_replicas(question) else None
    if found is None:
        found = _Units(question, ceiling.units, start, floor, context).run()
    return max(floor, found.units), max(floor, found.bound)


def _by_replicas(question: Question) -> bool:
    """Return whether the number of replicas of a template is found at once."""
    zones = question.keep is not None and question.keep.of == "zone"
    return len(question.templates) == 1 and not question.whole and not zones


def _replicas(question: Question, ceiling: Ceiling, context: RunContext) -> Most | None:
    """Of pods that are all alike the most that can be placed: the first of them in their bind order are a placement of fewer. None where
    they are not alike."""
    if ceiling.units <= 0:
        return Most(0, 0)
    full = question.at(ceiling.units)
    if not full.alike() or len(full.scope.pending) != len(full.new[0]):
        return None
    cluster = full.cluster
    active = rules.build(cluster)
    limited = context.part(max(SHORT, context.deadline.left()))
    search = PlacedSearch(Objective(cluster, active), active, full.limits, limited)
    answer = search.run()
    context.deadline.charge(limited.deadline.elapsed())
    placed = int(answer.counts.sum())
    bound = max(placed, sum(answer.bounds.values()))
    return Most(placed, bound, None, [(0, n, k) for _, n, k in answer.sequence], answer.engine)


class _Units:
    """A search over numbers of units, each of them placed whole or not: up and down between what fits and what does not, then every number
    up to the bound, since one more may fit where one does not (the pods of another template can be in need of it)."""

    def __init__(self, question: Question, ceiling: int, start: int | None, floor: int, context: RunContext) -> None:
        self.question, self.context = question, context
        self.best = Most(min(floor, ceiling), ceiling)
        self.tried: dict[int, Verdict] = {}
        self.start = ceiling if start is None else max(1, min(start, ceiling))

    def run(self) -> Most:
        """Return the most units."""
        k = self.start if self.best.units < self.best.bound else None
        while k is not None and not self.context.over():
            self._try(k)
            k = self._next(k)
        open_ = [k for k in range(self.best.units + 1, self.best.bound + 1) if k not in self.tried or not self.tried[k].refuted]
        self.best.bound = max(open_, default=self.best.units)
        return self.best

    def _try(self, k: int) -> None:
        limited = self.context.part(max(SHORT, self.context.deadline.left() * TRIAL))
        instance = self.question.at(k)
        verdict = self.tried[k] = Trial(instance, limited).ask()
        self.context.deadline.charge(limited.deadline.elapsed())
        if verdict.answer is not None:
            self.best = Most(k, max(k, self.best.bound), instance, verdict.answer.sequence, verdict.answer.engine)
        elif verdict.more:
            self.best.bound = max(self.best.units, min(self.best.bound, k - 1))
        self.context.report("fit", "units", self.best.units, self.best.bound, detail=f"{len(self.tried)} numbers tried")

    def _next(self, last: int) -> int | None:
        low, bound = self.best.units, self.best.bound
        if low >= bound:
            return None
        high = min((k for k in self.tried if k > low), default=bound + 1)
        high = min(high, bound + 1)
        if high - low > 1:
            placed, wanted = self.tried[last].share
            guess = last * placed // max(1, wanted)  # as many as its pods would be units
            if last == self.start and low < last:
                return max(low + 1, min(guess, high - 1))
            return low + 1 if high - low == 2 else (low + min(self._stride(low), (high - low) // 2))
        return next((k for k in range(bound, low, -1) if k not in self.tried), None)

    def _stride(self, low: int) -> int:
        """How far to go from what fits: twice as far each time that it did."""
        return 1 << sum(1 for k, verdict in self.tried.items() if verdict.answer is not None and k <= low)
