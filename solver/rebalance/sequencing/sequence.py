"""The order of a plan: accepted steps, one after the other, from the start to a placement.

A greedy pass takes direct steps; where moves wait for each other in a circle, a pod makes a stopover on a spare place. Small instances are
then searched for the fewest steps, which decides whether there is an order at all; others are tried again in other orders. Orders that take
no more waves than the plan may take go before shorter ones.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from models.cluster.cluster import Ints
from solver.rebalance.problem.problem import RebalanceProblem, Step
from solver.rebalance.problem.state import PlanState
from solver.rebalance.sequencing.astar import OrderSearch
from solver.rebalance.sequencing.confinement import Confinement, DeadlockStudy
from solver.rebalance.sequencing.deadlocks import break_deadlocks, waiting_in_circle
from solver.rebalance.sequencing.dependencies import Dependencies
from solver.rebalance.sequencing.disruption_budgets import respect_budgets
from solver.rebalance.sequencing.effort import Effort
from solver.rebalance.sequencing.greedy_pass import GreedyPass
from solver.rebalance.sequencing.remaining_moves import RemainingMoves
from solver.rebalance.target.affinity_openings import openings
from solver.rebalance.waves.within import fits
from solver.runtime.run_context import RunContext

#: The search for the fewest steps is for placements that so many steps lead to, at least.
SMALL = 40
#: Passes in other orders, fewer where one takes long.
RESTARTS = 12
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
    found = _order(problem, target, effort, steps_at_most)
    context.deadline.charge(effort.spent())
    if found.steps and problem.evictable.any():
        steps = respect_budgets(problem, found.steps)
        return Ordered(steps, fewest=found.fewest and steps is not None, stuck=found.stuck, confined=found.confined)
    return found


def _order(problem: RebalanceProblem, target: Ints, effort: Effort, steps_at_most: int | None) -> Ordered:
    """Find a sequence as :func:`order`, with no look at PodDisruptionBudgets."""
    remaining = RemainingMoves(problem, target, steps_at_most)
    most = remaining.most_detours()
    if most is not None and most < 0:
        return Ordered(None, exhausted=True, stuck=waiting_in_circle(remaining.moves()))
    if not remaining.left:
        return Ordered([], fewest=True)
    needed = remaining.left
    state = PlanState(problem)
    if not all(opening.allows(target) for opening in openings(problem, state.providers.rule, state.counts)):
        return Ordered(None, exhausted=True, stuck=remaining.moves())
    links = Dependencies(problem.cluster, state.rules)
    best: list[Step] | None = None
    stuck: list[Step] = []
    waiting: list[Step] = []

    def rank(steps: list[Step]) -> tuple[bool, int]:  # whether others are to be tried: of long ones what does not fit is left out later
        return needed <= SMALL and not fits(problem, steps), count_pods(steps)

    def attempt(rng: random.Random | None, share: float) -> None:
        nonlocal best, stuck, waiting
        greedy = GreedyPass(problem, state, remaining, links, lambda: effort.over(share), rng)
        direct = greedy.run()
        if not direct and not stuck:
            waiting = remaining.moves()
            stuck = waiting_in_circle(waiting)
        reached = direct or break_deadlocks(greedy)
        greedy.undo()
        if reached and (best is None or rank(greedy.steps) < rank(best)):
            best = greedy.steps

    attempt(None, 1.0)
    if best is not None and rank(best) == (False, needed):
        return Ordered(best, fewest=True)
    confined: list[Confinement] = []
    if problem.start.size <= CONFINED_CELLS:
        study = DeadlockStudy(problem, state, target, lambda: effort.over(CONFINED_SHARE))
        study.run(waiting, remaining.moves(), reached=best is not None)
        confined = study.found
        if study.excluded or (best is None and most is not None and study.detours > most):
            return Ordered(None, exhausted=True, stuck=stuck, confined=confined)
        if best is not None and rank(best) == (False, needed + study.detours):
            return Ordered(best, fewest=True, confined=confined)
    if needed <= SMALL:
        allowed = most if best is None or not fits(problem, best) else count_pods(best) - needed - 1
        found = OrderSearch(problem, state, remaining, lambda: effort.over(0.8)).run(allowed)
        if found.steps is not None and (best is None or rank(found.steps) < rank(best)):
            best = found.steps
            if fits(problem, best):  # the first found has the fewest, unless gangs could be bound in another way
                return Ordered(best, fewest=found.complete or len(best) == needed, confined=confined)
        if found.complete and (best is None or fits(problem, best)):
            return Ordered(best, fewest=best is not None, exhausted=best is None, stuck=[] if best else stuck, confined=confined)
    rng = random.Random(0)
    spent = effort.spent()
    for _ in range(RESTARTS):
        if effort.over(0.9) or not effort.leaves(spent):
            break
        attempt(rng, 0.9)
        if best is not None and rank(best) == (False, needed):
            return Ordered(best, fewest=True)
    return Ordered(best, stuck=[] if best else stuck, confined=confined)


def count_pods(steps: list[Step]) -> int:
    """Return how many pods steps move, bind and evict, each counted once for each step."""
    return sum(step.k for step in steps)
