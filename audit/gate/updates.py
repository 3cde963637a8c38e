"""Updates of StatefulSets and DaemonSets, simulated as by ``solve --rollout``, if no other workload changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kubestow.audit.gate.admission import rejected
from kubestow.audit.gate.changes import WorkloadChange
from kubestow.audit.gate.stepping import FitVerdict
from kubestow.models.documents.placement import Placement
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.expand import owned

#: Largest workload that is simulated pod by pod, in pods.
MAX_FOLLOWED_PODS: Final = 300


def followed(verdict: FitVerdict, state: Snapshot, roll: Callable[[Snapshot, str], Placement]) -> FitVerdict:
    """Return the verdict on an update, simulated step by step as its controller would run it.

    If both results agree, the earlier verdict stays because it names rules and capacities. Otherwise the simulation
    decides: a pod kept by the partition may be missing, a surplus pod may block, or maxUnavailable may be used up.

    Args:
        verdict: Verdict from placing the pods.
        state: The cluster before the update, with its pending pods.
        roll: Rolls out a workload, given as ``Kind/namespace/name``.
    """
    change = verdict.change
    if not concerns(change) or len(owned(state, change.kind, change.namespace, change.name)) > MAX_FOLLOWED_PODS:
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


def concerns(change: WorkloadChange) -> bool:
    """Return True if a change replaces the pods of a StatefulSet or DaemonSet one by one."""
    return not change.refused and (change.steps or (change.kind == "DaemonSet" and change.replaces and change.action == "rolling update"))
