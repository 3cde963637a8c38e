"""The number of chunks that each CapacityBuffer requests, and their pod template.

Source: cluster-autoscaler pkg/capacitybuffer, translators (replicas.go, pod_template_translator.go,
scalable_objects_translator.go) and filters (strategy_filter.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kubestow.models.kube import kinds, objects, pod_requests, quantity
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.workload_objects import CapacityBuffer, CapacityBufferSpec, Job, PodTemplateSpec
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import named
from kubestow.models.workloads.pods import NotAdmitted, admitted

#: The single strategy of cluster-autoscaler, and its default.
ACTIVE: Final = "buffer.x-k8s.io/active-capacity"
READY: Final = "ReadyForProvisioning"
#: More chunks of one buffer than this are most likely a typing error.
MAX_CHUNKS: Final = 100_000
#: Workloads whose template is read, by API group. cluster-autoscaler writes the empty group as "core".
_SCALABLE: Final = {
    "apps": ("Deployment", "ReplicaSet", "StatefulSet"),
    "batch": ("Job",),
    "": ("ReplicationController",),
    "core": ("ReplicationController",),
}


@dataclass(frozen=True)
class BufferDemand:
    """The demand of a buffer.

    Attributes:
        buffer: ``namespace/name``.
        obj: The CapacityBuffer.
        chunks: Number of pods of ``template`` that are to fit; 0 with a problem.
        template: None with a problem.
        spec: Spec of a chunk, as the API server would store it; None with a problem.
        problem: Reason why the buffer requests nothing, in a sentence, or None.
        foreign: True if another autoscaler may handle it: the problem is its strategy or an unread kind.
        missing: True if the problem is a missing object.
    """

    buffer: str
    obj: CapacityBuffer
    chunks: int = 0
    template: PodTemplateSpec | None = None
    spec: objects.PodSpec | None = None
    problem: str | None = None
    foreign: bool = False
    missing: bool = False


class _Unclear(Exception):
    """The buffer requests nothing that is known here; the text has the reason."""

    foreign = missing = False


class _Missing(_Unclear):
    """An object is missing."""

    missing = True


class _Foreign(_Unclear):
    """Another autoscaler may handle the buffer."""

    foreign = True


def demands(snapshot: Snapshot) -> list[BufferDemand]:
    """Return the demand of each buffer, sorted by name."""
    return [_demand(key, obj, snapshot) for key, obj in sorted(snapshot.capacity_buffers.items())]


def sentences(buffers: Iterable[BufferDemand]) -> Iterator[str]:
    """Yield a sentence for each buffer without a known demand."""
    for demand in buffers:
        if demand.problem is not None:
            yield f"CapacityBuffer {demand.buffer} holds no headroom here: {demand.problem}"


def _demand(key: str, obj: CapacityBuffer, snapshot: Snapshot) -> BufferDemand:
    spec = obj.spec or CapacityBufferSpec()
    try:
        if spec.provisioningStrategy not in (None, "", ACTIVE):
            raise _Foreign(f"spec.provisioningStrategy {shorten(spec.provisioningStrategy)} is unknown, expected {ACTIVE}")
        if any(c.type == READY and c.status == "False" for c in (obj.status.conditions if obj.status else None) or ()):
            raise _Unclear(f"its condition {READY} is False: the autoscaler could not interpret the buffer")
        template, scale = _template(obj, spec, snapshot)
        if template.spec is None:
            raise _Unclear("its pod template has no spec")
        if snapshot.shared_gpus != "none" and _asks_for_devices(template):
            raise _Foreign(f"its chunks request devices, which are not read in buffers while sharedGPUs is {snapshot.shared_gpus}")
        admitted_spec = admitted(template.spec, _namespace(obj), snapshot)
        chunks = obj.status.replicas if obj.status is not None else None
        if chunks is None:
            chunks = _chunks(spec, scale, admitted_spec, snapshot)
    except NotAdmitted as error:
        return BufferDemand(key, obj, problem=f"its pod template is refused: {error}", missing=True)
    except _Unclear as error:
        return BufferDemand(key, obj, problem=str(error), foreign=error.foreign, missing=error.missing)
    except quantity.QuantityError as error:
        return BufferDemand(key, obj, problem=str(error))
    if chunks > MAX_CHUNKS:
        return BufferDemand(key, obj, problem=f"it requests {chunks} chunks, expected at most {MAX_CHUNKS}")
    return BufferDemand(key, obj, max(0, chunks), template, admitted_spec)


def _template(obj: CapacityBuffer, spec: CapacityBufferSpec, snapshot: Snapshot) -> tuple[PodTemplateSpec, int | None]:
    """Return the pod template of a chunk, and the replicas of its workload."""
    own, scalable = spec.podTemplateRef, spec.scalableRef
    if (own is None) == (scalable is None):
        raise _Unclear("spec has " + ("neither" if own is None else "both") + " of podTemplateRef and scalableRef, expected exactly one")
    managed = obj.status.podTemplateRef if obj.status is not None else None
    template = _pod_template(obj, managed.name if managed is not None else None, snapshot)
    scale = None
    if own is not None:
        template = template or _pod_template(obj, own.name, snapshot)
        if template is None:
            raise _Missing(f"there is no PodTemplate {shorten(f'{_namespace(obj)}/{own.name}')}, which spec.podTemplateRef names")
        return template, None
    assert scalable is not None
    kind, group = scalable.kind or "", scalable.apiGroup or ""
    if kind not in _SCALABLE.get(group, ()):
        if template is None or obj.status is None or obj.status.replicas is None:
            raise _Foreign(f"spec.scalableRef is a {shorten(kind)} of API group {shorten(group)}, a kind that is not read")
        return template, None
    workload = named(snapshot, kind, _namespace(obj), scalable.name or "")
    if workload is not None:
        scale = _scale(workload)
        own_template = kinds.pod_template(workload)
        template = template or (own_template[1] if own_template is not None else None)
    if template is None:
        missing = "has no pod template" if workload is not None else "is not there"
        raise _Missing(f"{kind} {shorten(f'{_namespace(obj)}/{scalable.name}')}, which spec.scalableRef names, {missing}")
    return template, scale


def _asks_for_devices(template: PodTemplateSpec) -> bool:
    """Return True if containers request device resources, or annotations request shares of devices."""
    spec, metadata = template.spec or objects.PodSpec(), template.metadata or objects.ObjectMeta()
    resources = [
        name
        for container in (*(spec.containers or ()), *(spec.initContainers or ()))
        for given in ((container.resources.requests, container.resources.limits) if container.resources is not None else ())
        for name in given or ()
    ]
    return any("/" in name for name in resources) or any(key.startswith("gpu-") for key in metadata.annotations or ())


def _chunks(spec: CapacityBufferSpec, scale: int | None, chunk: objects.PodSpec, snapshot: Snapshot) -> int:
    """Return the number of chunks: the larger of replicas and percentage, within the limits."""
    stated: list[int] = []
    if spec.replicas is not None:
        stated.append(max(0, spec.replicas))
    if spec.percentage is not None and scale is not None:
        stated.append(-(-max(0, spec.percentage) * max(0, scale) // 100))
    if spec.limits is None:
        if not stated:
            raise _Unclear("spec has none of replicas, limits and (with scalableRef) percentage: the number of chunks is unknown")
        return max(stated)
    within = _within(spec.limits, chunk, snapshot)
    return min(max(stated), within) if stated else within


def _within(limits: objects.ResourceList, chunk: objects.PodSpec, snapshot: Snapshot) -> int:
    """Return the number of chunks that fit into limits. Resources that a chunk does not request limit nothing."""
    requested = pod_requests.pod_request(objects.Pod(objects.ObjectMeta(), chunk), snapshot.gates)
    counts = [
        quantity.milli(limits[name]) // (amount if name == "cpu" else amount * 1000)
        for name, amount in requested.items()
        if name in limits and amount > 0
    ]
    if not counts:
        raise _Unclear("spec.limits names no resource that its pod template requests")
    return max(0, min(counts))


def _pod_template(obj: CapacityBuffer, name: str | None, snapshot: Snapshot) -> PodTemplateSpec | None:
    obj_template = named(snapshot, "PodTemplate", _namespace(obj), name) if name else None
    return obj_template.template if obj_template is not None else None


def _scale(workload: Any) -> int:
    """Return the replicas of a workload as in its scale subresource; of a Job, its parallelism.

    Without a status, these are the requested replicas.
    """
    if isinstance(workload, Job):
        parallelism = workload.spec.parallelism if workload.spec is not None else None
        return 1 if parallelism is None else parallelism
    if workload.status is not None:
        return workload.status.replicas or 0
    replicas = workload.spec.replicas if workload.spec is not None else None
    return 1 if replicas is None else int(replicas)


def _namespace(obj: CapacityBuffer) -> str:
    return obj.metadata.namespace or "default"
