"""Clusters on the way of a change: without the pods of some workloads, and with pods that were placed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

import msgspec

from kubestow.audit.gate.changes import Change
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.expand import owned

#: What a pod that was placed counts as.
_RUNNING: Final = objects.PodStatus(phase="Running", conditions=[objects.PodCondition("Ready", "True")])


def without(state: Snapshot, gone: Iterable[Change]) -> Snapshot:
    """Return the cluster without the pods of some workloads."""
    leave = {i for change in gone for i in owned(state, change.kind, change.namespace, change.name) if _renewed(change, state.pods[i])}
    return replace(state, pods=[pod for i, pod in enumerate(state.pods) if i not in leave])


def _renewed(change: Change, pod: objects.Pod) -> bool:
    """Return whether a pod of a workload that changes is replaced: a StatefulSet's partition keeps those of lower ordinals."""
    return not change.steps or ordinal(pod.metadata.name or "") >= change.first_updated


def without_pods(state: Snapshot, change: Change, names: Collection[str]) -> Snapshot:
    """Return the cluster without pods of a workload, by their names."""
    mine = set(owned(state, change.kind, change.namespace, change.name))
    return replace(state, pods=[pod for i, pod in enumerate(state.pods) if i not in mine or pod.metadata.name not in names])


def orphaned(state: Snapshot, change: Change, names: Collection[str]) -> Snapshot:
    """Return the cluster in which pods of a workload, by their names, have another owner, so that the workload lacks them."""
    mine = set(owned(state, change.kind, change.namespace, change.name))
    owner = [objects.OwnerReference("ReplicaSet", f"{change.name}-before", "apps/v1", f"{change.name}-before", True)]
    pods = list(state.pods)
    for i in mine:
        if pods[i].metadata.name in names:
            pods[i] = msgspec.structs.replace(pods[i], metadata=msgspec.structs.replace(pods[i].metadata, ownerReferences=owner))
    return replace(state, pods=pods)


def mounted(pod: objects.Pod, snapshot: Snapshot) -> bool:
    """Return whether the volumes of all claims of a pod are there. Else it counts as waiting: they may never be."""
    namespace = pod.metadata.namespace or "default"
    for volume in pod.spec.volumes or ():
        name = volume.persistentVolumeClaim.claimName if volume.persistentVolumeClaim is not None else None
        name = f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else name
        claim = snapshot.persistent_volume_claims.get(f"{namespace}/{name}")
        if name is not None and (claim is None or claim.spec is None or not claim.spec.volumeName):
            return False
    return True


def bound(pod: objects.Pod, node: str) -> objects.Pod:
    change = msgspec.structs.replace
    return change(pod, spec=change(pod.spec, nodeName=node, schedulingGates=None), status=_RUNNING)


def ordinal(name: str) -> int:
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isascii() and tail.isdecimal() else -1
