"""Node policies of nri-plugins in plans: the containers of running pods exist already."""

from __future__ import annotations

from kubestow.checker.rules.base import Place
from kubestow.checker.rules.nri_policies.rule import NriPolicies
from kubestow.checker.rules.plans import PlanRunner, StaticFace


class PoliciesInPlans(StaticFace[bool]):
    """Verdicts for landing pods only."""

    of = NriPolicies

    def broken(self, reading: bool, runner: PlanRunner, place: Place) -> tuple[()]:
        return ()
