"""A failure judged on its own snapshot, for gangs and devices; and the NUMA zones after any failure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kubestow.checker.capacity.failures import without
from kubestow.checker.objective import numa_zones
from kubestow.checker.placement import rest_faults
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.documents.survival import Survival
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

Found = list[tuple[str, str, tuple[str, str]]]


def faults(
    snapshot: Snapshot, survival: Survival, gone: Collection[str], entries: Sequence[Assignment], preempted: Collection[str]
) -> Found:
    """Return the faults of assignments after nodes have failed.

    Returns:
        Tuples of pod key, node, and the rule with the reason.
    """
    edited, back = without(snapshot, gone, preempted, survival)
    waiting = {objects.pod_key(pod) for pod in back}
    known = [entry for entry in entries if entry.pod in waiting]
    ref = SnapshotRef("", 0, 0, 0, daemonNamespaces=survival.snapshot.daemonNamespaces)
    document = Placement(ref, "", "feasible", [], known, policy=survival.policy)
    found = [(each.pod, each.node, (each.rule, each.why)) for each in rest_faults(edited, document)]
    return found + zone_faults(edited, survival, known)


def zone_faults(snapshot: Snapshot, survival: Survival, entries: Sequence[Assignment]) -> Found:
    """Return NUMA zone faults, including pods that a kubelet rejects."""
    wanted, targets = {entry.pod for entry in entries}, {entry.node for entry in entries}
    part = snapshot.copy()
    part.pods = [pod for pod in snapshot.pods if objects.pod_key(pod) in wanted]
    part.nodes = [node for node in snapshot.nodes if node.metadata.name in targets]
    judged = numa_zones.judge(part, entries, wanted, survival.policy or DEFAULT)
    return [(pod, node, (rule, why)) for pod, node, rule, why in judged.faults]
