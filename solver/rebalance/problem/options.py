"""What the caller of a rebalancing may choose."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.documents.rebalance_plan import Limits
from solver.runtime.options import Options


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """``goals``: in order of weight; ``drain``: nodes by name or label selector, which come first of all; ``options``: of the search."""

    goals: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        for name, value in (("goals", self.goals), ("drain", self.drain)):
            if isinstance(value, str):
                raise ValueError(f"{name} must be a tuple of names, not the text {value!r}")
