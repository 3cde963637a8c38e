"""Judgement of a document's remaining steps on the current cluster."""

from __future__ import annotations

from kubestow.checker.placement import rest_faults
from kubestow.checker.plan.remaining_steps import rest_faults as plan_faults
from kubestow.checker.plan.replay import BUDGET
from kubestow.checker.violation import Violation
from kubestow.commands.core.reading import set_gates_of
from kubestow.live.apply.drift import Rejection
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube.quantity import QuantityError
from kubestow.models.snapshot.snapshot import InputError, Snapshot


def judge_rest(snapshot: Snapshot, remainder: Placement | RebalancePlan) -> list[Rejection]:
    """Return the violations of a result's remaining steps on the current cluster, without checking its claims.

    See :data:`kubestow.live.apply.drift.Judge`.
    """
    try:
        set_gates_of(snapshot, remainder.snapshot)
        found = plan_faults(snapshot, remainder) if isinstance(remainder, RebalancePlan) else rest_faults(snapshot, remainder)
    except (InputError, QuantityError) as error:
        return [Rejection(f"the cluster cannot be judged: {line}") for line in str(error).splitlines()]
    return [Rejection(_told(fault), fault.pod, fault.node, fault.rule == BUDGET) for fault in found]


def _told(fault: Violation) -> str:
    place = " on ".join(part for part in (fault.pod, fault.node) if part)
    return f"{place}: {fault.rule}: {fault.why}" if place else f"{fault.rule}: {fault.why}"
