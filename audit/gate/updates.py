"""Updates of StatefulSets and DaemonSets as ``solve --rollout`` follows them, where no other workload changes with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kubestow.audit.gate.admission import rejected
from kubestow.audit.gate.changes import Change
from kubestow.audit.gate.stepping import Verdict
from kubestow.models.documents.placement import Placement
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.expand import owned

#: Pods of one workload that are followed one by one.
FOLLOWED: Final = 300


def followed(verdict: Verdict, state: Snapshot, roll: Callable[[Snapshot, str], Placement]) -> Verdict:
    """Return the verdict on an update, as its controller takes it from step to step.

    What was found before stays where both agree, as it names rules and capacities. Else the course decides: the pods that a partition
    keeps may lack one of them, a surplus pod may block, maxUnavailable may be spent.

    Args:
        verdict: What was found by placing pods.
        state: The cluster before, with the pods that wait in it.
        roll: Rolls a workload out, by ``Kind/namespace/name``.
    """
    change = verdict.change
    if not concerns(change) or len(owned(state, change.kind, change.namespace, change.name)) > FOLLOWED:
        return verdict
    try:
        found = roll(state, f"{change.kind}/{change.namespace}/{change.name}")
    except InputError:
        return verdict
    rollout = found.rollout
    assert rollout is not None
    if rollout.complete == (verdict.fit == "fits"):
        return verdict
    if rollout.complete:
        return replace(verdict, fit="fits", placed=verdict.replicas, cause=None, blame=(), fix=None)
    text, reasons = rejected(rollout)
    cause = f"its rolling update is {rollout.halted}" + (f": {text}" if text else "") + ("" if rollout.proved else "; not proved")
    return replace(
        verdict,
        fit="does not fit" if rollout.proved else "unproved",
        placed=sum(not entry.old for wave in rollout.waves for entry in wave.create),
        cause=cause,
        blame=tuple((reason.rule, reason.message) for reason in reasons),
        fix="; or ".join(way.message for way in rollout.waysOut) or None,
    )


def concerns(change: Change) -> bool:
    """Return True if a change replaces the pods of a StatefulSet or a DaemonSet one by one."""
    return not change.refused and (change.steps or (change.kind == "DaemonSet" and change.replaces and change.action == "rolling update"))
