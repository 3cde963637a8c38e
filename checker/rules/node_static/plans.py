"""The rules about a pod and a node alone, in plans: a cordon does not break the rules of a running pod."""

from __future__ import annotations

from collections.abc import Iterable

from kubestow.checker.rules.base import Place
from kubestow.checker.rules.node_static.rule import NodeStatic, node_faults
from kubestow.checker.rules.plans import PlanRunner, StaticFace


class StaticInPlans(StaticFace[bool]):
    """Verdicts for running pods."""

    of = NodeStatic

    def broken(self, reading: bool, runner: PlanRunner, place: Place) -> Iterable[str]:
        return [rule for rule, _ in node_faults(runner.pod.spec, place.node, self.rule.world.snapshot.gates, running=True)]
