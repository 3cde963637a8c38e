"""What a search for a plan finds."""

from __future__ import annotations

from dataclasses import dataclass, field

from solver.rebalance.problem.problem import Step


@dataclass
class PlanSearchResult:
    """``steps``: accepted one after the other; ``values``, ``bounds``: by tier, in the order of :attr:`PlanObjective.tiers`."""

    steps: list[Step]
    values: tuple[int, ...]
    bounds: list[int]
    engine: str = "greedy"
    notes: list[str] = field(default_factory=list)
    stuck: list[Step] = field(default_factory=list)  # moves that wait for each other on the way to a better end
