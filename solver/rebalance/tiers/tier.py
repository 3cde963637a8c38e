"""What every kind of tier offers. All tiers are maximised; costs are negative."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.rebalance.problem.end_state import EndState
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.target.rules import TargetRules
from kubestow.solver.rebalance.tiers.measures import Measures


@dataclass(frozen=True)
class Tier(ABC):
    """One line of a plan's objective.

    ``name`` is its name in documents, ``goal`` the goal that it speaks of ("" for none). ``priority``: of the pods that it is about (None:
    all).
    """

    name: ClassVar[str]
    goal: ClassVar[str] = ""
    priority: int | None = None

    @abstractmethod
    def value(self, measures: Measures, end: EndState) -> int:
        """Return the tier's value in an end state."""

    def bound(self, measures: Measures) -> int:
        """Return a value that no plan exceeds and that is known before any search."""
        return 0

    @abstractmethod
    def encode(self, measures: Measures, rules: TargetRules) -> Points:
        """Return the tier's value as a sum over the model of end states, to be maximised; adds what it needs to the model. For a part of
        the cluster the sum is the value up to what the rest adds."""

    def per_move(self, problem: RebalanceProblem) -> int:
        """Return what one more move than the counts of an end state ask for takes away at least."""
        return 0
