"""What the tiers of a plan measure end states by; each part is made when a tier first asks for it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.tie_break import Pack, Spread
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.problem.reachable_nodes import reach
from kubestow.solver.rebalance.tiers.packing import Packing
from kubestow.solver.rebalance.tiers.preference_bound import components_of


class Measures:
    """Preferences, balance, prices and room of one problem."""

    def __init__(self, problem: RebalanceProblem) -> None:
        self.problem = problem

    @cached_property
    def preferences(self) -> Objective:
        """The preferences of all pods."""
        return Objective(self.problem.cluster, rules.build(self.problem.cluster))

    @cached_property
    def components(self) -> Components | None:
        """Groups of classes that bound the preferences; a search makes their bounds tighter. None where they do not hold."""
        return None if self.preferences.empty else components_of(self.problem, self.preferences, self.room)

    @cached_property
    def spread(self) -> Spread:
        """How even utilisation is."""
        return Spread(self.problem.cluster)

    @cached_property
    def most_balance(self) -> int:
        """What the balance of no end state exceeds."""
        problem = self.problem
        complete = not problem.evictable.any() and not problem.pending.any()
        return self.spread.bound(problem.start, complete=complete)

    @cached_property
    def price(self) -> Ints | None:
        """int64[N]: of each node, in thousandths; None where nodes are counted.

        Raises:
            InputError: a node without a readable price.
        """
        return Pack(self.problem.cluster).price if self.problem.cluster.policy.priceLabel else None

    @cached_property
    def worth(self) -> Ints:
        """int64[N]: what a freed node counts: its price, or 1."""
        return np.ones(self.problem.cluster.n_nodes, dtype=np.int64) if self.price is None else self.price

    @cached_property
    def room(self) -> Ints:
        """int64[G, N]: the most pods of each class that a node can come to hold
        (:func:`kubestow.solver.rebalance.problem.reachable_nodes.reach`)."""
        return reach(self.problem, rules.build(self.problem.cluster))

    @cached_property
    def packing(self) -> Packing:
        """Which nodes can be free at once."""
        return Packing(self.problem, self.room)

    @cached_property
    def enough(self) -> int:
        """Free nodes that are as good as more of them."""
        most = self.problem.limits.maxFreed
        return self.problem.cluster.n_nodes if most is None else int(self.freed(self.problem.start).sum()) + most

    def freed(self, counts: Ints) -> Bools:
        """Return bool[N]: the nodes that run nothing but DaemonSet and static pods, of those that consolidation may free."""
        return np.asarray(self.problem.freeable & ~counts[self.problem.movable | self.problem.pending].any(axis=0))
