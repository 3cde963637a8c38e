"""What a search for a plan finds, and how it reports on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from solver.rebalance.problem.problem import Step


class ReportProgress(Protocol):
    """Progress: phase, and for a tier its name, incumbent, bound and priority."""

    def __call__(
        self, phase: str, tier: str | None = None, value: int | None = None, bound: int | None = None, *, priority: int | None = None
    ) -> None: ...


@dataclass
class PlanSearchResult:
    """``steps``: accepted one after the other; ``values``, ``bounds``: by tier, in the order of :attr:`PlanObjective.tiers`."""

    steps: list[Step]
    values: tuple[int, ...]
    bounds: list[int]
    engine: str = "greedy"
    notes: list[str] = field(default_factory=list)
    stuck: list[Step] = field(default_factory=list)  # moves that wait for each other on the way to a better end
