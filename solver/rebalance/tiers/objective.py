"""The objective of a plan: its tiers in order of weight, and their values in the end state.

The last two, evictions and moves, prefer the least disruptive plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.rebalance.problem.end_state import EndState
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.target.rules import TargetRules
from kubestow.solver.rebalance.tiers.freed import FreedTier
from kubestow.solver.rebalance.tiers.improvement import ImprovementTier
from kubestow.solver.rebalance.tiers.measures import Measures
from kubestow.solver.rebalance.tiers.pods import BrokenRulesTier, DrainedTier, EvictionsTier, MovesTier, PlacedTier
from kubestow.solver.rebalance.tiers.tier import Tier

#: Goals with one tier each; `admit` has two for each priority.
_TIER_OF: dict[str, type[Tier]] = {tier.goal: tier for tier in (BrokenRulesTier, FreedTier, ImprovementTier)}


def tiers(problem: RebalanceProblem, goals: Iterable[str]) -> list[Tier]:
    """Return the tiers of the goals in order, preceded by those of a drain.

    Evictions count by priority, the highest first. They have no tiers if no pod may be evicted.
    """
    found: list[Tier] = [DrainedTier()] if problem.drain else []
    priority = problem.cluster.priority
    evicted, waiting = (set(priority[mask].tolist()) for mask in (problem.evictable, problem.pending))
    for goal in dict.fromkeys(goals):
        if goal == "admit":
            for p in sorted(evicted | waiting, reverse=True):
                found += [*([EvictionsTier(p)] if p in evicted else []), *([PlacedTier(p)] if p in waiting else [])]
        else:
            found.append(_TIER_OF[goal]())
    if evicted and not any(isinstance(tier, EvictionsTier) for tier in found):  # before the tiers that no pod is evicted for
        after = max((i + 1 for i, tier in enumerate(found) if isinstance(tier, DrainedTier | BrokenRulesTier)), default=len(found))
        found[after:after] = [EvictionsTier(p) for p in sorted(evicted, reverse=True)]
    return [*found, MovesTier()]


class PlanObjective(Measures):
    """The values of end states int64[G, N], from the start of one problem."""

    def __init__(self, problem: RebalanceProblem, goals: Sequence[str]) -> None:
        super().__init__(problem)
        self.tiers = tiers(problem, goals)

    def of(self, counts: Ints, state: PlanState | None = None) -> tuple[int, ...]:
        """Return the value of every tier in an end state that is reached by the fewest moves.

        Args:
            state: The plan state with these counts, if it exists already.
        """
        return self._values(EndState.of(self.problem, counts, state))

    def of_steps(self, steps: Iterable[Step]) -> tuple[int, ...]:
        """Return the value of every tier after a sequence of steps from the start, stopovers included."""
        state, moves, cost = PlanState(self.problem), 0, 0
        for step in steps:
            state.apply(step)
            if step.a >= 0 and step.b >= 0:
                moves += step.k
                cost += step.k * int(self.problem.cost[step.g])
        return self._values(EndState(self.problem, state.counts, moves, cost, state))

    def _values(self, end: EndState) -> tuple[int, ...]:
        return tuple(tier.value(self, end) for tier in self.tiers)

    def bounds(self) -> list[int]:
        """Return an upper bound on each tier: no work left, all pods placed, all demand on the fewest nodes."""
        return [tier.bound(self) for tier in self.tiers]

    def bound_of_moves(self, values: Sequence[int]) -> int:
        """Return an upper bound on the last tier, moves, given the values of the earlier tiers."""
        *before, moves = self.tiers
        assert isinstance(moves, MovesTier)
        return moves.bound_at(self, {tier.name: value for tier, value in zip(before, values, strict=False)})

    def encode(self, rules: TargetRules) -> list[Points]:
        """Return each tier as a sum over the model, to be maximised.

        For a part of the cluster, the sums leave out the constant contribution of the remainder.

        Raises:
            OverflowError: Utilisation exceeds the numbers that CP-SAT can sum.
        """
        return [tier.encode(self, rules) for tier in self.tiers]
