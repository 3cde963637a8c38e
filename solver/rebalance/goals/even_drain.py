"""Better targets for drained pods, chosen among plans that have equal values in all goals.

A drain counts only remaining pods and moves, so construction fills the fullest node. Here each drained pod gets
the target with the most preference points, then the most even utilisation. ``improve`` weighs both in the same
way (:data:`kubestow.solver.rebalance.tiers.improvement.BALANCE_PER_POINT`). No tier of the plan gets worse. The choice is a
heuristic: ``--goal improve`` proves the best one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kubestow.solver.rebalance.goals.improve import Gains
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.tiers.improvement import BALANCE_PER_POINT
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.rebalance.waves.schedule import waves
from kubestow.solver.rebalance.waves.wave_limit import fits

#: Total number of steps that changes of single targets may replay. A replay checks each step of the plan, so a
#: plan of few steps allows many changes.
MAX_REPLAYED_STEPS = 20_000
#: Passes over the drained pods. The second pass uses the room that the first one made; later ones rarely gain.
MAX_PASSES = 3


def even_drain(values: PlanObjective, steps: list[Step], over: Callable[[], bool]) -> list[Step]:
    """Return the steps with better targets for drained pods, or the steps themselves; each value of the objective stays as good.

    Args:
        values: The objective of the plan.
        steps: An accepted sequence of steps.
        over: Returns True if the search has to end.
    """
    problem = values.problem
    if any(step.a < 0 and problem.cluster.classes[step.g].gang is not None for step in steps):
        return steps  # a gang binds as a unit, which a replay of single steps refuses
    single = [Step(step.g, step.a, step.b) for step in steps for _ in range(step.k)]
    sources = {(step.g, step.a) for step in single}
    chosen = [i for i, step in enumerate(single) if step.a in problem.drain and step.b >= 0 and (step.g, step.b) not in sources]
    if not chosen:
        return steps
    plans = _EqualPlans(values, single, over)
    if not plans.choose_all(chosen):
        plans.choose_each(chosen)
    return steps if plans.steps == single else plans.steps


class _EqualPlans:
    """Plans with equal values in all tiers. ``steps`` is the one with the best targets."""

    def __init__(self, values: PlanObjective, steps: list[Step], over: Callable[[], bool]) -> None:
        self.values, self.problem, self.steps, self.over = values, values.problem, steps, over
        self.reached, self.utility = values.of_steps(steps), self._utility(steps)
        self.waves = len(waves(self.problem, steps))

    def choose_all(self, chosen: Sequence[int]) -> bool:
        """Give each drained pod its best target, one after the other; return True if the plan still holds."""
        builder, free = MoveBuilder(self.problem, self.over), set(chosen)
        gains = Gains(self.problem, builder.state.counts)
        for i, step in enumerate(self.steps):
            if self.over() or (i not in free and not builder.replay([step])):
                return False
            target = step.b
            if i in free:
                places = builder.places(step.g, step.a)
                places[list(self.problem.drain)] = False
                if not places.any():
                    return False
                target = int(np.argmax(np.where(places, gains.moving(step.g, step.a), np.iinfo(np.int64).min)))
                builder.take(Step(step.g, step.a, target))
            _follow(gains, Step(step.g, step.a, target))
        return self._keep(builder.steps)

    def choose_each(self, chosen: Sequence[int]) -> None:
        """Change one target at a time as long as the rest of the plan is still accepted."""
        gains = Gains(self.problem, self.problem.end(self.steps))
        remaining_steps = MAX_REPLAYED_STEPS
        for _ in range(MAX_PASSES):
            changed = False
            for i in chosen:
                step = self.steps[i]
                utility = gains.moving(step.g, step.b)
                for target in np.argsort(-utility, kind="stable").tolist():
                    if utility[target] <= utility[step.b] or target in self.problem.drain:
                        break
                    if remaining_steps < len(self.steps) or self.over():
                        return
                    remaining_steps -= len(self.steps)
                    if self._change(i, target):
                        _follow(gains, Step(step.g, step.b, target))
                        changed = True
                        break
            if not changed:
                return

    def _change(self, i: int, target: int) -> bool:
        steps = list(self.steps)
        steps[i] = Step(steps[i].g, steps[i].a, target)
        return MoveBuilder(self.problem, self.over).replay(steps) and self._keep(steps)

    def _keep(self, steps: list[Step]) -> bool:
        """Adopt steps if they are worth more, as good in every tier, and take no more waves. Return whether they were."""
        utility = self._utility(steps)
        if utility <= self.utility or self.values.of_steps(steps) < self.reached or not fits(self.problem, steps):
            return False
        if len(waves(self.problem, steps)) > self.waves:
            return False
        self.steps, self.utility = list(steps), utility
        return True

    def _utility(self, steps: Sequence[Step]) -> int:
        """Return preferences and balance of the end state, in units of balance."""
        counts, preferences = self.problem.end(steps), self.values.preferences
        return BALANCE_PER_POINT * preferences.total(preferences.families(counts)) + self.values.spread.value(counts)


def _follow(gains: Gains, step: Step) -> None:
    """Update the counters for a step. A binding and an eviction have one end only."""
    if step.a >= 0:
        gains.put(step.g, step.a, -1)
    if step.b >= 0:
        gains.put(step.g, step.b, 1)
