"""The measures that the tiers of a plan share. Each is computed on first use."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.tie_break import PackStrategy, SpreadStrategy
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.problem.reachable_nodes import reach
from kubestow.solver.rebalance.tiers.packing import FreedNodesProgram
from kubestow.solver.rebalance.tiers.preference_bound import components_of


class Measures:
    """Preferences, balance, prices and capacity of one problem."""

    def __init__(self, problem: RebalanceProblem) -> None:
        self.problem = problem

    @cached_property
    def preferences(self) -> Objective:
        """The preferences of all pods."""
        return Objective(self.problem.cluster, rules.build(self.problem.cluster))

    @cached_property
    def components(self) -> Components | None:
        """Groups of classes that bound the preferences; a search tightens their bounds. None if the bounds do not hold."""
        return None if self.preferences.empty else components_of(self.problem, self.preferences, self.room)

    @cached_property
    def spread(self) -> SpreadStrategy:
        """The measure of even utilisation."""
        return SpreadStrategy(self.problem.cluster)

    @cached_property
    def most_balance(self) -> int:
        """An upper bound on the balance of any end state."""
        problem = self.problem
        complete = not problem.evictable.any() and not problem.pending.any()
        return self.spread.bound(problem.start, complete=complete)

    @cached_property
    def price(self) -> Ints | None:
        """Price of each node in thousandths, int64[N]; None if nodes are counted instead.

        Raises:
            InputError: A node has no readable price.
        """
        return PackStrategy(self.problem.cluster).price if self.problem.cluster.policy.priceLabel else None

    @cached_property
    def node_value(self) -> Ints:
        """Value of each freed node: its price, or 1; int64[N]."""
        return np.ones(self.problem.cluster.n_nodes, dtype=np.int64) if self.price is None else self.price

    @cached_property
    def room(self) -> Ints:
        """The most pods of each class that a node can ever hold, int64[G, N]
        (:func:`kubestow.solver.rebalance.problem.reachable_nodes.reach`).
        """
        return reach(self.problem, rules.build(self.problem.cluster))

    @cached_property
    def packing(self) -> FreedNodesProgram:
        """The bounds on nodes that can be free at once."""
        return FreedNodesProgram(self.problem, self.room)

    @cached_property
    def enough(self) -> int:
        """The number of free nodes beyond which more are worth nothing."""
        max_freed = self.problem.limits.maxFreed
        return self.problem.cluster.n_nodes if max_freed is None else int(self.freed(self.problem.start).sum()) + max_freed

    def freed(self, counts: Ints) -> Bools:
        """Return the freeable nodes that run only DaemonSet and static pods, bool[N]."""
        return np.asarray(self.problem.freeable & ~counts[self.problem.movable | self.problem.pending].any(axis=0))
