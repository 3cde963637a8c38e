"""The steps that keep their order in the waves, and the events after which a refused step is tried again.

Two steps with a common key of :meth:`Order.keys` are taken in sequence order, in one wave or in two. Steps
without a common key affect each other's verdict only through a node's capacity.
:mod:`kubestow.solver.rebalance.waves.schedule` reserves the capacity that earlier steps will take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rules.waves import Keys, WaveGuard


class Order:
    """The order constraints between steps: those of the rules, and those of pods that move or leave more than once.

    Args:
        guards: The rules, prepared for all steps.
        steps: All steps of the plan, pod by pod.
    """

    def __init__(self, problem: RebalanceProblem, guards: Sequence[WaveGuard[Any]], steps: Sequence[Step]) -> None:
        self._guards = guards
        leaves = Counter((s.g, s.a) for s in steps)
        self._tight = {(g, a) for (g, a), k in leaves.items() if a >= 0 and problem.start[g, a] < k}
        self._twice = {s.g for s in steps if s.b < 0} & {s.g for s in steps if s.a < 0}
        self._class_keys: dict[int, Keys] = {}

    def solo(self, step: Step) -> bool:
        """Return True if a step has to be a wave of its own because its outcome depends on the order of events."""
        return step.g in self._twice or any(guard.solo(step) for guard in self._guards)

    def exclusive(self, g: int) -> Keys:
        """Return exclusive keys: a wave takes one step of the classes that share such a key."""
        return [key for guard in self._guards for key in guard.exclusive(g)]

    def places(self, g: int, n: int) -> Keys:
        """Return the keys of node resources that exclude other steps while a pod of the class arrives.

        No other pod that uses such a resource may come or go in the same wave.
        """
        return [key for guard in self._guards for key in guard.places(g, n)] if n >= 0 else []

    def keys(self, step: Step) -> Keys:
        """Return the keys that keep a step in order with others."""
        free = {key for guard in self._guards for key in guard.free_keys(step)}
        return [key for key in self._touched(step) if key not in free]

    def _touched(self, step: Step) -> Keys:
        """Return the keys of everything that a step changes for others, or depends on, while its wave runs."""
        g = step.g
        if g not in self._class_keys:
            keys = [key for guard in self._guards for key in guard.class_keys(g)]
            self._class_keys[g] = [*keys, ("pods", g)] if g in self._twice else keys
        keys = [*self._class_keys[g], *(("pods", g, n) for n in (step.a, step.b) if (g, n) in self._tight)]
        return list(dict.fromkeys([*keys, *(key for guard in self._guards for key in guard.step_keys(step))]))

    def waits(self, step: Step) -> Keys:
        """Return the keys to wait for: after a wave that :meth:`wakes` one, a refused step may be accepted."""
        keys = [*self._touched(step), ("room", step.b), ("pods", step.g, step.a)]
        return [*keys, *(key for guard in self._guards for key in guard.waits(step))]

    def wakes(self, step: Step) -> Keys:
        """Return the keys that a step changes for waiting steps."""
        keys = [*self._touched(step), ("room", step.a), ("pods", step.g, step.b)]
        return [*keys, *(key for guard in self._guards for key in guard.wakes(step))]
