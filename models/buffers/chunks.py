"""The chunks of CapacityBuffers as virtual pods that wait in a snapshot behind all others.

The autoscaler adds such pods to its own simulation and never creates them. They keep no capacity from real
pods. Here their priorities are below those of real pods, one per buffer, so that the first buffer by name gets
room first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from kubestow.models.buffers.demand import BufferDemand, demands
from kubestow.models.gangs.markers import GANG
from kubestow.models.kube import objects
from kubestow.models.snapshot import interning
from kubestow.models.snapshot.snapshot import Snapshot

#: The lowest priority of a real pod (int32).
LOWEST_PRIORITY: Final = -(2**31)
KIND: Final = "CapacityBuffer"
_PENDING: Final = objects.PodStatus(phase="Pending")
_change = msgspec.structs.replace


def priority_of(place: int) -> int:
    """Return the priority of the chunks of a buffer, by its index among the buffers."""
    return LOWEST_PRIORITY - 1 - place


def with_chunks(snapshot: Snapshot) -> tuple[Snapshot, list[BufferDemand]]:
    """Return a copy of a snapshot in which the chunks of all buffers wait, and each buffer's demand."""
    buffers = demands(snapshot)
    edited = snapshot.copy()
    pod_keys = {objects.pod_key(pod) for pod in snapshot.pods}
    for place, demand in enumerate(buffers):
        edited.pods += _pods(demand, place, pod_keys)
    return edited, buffers


def without_chunks(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without chunks, placed or not: they keep no capacity from real pods."""
    return replace(snapshot, pods=[pod for pod in snapshot.pods if buffer_of(pod) is None])


def buffer_of(pod: objects.Pod) -> str | None:
    """Return the buffer (``namespace/name``) of a chunk; None for a real pod."""
    owner = objects.controller_of(pod)
    if owner is None or owner.kind != KIND:
        return None
    return f"{pod.metadata.namespace or 'default'}/{owner.name}"


def _pods(demand: BufferDemand, place: int, pod_keys: set[str]) -> list[objects.Pod]:
    """Return the chunks of a buffer, without gang and scheduling gates."""
    if demand.spec is None or demand.template is None:
        return []
    template = demand.template.metadata or objects.ObjectMeta()
    read = objects.ObjectMeta(annotations=dict(template.annotations or {}))
    interning.trim(read)
    annotations = {**(read.annotations or {}), GANG: ""}
    labels = dict(template.labels or {}) or None
    spec = _change(
        demand.spec, nodeName=None, priority=priority_of(place), preemptionPolicy="Never", schedulingGates=None, schedulingGroup=None,
        workloadRef=None,
    )  # fmt: skip
    buffer = demand.obj.metadata
    owner = [objects.OwnerReference(KIND, buffer.name or "", "autoscaling.x-k8s.io/v1beta1", controller=True)]
    namespace = buffer.namespace or "default"
    found = []
    for number in range(1, demand.chunks + 1):
        name = f"capacity-buffer-{buffer.name}-{number}"
        while f"{namespace}/{name}" in pod_keys:
            name += "-chunk"
        pod_keys.add(f"{namespace}/{name}")
        metadata = objects.ObjectMeta(name, namespace, labels=labels, annotations=annotations, ownerReferences=owner)
        found.append(objects.Pod(metadata, spec, _PENDING))
    return found
