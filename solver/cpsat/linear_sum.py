"""A weighted sum over variables of a CP-SAT model, under construction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kubestow.solver.ortools import cp_model

#: Sums of integer products stay below this, so that sums over a few of them cannot overflow 64 bits.
MAX_SUM = 2**60
MAX_MODEL_SUM = MAX_SUM // 4  #: Rows and objectives of a model stay below this, so that CP-SAT can sum them safely.


class Encodes(Protocol):
    """The part of :class:`kubestow.solver.cpsat.model.PlacementModel` that objectives use."""

    model: cp_model.CpModel
    x: dict[tuple[int, int], cp_model.IntVar]

    def classes_on(self, n: int) -> list[int]: ...

    @staticmethod
    def weighted_sum(variables: Sequence[cp_model.IntVar], weights: Sequence[int]) -> cp_model.LinearExprT: ...


class Points:
    """A weighted sum under construction.

    Attributes:
        variables: Variables of the terms. They may repeat.
        least: Lower bound of the sum without the constant.
        most: Upper bound of the sum without the constant.
    """

    def __init__(self) -> None:
        self.constant = 0
        self.variables: list[cp_model.IntVar] = []
        self.weights: list[int] = []
        self.least = self.most = 0

    def add(self, variable: cp_model.IntVar, weight: int, low: int, high: int) -> None:
        if weight:
            self.variables.append(variable)
            self.weights.append(weight)
            self.least += min(weight * low, weight * high)
            self.most += max(weight * low, weight * high)

    def extend(self, other: Points, factor: int = 1) -> None:
        """Add another sum times a positive factor."""
        self.constant += factor * other.constant
        self.variables += other.variables
        self.weights += [factor * w for w in other.weights]
        self.least += factor * other.least
        self.most += factor * other.most

    def value(self, solution: Sequence[int]) -> int:
        """Return the value of the sum in a solution (values by variable index)."""
        return self.constant + sum(w * solution[v.index] for v, w in zip(self.variables, self.weights, strict=True))

    def expression(self) -> cp_model.LinearExprT:
        return cp_model.LinearExpr.weighted_sum(self.variables, self.weights) + self.constant
