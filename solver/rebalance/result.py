"""What a search for a plan finds."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubestow.solver.rebalance.problem.problem import Step


@dataclass
class PlanSearchResult:
    """``steps``: accepted one after the other; ``values``: by tier, in the order of :attr:`PlanObjective.tiers`; ``bounds``: that no plan
    exceeds, given the values of the tiers before. ``stuck``: moves that wait for each other on the way to a better end."""

    steps: list[Step]
    values: tuple[int, ...]
    bounds: list[int]
    engine: str = "greedy"
    notes: list[str] = field(default_factory=list)
    stuck: list[Step] = field(default_factory=list)

    @property
    def proved(self) -> bool:
        """Whether every tier reaches its bound."""
        return all(value >= bound for value, bound in zip(self.values, self.bounds, strict=True))
