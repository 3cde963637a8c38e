"""The order of a plan: accepted steps, one after the other, from the start to a placement.

A greedy pass takes direct steps. If moves wait for each other in a cycle, a pod makes a stopover on a spare
node. Small instances are then searched for the fewest steps, which also decides whether an order exists at all.
Orders within the plan's wave limit are preferred to shorter ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.sequencing.astar import MAX_VERDICTS, OrderSearch
from kubestow.solver.rebalance.sequencing.confinement import Confinement, DeadlockStudy
from kubestow.solver.rebalance.sequencing.deadlocks import break_deadlocks, waiting_in_cycle
from kubestow.solver.rebalance.sequencing.dependencies import Dependencies
from kubestow.solver.rebalance.sequencing.disruption_budgets import respect_budgets
from kubestow.solver.rebalance.sequencing.effort import Effort
from kubestow.solver.rebalance.sequencing.greedy_pass import GreedyPass
from kubestow.solver.rebalance.sequencing.remaining_moves import RemainingMoves
from kubestow.solver.rebalance.waves.wave_limit import fits
from kubestow.solver.runtime.run_context import RunContext

#: Largest lower bound on the steps for which the fewest steps are searched.
MAX_EXHAUSTIVE_STEPS = 40
#: (node, class) verdicts of the first search for the fewest steps. It decides most small cases at once.
MAX_QUICK_VERDICTS = 200_000
#: (class, node) pairs up to which few classes are searched separately. Each such search compiles all rules
#: again.
MAX_CONFINED_CELLS = 200_000
#: Fraction of the time for these searches.
CONFINED_TIME_FRACTION = 0.4


@dataclass
class OrderResult:
    """The result of a search for an order.

    Attributes:
        steps: Accepted steps from the start to the placement, or None.
        fewest: True if it is proved that no sequence has fewer steps.
        exhausted: True if it is proved that no sequence exists, within ``steps_at_most`` and the plan's limits
            if given.
        stuck: Moves of classes that wait for each other when the greedy pass ends, if there are no steps.
        confined: Classes that alone prove that there is no sequence, or none without stopovers.
    """

    steps: list[Step] | None
    fewest: bool = False
    exhausted: bool = False
    stuck: list[Step] = field(default_factory=list)
    confined: list[Confinement] = field(default_factory=list)


def order(
    problem: RebalanceProblem,
    target: Ints,
    context: RunContext,
    *,
    seconds: float,
    steps_at_most: int | None = None,
) -> OrderResult:
    """Find a sequence of accepted steps from ``problem.start`` to ``target``.

    A pending pod is bound once, on its node of the target. Gangs are bound whole, with consecutive steps.

    Args:
        target: Running pods after the sequence, int64[G, N]. Movable classes have as many pods as at the start,
            or fewer if some are evicted. Pending classes have the pods to be bound. All others are unchanged.
        seconds: Time limit; counted work in a deterministic run.
        steps_at_most: Limit on steps, counted by pods, bindings and evictions included.
    """
    effort = Effort(context, seconds, problem.cluster.n_nodes)
    result = _Ordering(problem, target, effort, steps_at_most).run()
    context.deadline.charge(effort.spent())
    if result.steps and problem.evictable.any():
        steps = respect_budgets(problem, result.steps)
        return OrderResult(steps, fewest=result.fewest and steps is not None, stuck=result.stuck, confined=result.confined)
    return result


class _Ordering:
    """One search for a sequence, without regard to PodDisruptionBudgets.

    Attributes:
        best: The best steps found, or None.
        stuck: Moves that wait for each other in a cycle when the first greedy pass ends.
        waiting: All moves that remain at that point.
        study: Proofs about the end state from a few classes.
    """

    def __init__(self, problem: RebalanceProblem, target: Ints, effort: Effort, steps_at_most: int | None) -> None:
        self.problem, self.target, self.effort = problem, target, effort
        self.remaining = RemainingMoves(problem, target, steps_at_most)
        self.needed, self.max_detours = self.remaining.required_steps, self.remaining.most_detours()
        self.best: list[Step] | None = None
        self.stuck: list[Step] = []
        self.waiting: list[Step] = []

    def run(self) -> OrderResult:
        problem, remaining = self.problem, self.remaining
        if self.max_detours is not None and self.max_detours < 0:
            return OrderResult(None, exhausted=True, stuck=waiting_in_cycle(remaining.moves()))
        if not self.needed:
            return OrderResult([], fewest=True)
        self.state = PlanState(problem)
        if not all(face.attainable(problem, self.state.counts, self.target) for face in self.state.faces):
            return OrderResult(None, exhausted=True, stuck=remaining.moves())
        self.links = Dependencies(problem.cluster, self.state.faces)
        self.study = DeadlockStudy(problem, self.state, self.target, lambda: self.effort.over(CONFINED_TIME_FRACTION))
        self._attempt()
        if self._direct:
            return OrderResult(self.best, fewest=True)
        if problem.start.size <= MAX_CONFINED_CELLS:
            self.study.run(self.waiting)
        return self._proved() or self._few() or self._result()

    def _rank(self, steps: list[Step]) -> tuple[bool, int]:
        """Return the rank of a sequence, lower is better. For long ones, moves beyond the wave limit are dropped later."""
        return self.needed <= MAX_EXHAUSTIVE_STEPS and not fits(self.problem, steps), count_pods(steps)

    @property
    def _direct(self) -> bool:
        return self.best is not None and self._rank(self.best) == (False, self.needed)

    def _attempt(self) -> None:
        greedy = GreedyPass(self.problem, self.state, self.remaining, self.links, lambda: self.effort.over(1.0))
        direct = greedy.run()
        if not direct:
            self.waiting = self.remaining.moves()
            self.stuck = waiting_in_cycle(self.waiting)
        reached = direct or break_deadlocks(greedy)
        greedy.undo()
        if reached:
            self.best = greedy.steps

    def _proved(self) -> OrderResult | None:
        """Return the result that the study of a few classes proves, or None."""
        study = self.study
        if study.excluded or (self.best is None and self.max_detours is not None and study.detours > self.max_detours):
            return self._result(exhausted=True)
        if self.best is not None and self._rank(self.best) == (False, self.needed + study.detours):
            return self._result(fewest=True)
        return None

    def _result(self, *, fewest: bool = False, exhausted: bool = False) -> OrderResult:
        steps = None if exhausted else self.best
        return OrderResult(steps, fewest=fewest, exhausted=exhausted, stuck=[] if steps else self.stuck, confined=self.study.confinements)

    def _few(self) -> OrderResult | None:
        """Return an order with the fewest steps, or a proof that there is none; None if neither is found.

        The search runs briefly, then with larger groups of classes, then at length.
        """
        if self.needed <= MAX_EXHAUSTIVE_STEPS:
            result = self._fewest(MAX_QUICK_VERDICTS)
            if result is not None:
                if result.exhausted and self.max_detours is None and self._extend():
                    result.confined = self.study.confinements
                return result
        if self.best is None:
            self._extend()
        return self._proved() or (self._fewest(MAX_VERDICTS) if self.needed <= MAX_EXHAUSTIVE_STEPS else None)

    def _extend(self) -> bool:
        """Search larger groups of classes; return True if they exclude the end state."""
        if self.problem.start.size <= MAX_CONFINED_CELLS:
            self.study.extend(self.waiting, self.remaining.moves())
        return self.study.excluded

    def _fewest(self, verdicts: int) -> OrderResult | None:
        """Search for the fewest steps; return None if the search is inconclusive."""
        problem, best = self.problem, self.best
        allowed = self.max_detours if best is None or not fits(problem, best) else count_pods(best) - self.needed - 1
        shortest = OrderSearch(problem, self.state, self.remaining, lambda: self.effort.over(0.8), verdicts).run(allowed)
        if shortest.steps is not None and (best is None or self._rank(shortest.steps) < self._rank(best)):
            best = self.best = shortest.steps
            if fits(problem, best):  # the first result has the fewest, unless gangs could be bound in another way
                return self._result(fewest=shortest.complete or len(best) == self.needed)
        if shortest.complete and (best is None or fits(problem, best)):
            return self._result(fewest=best is not None, exhausted=best is None)
        return None


def count_pods(steps: list[Step]) -> int:
    """Return the number of pods that steps move, bind and evict; a pod counts once for each of its steps."""
    return sum(step.k for step in steps)
