"""What a plan is worth: its tiers in order of weight, and their values in the state that it leads to.

All tiers are maximised; costs are negative. The last two, evictions and moves, prefer the plan that disrupts least.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from models.cluster.cluster import Ints
from models.kube.selectors import Bools
from solver import rules
from solver.objective.preferences import Objective
from solver.objective.tie_break import Pack, Spread
from solver.rebalance.problem.problem import RebalanceProblem, Step
from solver.rebalance.problem.reachable_nodes import reach
from solver.rebalance.problem.state import PlanState

#: Units of balance that are worth one weighted point of preferences.
POINT = 100


@dataclass(frozen=True, slots=True)
class Tier:
    """``name``: drained, rules, evictions, placed, freed, improve or moves; ``priority``: of the pods that it is about (None: all)."""

    name: str
    priority: int | None = None


def tiers(problem: RebalanceProblem, goals: Iterable[str]) -> list[Tier]:
    """The tiers of the goals in their order, those of a drain before them. Evictions count by priority, the highest first, and have no
    tiers where no pod may be evicted."""
    found = [Tier("drained")] if problem.drain else []
    priority = problem.cluster.priority
    for goal in dict.fromkeys(goals):
        if goal == "admit":
            for p in sorted({*priority[problem.pending].tolist(), *priority[problem.evictable].tolist()}, reverse=True):
                if (problem.evictable & (priority == p)).any():
                    found.append(Tier("evictions", p))
                if (problem.pending & (priority == p)).any():
                    found.append(Tier("placed", p))
        else:
            found.append(Tier({"repair": "rules", "consolidate": "freed", "improve": "improve"}[goal]))
    if problem.evictable.any() and not any(tier.name == "evictions" for tier in found):  # before all that no pod is evicted for
        after = max((i + 1 for i, tier in enumerate(found) if tier.name in ("drained", "rules")), default=len(found))
        found[after:after] = [Tier("evictions", p) for p in sorted(set(priority[problem.evictable].tolist()), reverse=True)]
    return [*found, Tier("moves")]


class PlanObjective:
    """Values of end states, int64[G, N] pods of each class on each node, from the start of one case."""

    def __init__(self, problem: RebalanceProblem, goals: Sequence[str]) -> None:
        self.problem = problem
        self.tiers = tiers(problem, goals)

    # Only some goals need these.

    @cached_property
    def objective(self) -> Objective:
        """The preferences of all pods of the case."""
        return Objective(self.problem.cluster, rules.build(self.problem.cluster))

    @cached_property
    def spread(self) -> Spread:
        """The balance."""
        return Spread(self.problem.cluster)

    @cached_property
    def price(self) -> Ints | None:
        """int64[N]: of each node, in thousandths; None where nodes are counted.

        Raises:
            InputError: a node without a readable price.
        """
        asked = self.problem.cluster.policy.priceLabel and any(tier.name == "freed" for tier in self.tiers)
        return Pack(self.problem.cluster).price if asked else None

    @cached_property
    def worth(self) -> Ints:
        """int64[N]: what a freed node counts: its price, or 1."""
        return np.ones(self.problem.cluster.n_nodes, dtype=np.int64) if self.price is None else self.price

    @cached_property
    def room(self) -> Ints:
        """int64[G, N]: the most pods of each class that a node can come to hold, see
        :func:`solver.rebalance.problem.reachable_nodes.reach`."""
        return reach(self.problem, rules.build(self.problem.cluster))

    @cached_property
    def enough(self) -> int:
        """Free nodes that are as good as more of them."""
        most = self.problem.limits.maxFreed
        return self.problem.cluster.n_nodes if most is None else int(self.freed(self.problem.start).sum()) + most

    def of(self, counts: Ints, *, state: PlanState | None = None, moves: int | None = None, cost: int | None = None) -> tuple[int, ...]:
        """The value of every tier. ``state``: with these counts, if there is one at hand; ``moves``, ``cost``: moves of the plan and what
        they cost all together, where it is more than the counts ask for (stopovers)."""
        arrived = np.maximum(counts - self.problem.start, 0)
        arrived[self.problem.pending] = 0
        moves = int(arrived.sum()) if moves is None else moves
        cost = int(arrived.sum(axis=1) @ self.problem.cost) if cost is None else cost
        return tuple(self._value(tier, counts, state, moves, cost) for tier in self.tiers)

    def of_steps(self, steps: Iterable[Step]) -> tuple[int, ...]:
        """The value of every tier for a sequence of steps from the start."""
        state, moves, cost = PlanState(self.problem), 0, 0
        for step in steps:
            state.apply(step)
            if step.a >= 0 and step.b >= 0:
                moves += step.k
                cost += step.k * int(self.problem.cost[step.g])
        return self.of(state.counts, state=state, moves=moves, cost=cost)

    def _value(self, tier: Tier, counts: Ints, state: PlanState | None, moves: int, cost: int) -> int:
        problem = self.problem
        if tier.name == "drained":
            return -int(counts[np.ix_(problem.movable, problem.closed)].sum()) - len(problem.left_over)
        if tier.name == "rules":
            return -sum((state or reached(problem, counts)).broken().values())
        if tier.name == "freed":
            free = self.freed(counts)
            return min(int(free.sum()), self.enough) if self.price is None else -int(self.price[~free].sum())
        if tier.name == "improve":
            soft = self.objective.total(self.objective.families(counts))
            return POINT * (soft - problem.limits.minGain * moves) + self.spread.value(counts)
        if tier.name == "moves":
            return -cost
        chosen = problem.pending if tier.name == "placed" else problem.evictable
        if tier.priority is not None:
            chosen = chosen & (problem.cluster.priority == tier.priority)
        placed = int(counts[chosen].sum())
        return placed if tier.name == "placed" else placed - int(problem.start[chosen].sum())

    def freed(self, counts: Ints) -> Bools:
        """bool[N]: the nodes that run nothing but DaemonSet and static pods, of those that consolidation may free."""
        return np.asarray(self.problem.freeable & ~counts[self.problem.movable | self.problem.pending].any(axis=0))


def steps_to(problem: RebalanceProblem, counts: Ints) -> list[Step]:
    """Steps that lead to an end state int64[G, N] with as few moves as its counts ask for, in no order that anybody would accept."""
    found = []
    for g in np.flatnonzero((counts != problem.start).any(axis=1)).tolist():
        change = counts[g] - problem.start[g]
        away = [n for n in np.flatnonzero(change < 0).tolist() for _ in range(-int(change[n]))]
        to = [n for n in np.flatnonzero(change > 0).tolist() for _ in range(int(change[n]))]
        size = max(len(away), len(to))
        pairs = zip([*away, *[-1] * (size - len(away))], [*to, *[-1] * (size - len(to))], strict=True)
        found += [Step(g, a, b) for a, b in pairs]
    return found


def reached(problem: RebalanceProblem, counts: Ints) -> PlanState:
    """The state with these counts, int64[G, N]."""
    state = PlanState(problem)
    for step in steps_to(problem, counts):
        state.apply(step)
    return state
