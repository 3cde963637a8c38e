"""Intermediate clusters of a change: without the pods of some workloads, or with placed pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

import msgspec

from kubestow.audit.gate.changes import WorkloadChange
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.expand import owned

#: Status of a pod that this run placed.
_RUNNING: Final = objects.PodStatus(phase="Running", conditions=[objects.PodCondition("Ready", "True")])


def without(state: Snapshot, gone: Iterable[WorkloadChange]) -> Snapshot:
    """Return the cluster without the pods of the given workloads that the change replaces."""
    leave = {i for change in gone for i in owned(state, change.kind, change.namespace, change.name) if _renewed(change, state.pods[i])}
    return replace(state, pods=[pod for i, pod in enumerate(state.pods) if i not in leave])


def _renewed(change: WorkloadChange, pod: objects.Pod) -> bool:
    """Return True if the change replaces this pod. The partition of a StatefulSet keeps pods with lower ordinals."""
    return not change.steps or ordinal(pod.metadata.name or "") >= change.first_updated


def without_pods(state: Snapshot, change: WorkloadChange, names: Collection[str]) -> Snapshot:
    """Return the cluster without the named pods of a workload."""
    mine = set(owned(state, change.kind, change.namespace, change.name))
    return replace(state, pods=[pod for i, pod in enumerate(state.pods) if i not in mine or pod.metadata.name not in names])


def orphaned(state: Snapshot, change: WorkloadChange, names: Collection[str]) -> Snapshot:
    """Return the cluster with the named pods assigned to another owner, so that the workload lacks them."""
    mine = set(owned(state, change.kind, change.namespace, change.name))
    owner = [objects.OwnerReference("ReplicaSet", f"{change.name}-before", "apps/v1", f"{change.name}-before", True)]
    pods = list(state.pods)
    for i in mine:
        if pods[i].metadata.name in names:
            pods[i] = msgspec.structs.replace(pods[i], metadata=msgspec.structs.replace(pods[i].metadata, ownerReferences=owner))
    return replace(state, pods=pods)


def mounted(pod: objects.Pod, snapshot: Snapshot) -> bool:
    """Return True if the volumes of all claims of a pod exist. Otherwise the pod counts as pending."""
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
