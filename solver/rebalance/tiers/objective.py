"""What a plan is worth: its tiers in order of weight, and their values in the state that it leads to.

The last two, evictions and moves, prefer the plan that disrupts least.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.rebalance.problem.end_state import EndState
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.target.rules import TargetRules
from kubestow.solver.rebalance.tiers.freed import Freed
from kubestow.solver.rebalance.tiers.improvement import Improvement
from kubestow.solver.rebalance.tiers.measures import Measures
from kubestow.solver.rebalance.tiers.pods import BrokenRules, Drained, Evictions, Moves, Placed
from kubestow.solver.rebalance.tiers.tier import Tier

#: Goals of one tier each; `admit` has two for each priority.
_TIER_OF: dict[str, type[Tier]] = {tier.goal: tier for tier in (BrokenRules, Freed, Improvement)}


def tiers(problem: RebalanceProblem, goals: Iterable[str]) -> list[Tier]:
    """Return the tiers of the goals in their order, those of a drain before them. Evictions count by priority, the highest first, and have
    no tiers where no pod may be evicted."""
    found: list[Tier] = [Drained()] if problem.drain else []
    priority = problem.cluster.priority
    evicted, waiting = (set(priority[mask].tolist()) for mask in (problem.evictable, problem.pending))
    for goal in dict.fromkeys(goals):
        if goal == "admit":
            for p in sorted(evicted | waiting, reverse=True):
                found += [*([Evictions(p)] if p in evicted else []), *([Placed(p)] if p in waiting else [])]
        else:
            found.append(_TIER_OF[goal]())
    if evicted and not any(isinstance(tier, Evictions) for tier in found):  # before all that no pod is evicted for
        after = max((i + 1 for i, tier in enumerate(found) if isinstance(tier, Drained | BrokenRules)), default=len(found))
        found[after:after] = [Evictions(p) for p in sorted(evicted, reverse=True)]
    return [*found, Moves()]


class PlanObjective(Measures):
    """Values of end states, int64[G, N] pods of each class on each node, from the start of one problem."""

    def __init__(self, problem: RebalanceProblem, goals: Sequence[str]) -> None:
        super().__init__(problem)
        self.tiers = tiers(problem, goals)

    def of(self, counts: Ints, state: PlanState | None = None) -> tuple[int, ...]:
        """Return the value of every tier in an end state that is reached by as few moves as its counts ask for. ``state``: with these
        counts, if there is one at hand."""
        return self._values(EndState.of(self.problem, counts, state))

    def of_steps(self, steps: Iterable[Step]) -> tuple[int, ...]:
        """Return the value of every tier for a sequence of steps from the start, stopovers included."""
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
        """Return for each tier a value that no plan exceeds: nothing left to do, everything placed, all demand on the fewest nodes."""
        return [tier.bound(self) for tier in self.tiers]

    def bound_of_moves(self, values: Sequence[int]) -> int:
        """Return a value of the last tier, moves, that no plan exceeds that reaches these values of the tiers before."""
        *before, moves = self.tiers
        assert isinstance(moves, Moves)
        return moves.bound_at(self, {tier.name: value for tier, value in zip(before, values, strict=False)})

    def encode(self, rules: TargetRules) -> list[Points]:
        """Return each tier as a sum over the model, to be maximised; for a part of the cluster up to what the rest adds.

        Raises:
            OverflowError: utilisation beyond what CP-SAT can sum.
        """
        return [tier.encode(self, rules) for tier in self.tiers]
