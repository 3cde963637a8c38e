"""The test that a step may join a wave: it and the other steps of the wave stay valid in every phase.

The wave guard of each rule decides (:class:`kubestow.solver.rules.plans.WaveGuard`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.waves.ordering import Order
from kubestow.solver.rules.waves import WaveGuard


class WaveRules:
    """One wave after the other.

    Attributes:
        state: The state with all pods that the wave brings, before any pod leaves.
        remaining_evictions: Per budget, the number of pods that the wave may still evict.
        wave_steps: Steps of the wave.

    Args:
        steps: All steps of the plan, pod by pod.
    """

    def __init__(self, problem: RebalanceProblem, steps: Sequence[Step]) -> None:
        self.problem, self.state = problem, PlanState(problem)
        pods, residents = self.state.pods, self.state.residents
        faces = self.state.faces
        self._guards = [face.guard(face.rule, pods, residents.get(face.rule.name)) for face in faces if face.guard is not None]
        for guard in self._guards:
            guard.begin(steps)
        self.order = Order(problem, self._guards, steps)
        self._concerned: dict[int, list[WaveGuard[Any]]] = {}
        self.remaining_evictions = [budget.allowed for budget in problem.budgets]
        self._clear()

    def _clear(self) -> None:
        self.wave_steps: list[Step] = []
        self._came: Counter[tuple[int, int]] = Counter()
        self._gone: Counter[tuple[int, int]] = Counter()
        self._into: set[Hashable] = set()
        self._from: set[Hashable] = set()
        self._in_place = False

    def budget(self, step: Step) -> int | None:
        """Return the budget that a step's eviction needs."""
        return self.problem.budget[step.g] if step.a >= 0 else None

    # --- joining --------------------------------------------------------------------------------------------------------------

    def join(self, step: Step, reserved: Sequence[int]) -> bool:
        """Add a step to the wave if that is safe; return True if added.

        Args:
            reserved: Classes of the pods that need capacity reserved on the target node.
        """
        budget = self.budget(step)
        if budget is not None and self.remaining_evictions[budget] < 1:
            return False
        guards = self._guards_of(step.g)
        if not self._present(step) or not self._apart(step) or not self._accepted(step, guards, reserved):
            return False
        for i, guard in enumerate(guards):
            if not guard.join(step):
                for joined in guards[:i]:
                    joined.back(step)
                return False
        for guard in guards:
            guard.settle(step)
        self._take(step)
        return True

    def _guards_of(self, g: int) -> list[WaveGuard[Any]]:
        """Return the rules whose verdict on the class can change."""
        if g not in self._concerned:
            self._concerned[g] = [guard for guard in self._guards if guard.rule.concerned(g)]
        return self._concerned[g]

    def force(self, step: Step, *, in_place: bool = False) -> None:
        """Add the first step of a wave, or the steps of a unit one after the other, which are accepted as is.

        Args:
            in_place: The pod leaves first, in a wave of its own.
        """
        for guard in self._guards:
            guard.force(step)
        self._in_place = in_place
        self._take(step)

    def _take(self, step: Step) -> None:
        budget = self.budget(step)
        if budget is not None:
            self.remaining_evictions[budget] -= 1
        self.wave_steps.append(step)
        self._into.update(self.order.places(step.g, step.b))
        self._from.update(self.order.places(step.g, step.a))
        self._into.update(self.order.exclusive(step.g))
        if self._in_place:
            self.state.apply(step)
            return
        if step.a >= 0:
            self._gone[step.g, step.a] += 1
        if step.b >= 0:
            self._came[step.g, step.b] += 1
            self.state.apply(Step(step.g, -1, step.b))

    def _present(self, step: Step) -> bool:
        """Return True if a pod for the step is present when the wave begins."""
        cell = step.g, step.a
        return step.a < 0 or int(self.state.counts[cell]) - self._came[cell] - self._gone[cell] >= 1

    def _apart(self, step: Step) -> bool:
        """Return True if the step shares no exclusive key with a step of the wave."""
        order = self.order
        if any(key in self._into for key in (*order.exclusive(step.g), *order.places(step.g, step.a))):
            return False
        return not any(key in self._into or key in self._from for key in order.places(step.g, step.b))

    def _accepted(self, step: Step, guards: Sequence[WaveGuard[Any]], reserved: Sequence[int]) -> bool:
        if step.b < 0:
            return True
        if self.state.waits and self.state.blocks_waiting_resizes(step.g)[step.b]:
            return False
        return all(guard.accepts(step, reserved) for guard in guards)

    # --- the end of a wave --------------------------------------------------------------------------------------------------------

    def commit(self) -> list[Step]:
        """End the wave: its leaving pods are gone. Return its steps in the order in which they joined."""
        for step in self.wave_steps:
            if step.a >= 0 and not self._in_place:
                self.state.apply(Step(step.g, step.a, -1))
            budget = self.budget(step)
            if budget is not None:
                self.remaining_evictions[budget] += step.b >= 0
        for guard in self._guards:
            guard.commit(self.wave_steps)
        steps = self.wave_steps
        self._clear()
        return steps
