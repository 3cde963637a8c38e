"""A sequence of accepted steps under construction, with the limits of the plan and undoing of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState


class MoveBuilder:
    """A sequence of accepted steps under construction.

    Attributes:
        steps: Steps so far, each accepted in the state that the earlier steps left.
        over: Returns True if time is up or a stop was requested.
    """

    def __init__(self, problem: RebalanceProblem, over: Callable[[], bool]) -> None:
        self.problem, self.state = problem, PlanState(problem)
        self.steps: list[Step] = []
        self.kept_empty = np.zeros(problem.cluster.n_nodes, dtype=bool)  # freed nodes, which stay empty
        self.over = over
        limits = problem.limits
        self._most = {
            "moves": limits.maxMoves, "evictions": limits.maxEvictions, "namespace": limits.maxMovesPerNamespace,
            "workload": limits.maxMovesPerWorkload,
        }  # fmt: skip
        self._spent: dict[tuple[str, int], int] = {}
        self._gone: dict[int, int] = {}  # by budget: pods that were evicted for good and stay missing
        weight = np.maximum(problem.cluster.allocatable.max(axis=0, initial=1), 1)
        self._share = problem.cluster.demand / weight
        self._weight = weight

    # --- limits -----------------------------------------------------------------------------------------------------------------

    def _counters(self, step: Step) -> list[tuple[str, int]]:
        """Return the counters that a step counts towards."""
        if self.problem.pending[step.g]:
            return []
        budget = self.problem.budget[step.g]
        guarded = [("budget", budget)] if budget is not None else []
        if step.b < 0:
            return [("evictions", 0), *guarded]
        spaces = ("namespace", int(self.problem.namespaces[step.g])), ("workload", int(self.problem.workloads[step.g]))
        return [("moves", 0), *spaces, *guarded]

    def within(self, g: int, *, eviction: bool = False) -> bool:
        """Return True if the limits and its PodDisruptionBudget allow one more step of the class."""
        budget = self.problem.budget[g]
        if budget is not None and self._gone.get(budget, 0) >= self.problem.budgets[budget].allowed:
            return False
        for kind, which in self._counters(Step(g, 0, -1 if eviction else 0)):
            limit = self._most[kind] if kind != "budget" else self.problem.eviction_limits.get(which)
            if limit is not None and self._spent.get((kind, which), 0) >= limit:
                return False
        return True

    # --- steps --------------------------------------------------------------------------------------------------------------------

    def take(self, step: Step) -> None:
        """Take an accepted step."""
        self.state.apply(step)
        self.steps.append(step)
        self._count(step, step.k)

    def replay(self, steps: Iterable[Step]) -> bool:
        """Take steps again, pod by pod, while they are accepted; return True if all were."""
        for step in steps:
            for _ in range(step.k):
                if step.b < 0:
                    if not (self.within(step.g, eviction=True) and self.state.may_go(step.g, step.a)):
                        return False
                elif not self.places(step.g, step.a)[step.b]:
                    return False
                self.take(Step(step.g, step.a, step.b))
        return True

    def drop_needless(self, before: int, lands: Callable[[], bool]) -> None:
        """Take back needless steps since ``before``: ``lands`` still holds and the others are still accepted."""
        made = self.steps[before:]
        for skipped in list(made):
            others = [step for step in made if step is not skipped]
            self.rewind_to(before)
            if self.replay(others) and lands():
                made = others
        if self.steps[before:] != made:
            self.rewind_to(before)
            self.replay(made)

    def rewind_to(self, length: int) -> None:
        """Take back steps until ``length`` steps remain."""
        while len(self.steps) > length:
            step = self.steps.pop()
            self.state.undo(step)
            self._count(step, -step.k)

    def _count(self, step: Step, k: int) -> None:
        for counter in self._counters(step):
            self._spent[counter] = self._spent.get(counter, 0) + k
        budget = self.problem.budget[step.g]
        if step.b < 0 and budget is not None:
            self._gone[budget] = self._gone.get(budget, 0) + k

    def size(self, g: int) -> float:
        """Return the largest fraction of a node that a pod of class g requests; used for ordering only."""
        return float(self._share[g].max(initial=0.0))

    def places(self, g: int, a: int) -> Bools:
        """Return the nodes to which a pod of class g may go from node a within the limits, bool[N]."""
        if not self.within(g):
            return np.zeros(self.problem.cluster.n_nodes, dtype=bool)
        return np.asarray(self.state.landing(g, a) & ~self.kept_empty)

    def running(self, n: int) -> list[int]:
        """Return the movable classes with pods on a node, one entry per pod, the largest first."""
        counts = self.state.counts[:, n]
        here = np.flatnonzero((counts > 0) & self.problem.movable).tolist()
        return [g for g in sorted(here, key=lambda g: (-self.size(g), g)) for _ in range(int(counts[g]))]

    def tightest(self, g: int, mask: Bools, bias: Ints | None = None) -> int:
        """Return the node of a mask that a pod of class g fills most (best fit).

        Args:
            bias: Values that take precedence, the highest first, int64[N].
        """
        nodes = np.flatnonzero(mask)
        residual = (self.state.fit.free[nodes] / self._weight).sum(axis=1)
        if bias is not None:
            return int(nodes[np.lexsort((residual, -bias[nodes]))[0]])
        return int(nodes[np.argmin(residual)])
