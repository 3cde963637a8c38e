"""The options of a rebalancing run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.execution.execution_grace import NO_HISTORY, History, Rule
from kubestow.solver.runtime.options import Options


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of a rebalancing run.

    Attributes:
        goals: Goals of the plan, most important first.
        drain: Nodes to drain, by name or label selector. Draining precedes all goals.
        options: Options of the search.
        history: Earlier snapshots and grace periods.
        forgiven: Broken rules within their grace period, each with its pod. Filled in by
            :func:`kubestow.solver.rebalance.excused_filters.excuse`.
        excused: Per pod, the filters that it breaks by forgiven rules alone. Filled in by the same function.
        anchors: Pods that the problem keeps although they may not move and have no rules for others.
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
