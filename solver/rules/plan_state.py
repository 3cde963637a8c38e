"""The state of a plan as the rules see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube.selectors import Bools


class PlanStep(Protocol):
    """One pod of class ``g`` goes from node ``a`` (-1: pending) to node ``b`` (-1: evicted)."""

    @property
    def g(self) -> int: ...
    @property
    def a(self) -> int: ...
    @property
    def b(self) -> int: ...


class PlanProblem(Protocol):
    """The part of a plan's problem that rules read, see kubestow.solver.rebalance.problem.problem.RebalanceProblem."""

    cluster: Cluster
    start: Ints
    evictable: Bools
    extra: Ints

    @property
    def room(self) -> Ints: ...


@dataclass(frozen=True)
class PlanPods:
    """The pods of a plan's state. The arrays are those of the state.

    Attributes:
        problem: The problem of the plan.
        counts: Running pods now, int64[G, N].
        arrived: Running pods that steps placed, int64[G, N].
    """

    problem: PlanProblem
    counts: Ints
    arrived: Ints
