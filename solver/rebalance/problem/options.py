"""What the caller of a rebalancing may choose."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.execution.execution_grace import NO_HISTORY, History, Rule
from kubestow.solver.runtime.options import Options


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """``goals``: in order of weight; ``drain``: nodes by name or label selector, which come first of all; ``options``: of the search.

    ``history``: what is known of the time before. ``forgiven``: the broken rules that do not count for that reason, each with its pod;
    ``excused``: by pod, the filters that it breaks by such rules alone (:func:`kubestow.solver.rebalance.excused_filters.excuse` fills in
    both). ``anchors``: pods that are looked at though they may not move and have no rules for others.
    """

    goals: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    options: Options = field(default_factory=Options)
    history: History = NO_HISTORY
    forgiven: Collection[tuple[int, Rule]] = ()
    excused: Mapping[int, frozenset[str]] = field(default_factory=dict)
    anchors: Collection[int] = ()

    def __post_init__(self) -> None:
        for name, value in (("goals", self.goals), ("drain", self.drain)):
            if isinstance(value, str):
                raise ValueError(f"{name} must be a tuple of names, not the text {value!r}")
