"""DynamicResources in plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubestow.solver.rules.dynamic_resources.rule import DynamicResources
from kubestow.solver.rules.plans import IndependentFace
from kubestow.solver.rules.waves import Keys, SymmetricGuard

if TYPE_CHECKING:
    from kubestow.models.devices.inventory import Pick


class _DevicesOfWave(SymmetricGuard[DynamicResources]):
    """One key for all pods that take devices: the devices that each gets depend on the earlier pods."""

    def class_keys(self, g: int) -> Keys:
        return [("devices",)] if self.cluster.classes[g].devices is not None else []

    def exclusive(self, g: int) -> Keys:
        return self.class_keys(g)


class DevicesInPlans(IndependentFace[DynamicResources]):
    """Devices are only used up by accepted steps."""

    guard = _DevicesOfWave

    def picks(self, g: int, n: int) -> tuple[Pick, ...] | None:
        return self.rule.taken(g, n)[-1] if self.rule.concerned(g) else None
