"""The search for the most units that fit, with an upper bound."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_
from kubestow.solver.capacity.fit.question import Ceiling, FitInstance, FitQuestion
from kubestow.solver.capacity.fit.trial import FitTrial, FitVerdict
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.placed_tiers import PlacedSearch
from kubestow.solver.runtime.run_context import RunContext

#: Fraction of the remaining time for one number of units.
TRIAL_TIME_FRACTION = 0.5


@dataclass
class UnitsFound:
    """The best known number of units, and its bound.

    Attributes:
        units: Units that fit.
        bound: Upper bound on units.
        instance: The compiled cluster with these units.
        sequence: Their placement as (class, node, pods) in bind order, in classes of ``instance``.
        engine: Name of the engine that found the placement.
    """

    units: int
    bound: int
    instance: FitInstance | None = None
    sequence: Sequence_ = field(default_factory=list)
    engine: str = "greedy"

    def counts(self, cluster: Cluster) -> Ints:
        """Return the placement as int64[G, N]."""
        counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
        for g, n, k in self.sequence:
            counts[g, n] += k
        return counts


def most_units(question: FitQuestion, ceiling: Ceiling, context: RunContext) -> UnitsFound:
    """Return the most units that fit."""
    if _by_replicas(question):
        outcome = _replicas(question, ceiling, context)
        if outcome is not None:
            outcome.instance = question.at(outcome.units) if outcome.units else None
            assert outcome.instance is None or outcome.instance.alike(), "fewer of pods that are alike are alike"
            return outcome
    return _Units(question, ceiling.units, None, 0, context).run()


def range_of(question: FitQuestion, ceiling: Ceiling, start: int, floor: int, context: RunContext) -> tuple[int, int]:
    """Return the number of units that fit, and an upper bound.

    Args:
        start: First number of units that the search tries.
        floor: Number of units that are known to fit.
    """
    outcome = _replicas(question, ceiling, context) if _by_replicas(question) else None
    if outcome is None:
        outcome = _Units(question, ceiling.units, start, floor, context).run()
    return max(floor, outcome.units), max(floor, outcome.bound)


def _by_replicas(question: FitQuestion) -> bool:
    """Return True if one search finds the number of replicas, without trying several numbers of units."""
    zones = question.keep is not None and question.keep.of == "zone"
    return len(question.templates) == 1 and not question.whole and not zones


def _replicas(question: FitQuestion, ceiling: Ceiling, context: RunContext) -> UnitsFound | None:
    """Return the most replicas of a template whose pods are all of one class; None if they are not.

    The first pods in bind order are a placement of fewer.
    """
    if ceiling.units <= 0:
        return UnitsFound(0, 0)
    full = question.at(ceiling.units)
    if not full.alike() or len(full.scope.pending) != len(full.new[0]):
        return None
    cluster = full.cluster
    active = rules.build(cluster)
    with context.charged(1.0) as limited:
        answer = PlacedSearch(Objective(cluster, active), active, full.eligibility, limited).run()
    placed = int(answer.counts.sum())
    bound = max(placed, sum(answer.bounds.values()))
    return UnitsFound(placed, bound, None, [(0, n, k) for _, n, k in answer.sequence], answer.engine)


class _Units:
    """A search over numbers of units, each of which is placed whole or not.

    It brackets the answer between numbers that fit and numbers that do not. Then it tries every number up to
    the bound: one more unit may fit even if another number does not, because pods of one template may depend
    on those of another.
    """

    def __init__(self, question: FitQuestion, ceiling: int, start: int | None, floor: int, context: RunContext) -> None:
        self.question, self.context = question, context
        self.best = UnitsFound(min(floor, ceiling), ceiling)
        self.tried: dict[int, FitVerdict] = {}
        self.start = ceiling if start is None else max(1, min(start, ceiling))

    def run(self) -> UnitsFound:
        """Return the most units."""
        k = self.start if self.best.units < self.best.bound else None
        while k is not None and not self.context.over():
            self._try(k)
            k = self._next(k)
        open_ = [k for k in range(self.best.units + 1, self.best.bound + 1) if k not in self.tried or not self.tried[k].refuted]
        self.best.bound = max(open_, default=self.best.units)
        return self.best

    def _try(self, k: int) -> None:
        with self.context.charged(TRIAL_TIME_FRACTION) as limited:
            instance = self.question.at(k)
            verdict = self.tried[k] = FitTrial(instance, limited).ask()
        if verdict.answer is not None:
            self.best = UnitsFound(k, max(k, self.best.bound), instance, verdict.answer.sequence, verdict.answer.engine)
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
            guess = last * placed // max(1, wanted)  # assumes that a unit needs its proportion of the pods placed
            if last == self.start and low < last:
                return max(low + 1, min(guess, high - 1))
            return low + 1 if high - low == 2 else (low + min(self._stride(low), (high - low) // 2))
        return next((k for k in range(bound, low, -1) if k not in self.tried), None)

    def _stride(self, low: int) -> int:
        """Return the step up from the largest number that fits. It doubles with each success."""
        return 1 << sum(1 for k, verdict in self.tried.items() if verdict.answer is not None and k <= low)
