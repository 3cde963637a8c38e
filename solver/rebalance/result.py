"""The result of a search for a plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubestow.solver.rebalance.problem.problem import Step


@dataclass
class PlanSearchResult:
    """The result of a search for a plan.

    Attributes:
        steps: An accepted sequence of steps.
        values: Value of each tier, in the order of :attr:`PlanObjective.tiers`.
        bounds: Upper bound on each tier, given the values of the earlier tiers.
        stuck: Moves that wait for each other on the way to a better end state.
    """

    steps: list[Step]
    values: tuple[int, ...]
    bounds: list[int]
    engine: str = "greedy"
    notes: list[str] = field(default_factory=list)
    stuck: list[Step] = field(default_factory=list)

    @property
    def proved(self) -> bool:
        """True if every tier reaches its bound."""
        return all(value >= bound for value, bound in zip(self.values, self.bounds, strict=True))
