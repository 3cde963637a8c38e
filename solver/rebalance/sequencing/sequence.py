"""The order of a plan: accepted steps, one after the other, from the start to a placement.

A greedy pass takes direct steps; where moves wait for each other in a circle, a pod makes a stopover on a spare place. Small instances are
then searched for the fewest steps, which decides whether there is an order at all; others are tried again in other orders. Orders that take
no more waves than the plan may take go before shorter ones.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.sequencing.astar import VERDICTS, OrderSearch
from kubestow.solver.rebalance.sequencing.confinement import Confinement, DeadlockStudy
from kubestow.solver.rebalance.sequencing.deadlocks import break_deadlocks, waiting_in_circle
from kubestow.solver.rebalance.sequencing.dependencies import Dependencies
from kubestow.solver.rebalance.sequencing.disruption_budgets import respect_budgets
from kubestow.solver.rebalance.sequencing.effort import Effort
from kubestow.solver.rebalance.sequencing.greedy_pass import GreedyPass
from kubestow.solver.rebalance.sequencing.remaining_moves import RemainingMoves
from kubestow.solver.rebalance.target.affinity_openings import openings
from kubestow.solver.rebalance.waves.within import fits
from kubestow.solver.runtime.run_context import RunContext

#: The search for the fewest steps is for placements that so many steps lead to, at least.
SMALL = 40
#: Passes in other orders, fewer where one takes long.
RESTARTS = 12
#: Passes in other orders before groups of classes that are larger than a circle are searched.
EARLY_RESTARTS = 4
#: (node, class) verdicts of a first search for the fewest steps, which decides most small cases at once.
QUICK_VERDICTS = 200_000
#: (class, node) pairs up to which few classes are searched on their own. Each such search compiles the rules of the whole cluster again.
CONFINED_CELLS = 200_000
#: Fraction of the time for that.
CONFINED_SHARE = 0.4


@dataclass
class Ordered:
    """``steps``: accepted steps from the start to the placement, or None. ``fewest``: it is proved that none that leads there
    has fewer; ``exhausted``: that there is none, within ``steps_at_most`` and the limits of the plan where these are given. ``stuck``:
    where there are no steps, moves of classes that wait for each other when the greedy pass ends. ``confined``: classes that
    alone prove that there are no steps, or that there are none without stopovers, if some were found."""

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
) -> Ordered:
    """Find a sequence of accepted steps from ``problem.start`` to ``target``, int64[G, N]: running pods after it.

    Movable classes have as many pods in the target as at the start, or fewer (the others are evicted); pending classes those that are to be
    bound; all others are where they were. Steps are counted by pods, bindings and evictions among them; ``steps_at_most`` bounds them all.
    A pending pod is bound once, where the target has it. Gangs are bound whole, their steps next to each other. ``seconds`` are of the
    clock, or counted work in a deterministic run.
    """
    effort = Effort(context, seconds, problem.cluster.n_nodes)
    found = _Ordering(problem, target, effort, steps_at_most).run()
    context.deadline.charge(effort.spent())
    if found.steps and problem.evictable.any():
        steps = respect_budgets(problem, found.steps)
        return Ordered(steps, fewest=found.fewest and steps is not None, stuck=found.stuck, confined=found.confined)
    return found


class _Ordering:
    """One search for a sequence, without regard to PodDisruptionBudgets.

    Attributes:
        best: The steps found, or None.
        stuck: Moves that wait for each other in a circle when the first greedy pass ends.
        waiting: All moves that remain then.
        study: What few classes prove of the end state.
    """

    def __init__(self, problem: RebalanceProblem, target: Ints, effort: Effort, steps_at_most: int | None) -> None:
        self.problem, self.target, self.effort = problem, target, effort
        self.remaining = RemainingMoves(problem, target, steps_at_most)
        self.needed, self.most = self.remaining.left, self.remaining.most_detours()
        self.best: list[Step] | None = None
        self.stuck: list[Step] = []
        self.waiting: list[Step] = []
        self.rng = random.Random(0)

    def run(self) -> Ordered:
        problem, remaining = self.problem, self.remaining
        if self.most is not None and self.most < 0:
            return Ordered(None, exhausted=True, stuck=waiting_in_circle(remaining.moves()))
        if not self.needed:
            return Ordered([], fewest=True)
        self.state = PlanState(problem)
        if not all(opening.allows(self.target) for opening in openings(problem, self.state.providers.rule, self.state.counts)):
            return Ordered(None, exhausted=True, stuck=remaining.moves())
        self.links = Dependencies(problem.cluster, self.state.rules)
        self.study = DeadlockStudy(problem, self.state, self.target, lambda: self.effort.over(CONFINED_SHARE))
        self._attempt(None, 1.0)
        if self._direct:
            return Ordered(self.best, fewest=True)
        if problem.start.size <= CONFINED_CELLS:
            self.study.run(self.waiting)
        return self._proved() or self._few() or self._again()

    def _rank(self, steps: list[Step]) -> tuple[bool, int]:
        """Return the order in which sequences are preferred. Of long ones, what does not fit into few waves is left out later."""
        return self.needed <= SMALL and not fits(self.problem, steps), count_pods(steps)

    @property
    def _direct(self) -> bool:
        return self.best is not None and self._rank(self.best) == (False, self.needed)

    def _attempt(self, rng: random.Random | None, share: float) -> None:
        greedy = GreedyPass(self.problem, self.state, self.remaining, self.links, lambda: self.effort.over(share), rng)
        direct = greedy.run()
        if not direct and not self.stuck:
            self.waiting = self.remaining.moves()
            self.stuck = waiting_in_circle(self.waiting)
        reached = direct or break_deadlocks(greedy)
        greedy.undo()
        if reached and (self.best is None or self._rank(greedy.steps) < self._rank(self.best)):
            self.best = greedy.steps

    def _proved(self) -> Ordered | None:
        """Return what the study of few classes decides, if it does."""
        study = self.study
        if study.excluded or (self.best is None and self.most is not None and study.detours > self.most):
            return self._result(exhausted=True)
        if self.best is not None and self._rank(self.best) == (False, self.needed + study.detours):
            return self._result(fewest=True)
        return None

    def _result(self, *, fewest: bool = False, exhausted: bool = False) -> Ordered:
        steps = None if exhausted else self.best
        return Ordered(steps, fewest=fewest, exhausted=exhausted, stuck=[] if steps else self.stuck, confined=self.study.found)

    def _few(self) -> Ordered | None:
        """Search few steps for the fewest: briefly, then with larger groups of classes, then at length."""
        if self.needed <= SMALL:
            found = self._fewest(QUICK_VERDICTS)
            if found is not None:
                if found.exhausted and self.most is None and self._extend():
                    found.confined = self.study.found
                return found
        for _ in range(EARLY_RESTARTS):
            if self.best is None and not self.effort.over(CONFINED_SHARE):
                self._attempt(self.rng, CONFINED_SHARE)
        if self.best is None:
            self._extend()
        return self._proved() or (self._fewest(VERDICTS) if self.needed <= SMALL else None)

    def _extend(self) -> bool:
        """Search larger groups of classes; return True if they exclude the end state."""
        if self.problem.start.size <= CONFINED_CELLS:
            self.study.extend(self.waiting, self.remaining.moves())
        return self.study.excluded

    def _fewest(self, verdicts: int) -> Ordered | None:
        """Search for the fewest steps; None if that decides nothing."""
        problem, best = self.problem, self.best
        allowed = self.most if best is None or not fits(problem, best) else count_pods(best) - self.needed - 1
        found = OrderSearch(problem, self.state, self.remaining, lambda: self.effort.over(0.8), verdicts).run(allowed)
        if found.steps is not None and (best is None or self._rank(found.steps) < self._rank(best)):
            best = self.best = found.steps
            if fits(problem, best):  # the first found has the fewest, unless gangs could be bound in another way
                return self._result(fewest=found.complete or len(best) == self.needed)
        if found.complete and (best is None or fits(problem, best)):
            return self._result(fewest=best is not None, exhausted=best is None)
        return None

    def _again(self) -> Ordered:
        """Try other orders, fewer where one takes long."""
        spent = self.effort.spent()
        for _ in range(RESTARTS):
            if self.effort.over(0.9) or not self.effort.leaves(spent):
                break
            self._attempt(self.rng, 0.9)
            if self._direct:
                return Ordered(self.best, fewest=True)
        return self._result()


def count_pods(steps: list[Step]) -> int:
    """Return how many pods steps move, bind and evict, each counted once for each step."""
    return sum(step.k for step in steps)
