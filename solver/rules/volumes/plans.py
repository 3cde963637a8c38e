"""VolumeBinding, VolumeRestrictions and NodeVolumeLimits in plans."""

from __future__ import annotations

from typing import Any

from kubestow.solver.rules.plan_state import PlanPods, PlanStep
from kubestow.solver.rules.plans import IndependentFace, R
from kubestow.solver.rules.volumes.rule import NodeVolumeLimits, VolumeBinding, VolumeRestrictions
from kubestow.solver.rules.waves import Keys, SymmetricGuard


class _LinkedGuard(SymmetricGuard[R]):
    """Classes that compete for the same volumes move one by one."""

    def __init__(self, rule: R, pods: PlanPods, residents: Any) -> None:
        super().__init__(rule, pods, residents)
        self._links: dict[int, Keys] = {}
        for i, link in enumerate(rule.order_links()):
            for g in link:
                self._links.setdefault(g, []).append((rule.name, i))

    def class_keys(self, g: int) -> Keys:
        return self._links.get(g, [])

    def exclusive(self, g: int) -> Keys:
        return self._links.get(g, [])


class _BindingOfWave(_LinkedGuard[VolumeBinding]):
    def _delayed(self, g: int) -> Keys:
        return [("claim", key) for key in self.cluster.classes[g].claims if self.cluster.volumes.claim(key).delayed]

    def solo(self, step: PlanStep) -> bool:
        return step.a >= 0 and step.b >= 0 and bool(self._delayed(step.g))

    def class_keys(self, g: int) -> Keys:
        return [*super().class_keys(g), *self._delayed(g)]

    def exclusive(self, g: int) -> Keys:
        return self.class_keys(g)


class _LimitsOfWave(_LinkedGuard[NodeVolumeLimits]):
    def __init__(self, rule: NodeVolumeLimits, pods: PlanPods, residents: Any) -> None:
        super().__init__(rule, pods, residents)
        self._limited: dict[int, bool] = {}

    def _attaches(self, g: int) -> bool:
        """Return True if the class has claims of a driver that some node limits."""
        limited = self._limited.get(g)
        if limited is None:
            limited = self._limited[g] = bool(self.cluster.classes[g].claims and self.rule.bars(g))
        return limited

    def places(self, g: int, n: int) -> Keys:
        """Return the claims on the node: one that two pods share counts once."""
        return [("claim", key, n) for key in self.cluster.classes[g].claims] if self._attaches(g) else []

    def step_keys(self, step: PlanStep) -> Keys:
        return [("mounts", step.b)] if step.b >= 0 and self._attaches(step.g) else []


class _RestrictionsOfWave(SymmetricGuard[VolumeRestrictions]):
    def class_keys(self, g: int) -> Keys:
        return [("claim", key) for key in self.cluster.classes[g].claims if self.cluster.volumes.claim(key).one_pod]


class BindingInPlans(IndependentFace[VolumeBinding]):
    """Volumes that a pod took stay taken until it has left."""

    guard = _BindingOfWave
    reads_node = True
    ties_to_data = True


class LimitsInPlans(IndependentFace[NodeVolumeLimits]):
    """Attachments are only used up by accepted steps."""

    guard = _LimitsOfWave


class RestrictionsInPlans(IndependentFace[VolumeRestrictions]):
    """Classes that share a claim may wait for each other."""

    guard = _RestrictionsOfWave

    def links(self) -> list[list[int]]:
        claims: dict[str, list[int]] = {}
        for g, cls in enumerate(self.rule.cluster.classes):
            for key in cls.claims:
                claims.setdefault(key, []).append(g)
        return [link for link in claims.values() if len(link) > 1]
