"""Waves of a plan: steps that may run at once and in any order, as one rule sees them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.plan_state import PlanPods, PlanStep

R = TypeVar("R", bound=Rule)

#: Keys that steps share if they affect each other.
Keys = list[tuple[Hashable, ...]]


class WaveGuard(Generic[R]):
    """One rule in the waves of a plan, whose steps may run at once and in any order.

    The rule is in the state with all pods that the wave brings, before any pod leaves. By default, a step that
    concerns the rule is a wave of its own, in the order of the plan.

    Attributes:
        rule: The rule in this state.
        pods: The pods of this state.
        residents: Its resident pods under the rule (see kubestow.solver.rules.residents), or None.
    """

    def __init__(self, rule: R, pods: PlanPods, residents: Any) -> None:
        self.rule, self.pods, self.residents, self.cluster = rule, pods, residents, pods.problem.cluster

    def begin(self, steps: Sequence[PlanStep]) -> None:
        """Prepare for all steps of the plan, before any is applied."""

    def solo(self, step: PlanStep) -> bool:
        """Return True if a step has to be a wave of its own because its outcome depends on the order of events."""
        return self.rule.concerned(step.g)

    def class_keys(self, g: int) -> Keys:
        """Return keys of everything that steps of the class change for others, or depend on, while their wave runs."""
        return [(self.rule.name,)] if self.rule.concerned(g) else []

    def step_keys(self, step: PlanStep) -> Keys:
        """Return such keys that depend on the nodes of a step."""
        return []

    def free_keys(self, step: PlanStep) -> Keys:
        """Return the keys of ``class_keys`` under which the step needs no order."""
        return []

    def waits(self, step: PlanStep) -> Keys:
        """Return further keys to wait for: after a wave that wakes one, a refused step may be accepted."""
        return []

    def wakes(self, step: PlanStep) -> Keys:
        """Return further keys that a step changes for waiting steps."""
        return []

    def exclusive(self, g: int) -> Keys:
        """Return exclusive keys: a wave takes one step of the classes that share such a key."""
        return []

    def places(self, g: int, n: int) -> Keys:
        """Return the keys of resources of node n that exclude other steps while a pod of the class arrives.

        No other pod that uses such a resource may come or go in the same wave.
        """
        return []

    def accepts(self, step: PlanStep, reserved: Sequence[int]) -> bool:
        """Return True if the rule accepts the landing of a step next to all pods of the wave.

        Args:
            reserved: Classes of the pods that need capacity reserved on the target node.
        """
        rule, out = self.rule, step.a >= 0 and not self.rule.local and not self.rule.arrivals_only
        if out:
            rule.remove(step.g, step.a)
        refused = bool(rule.rejects(step.g)[step.b])
        if out:
            rule.place(step.g, step.a)
        return not refused

    def join(self, step: PlanStep) -> bool:
        """Add a step to the wave if it and the wave's other steps stay valid in every phase.

        Returns:
            True if the step was added. Then :meth:`back` or :meth:`settle` follows.
        """
        return True

    def back(self, step: PlanStep) -> None:
        """Undo :meth:`join`."""

    def settle(self, step: PlanStep) -> None:
        """Confirm a joined step, before the state includes its landing."""

    def force(self, step: PlanStep) -> None:
        """Add the first step of a wave, which is accepted as is."""

    def commit(self, steps: Iterable[PlanStep]) -> None:
        """End the wave. The state is the one after it."""


class SymmetricGuard(WaveGuard[R]):
    """A rule that only gets stricter with more pods, and whose verdict on two pods does not depend on their order.

    A step that is accepted next to all pods of a wave is accepted in every phase, and the earlier steps stay
    accepted.
    """

    def solo(self, step: PlanStep) -> bool:
        return False

    def class_keys(self, g: int) -> Keys:
        return []
