"""GangScheduling in plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubestow.solver.rules.gang_scheduling.rule import GangScheduling
from kubestow.solver.rules.plan_state import PlanStep
from kubestow.solver.rules.plans import IndependentFace
from kubestow.solver.rules.waves import Keys, SymmetricGuard

if TYPE_CHECKING:
    from kubestow.solver.rules.end_states import EndStateModel


class _GangsOfWave(SymmetricGuard[GangScheduling]):
    def solo(self, step: PlanStep) -> bool:
        """Return True if the pod moves, and its gang has to be in one domain, which its other members decide."""
        gang = self.cluster.classes[step.g].gang
        return step.a >= 0 and step.b >= 0 and gang is not None and self.cluster.gangs[gang].key is not None

    def class_keys(self, g: int) -> Keys:
        gang = self.cluster.classes[g].gang
        return [("gang", gang)] if gang is not None else []


class GangsInPlans(IndependentFace[GangScheduling]):
    """A gang is bound whole or not at all."""

    guard = _GangsOfWave

    def encode_always(self, model: EndStateModel) -> None:
        if self.rule.cluster.gangs:
            self.rule.encode(model)
