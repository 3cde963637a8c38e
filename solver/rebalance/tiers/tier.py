"""The interface of all kinds of tiers. All tiers are maximised; costs are negative."""

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

    Attributes:
        name: Name in documents.
        goal: The goal that the tier belongs to; "" for none.
        priority: Priority of the pods that it counts; None: all.
    """

    name: ClassVar[str]
    goal: ClassVar[str] = ""
    priority: int | None = None

    @abstractmethod
    def value(self, measures: Measures, end: EndState) -> int:
        """Return the tier's value in an end state."""

    def bound(self, measures: Measures) -> int:
        """Return an upper bound that is known before any search."""
        return 0

    @abstractmethod
    def encode(self, measures: Measures, rules: TargetRules) -> Points:
        """Return the tier's value as a sum over the model of end states, to be maximised.

        The model gets the variables and constraints that the sum needs. For a part of the cluster, the sum
        leaves out the constant contribution of the remainder.
        """

    def per_move(self, problem: RebalanceProblem) -> int:
        """Return a lower bound on the loss of value per move beyond those that an end state's counts require."""
        return 0
