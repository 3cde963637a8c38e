"""Defaults that the API server sets when an object is stored. Idempotent: a dump of a cluster does not change.

Quantities that cannot be parsed (possible only after input validation) are left unchanged.

Source: k8s.io/kubernetes pkg/apis/{core,apps,batch,storage,node}/v1/defaults.go and the admission plugins Priority,
RuntimeClass and DefaultStorageClass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Final

import msgspec

from kubestow.models.kube import device_objects, kinds, objects, quantity
from kubestow.models.kube.lenient_decode import near_names, shorten
from kubestow.models.kube.namespace_limits import RuntimeClass
from kubestow.models.kube.pod_requests import Part, at_once, pod_level_resource
from kubestow.models.kube.storage_objects import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, StorageClass
from kubestow.models.kube.workload_objects import CronJob, Deployment, Job, JobSpec, ReplicaSet, ReplicationController, StatefulSet

#: Preemption policy of pods whose PriorityClass does not set one.
PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"
#: Priority classes that exist in every cluster (pkg/apis/scheduling/v1/helpers.go).
SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_DEFAULT_CLASS_ANNOTATIONS: Final = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"


def _round(resources: objects.ResourceList | None) -> None:
    """Round up quantities of a ResourceList to thousandths (SetDefaults_ResourceList)."""
    if resources is None:
        return
    for name, raw in resources.items():
        try:
            value = quantity.parse(raw)
        except quantity.QuantityError:
            continue
        if 1000 % value.denominator:
            resources[name] = quantity.canonical(quantity.milli_round(value))


# --- pods -------------------------------------------------------------------------------------------------------------


def pod_spec(spec: objects.PodSpec) -> None:
    """Set the defaults of a pod's spec in Kubernetes' order (SetDefaults_Pod); rounding comes last. Volumes are separate."""
    containers = [*(spec.containers or ()), *(spec.initContainers or ())]
    for container in containers:
        resources = container.resources
        if resources is not None and resources.limits is not None:
            resources.requests = {**resources.limits, **(resources.requests or {})}
    if spec.resources is not None:
        _pod_level(spec, spec.resources)
    for container in containers:
        _ports(container, host_network=bool(spec.hostNetwork))
        if container.resources is not None:
            _round(container.resources.requests)
            _round(container.resources.limits)
    if spec.resources is not None:
        _round(spec.resources.requests)
        _round(spec.resources.limits)
    _round(spec.overhead)
    for toleration in spec.tolerations or ():
        toleration.operator = toleration.operator or "Equal"
    for constraint in spec.topologySpreadConstraints or ():
        constraint.nodeAffinityPolicy = constraint.nodeAffinityPolicy or "Honor"
        constraint.nodeTaintsPolicy = constraint.nodeTaintsPolicy or "Ignore"


def volumes(listed: Iterable[objects.Volume] | None) -> None:
    """Set the defaults of claims created for ephemeral volumes."""
    for volume in listed or ():
        template = volume.ephemeral.volumeClaimTemplate if volume.ephemeral else None
        if template is not None and template.spec is not None:
            _claim_spec(template.spec)


def _ports(container: objects.Container, *, host_network: bool) -> None:
    for port in container.ports or ():
        port.protocol = port.protocol or "TCP"
        if host_network and not port.hostPort:
            port.hostPort = port.containerPort


def aggregate(spec: objects.PodSpec, pick: Callable[[objects.ResourceRequirements], objects.ResourceList | None]) -> dict[str, Fraction]:
    """Return the exact total of all containers (AggregateContainerRequests, AggregateContainerLimits before rounding)."""

    def own(container: objects.Container, _: Part) -> dict[str, Fraction]:
        resources = pick(container.resources) if container.resources is not None else None
        return {name: quantity.parse(raw) for name, raw in (resources or {}).items()}

    return at_once(spec, own)


def _pod_level(spec: objects.PodSpec, resources: objects.ResourceRequirements) -> None:
    """Set pod-level defaults: defaultHugePagePodLimits, then defaultPodRequests."""
    if not resources.limits and not resources.requests:
        return
    try:
        limits = aggregate(spec, lambda r: r.limits)
        requests = aggregate(spec, lambda r: r.requests)
    except quantity.QuantityError:
        return
    pages = {
        name: quantity.canonical(value)
        for name, value in limits.items()
        if name.startswith("hugepages-") and name not in (resources.requests or {})
    }
    if pages:
        resources.limits = {**pages, **(resources.limits or {})}
    if not resources.limits:
        return
    amounts = dict(resources.requests or {})
    for name in ("cpu", "memory"):
        if name not in amounts and name in requests:
            amounts[name] = quantity.canonical(requests[name])
    for name, raw in resources.limits.items():
        if name not in amounts and pod_level_resource(name):
            amounts[name] = raw
    if amounts:
        resources.requests = amounts


def default_priority(classes: Iterable[objects.PriorityClass]) -> int:
    """Return the priority of pods without a class: the lowest among global defaults (plugin/pkg/admission/priority)."""
    return min((each.value for each in classes if each.globalDefault), default=0)


def preemption_policy(spec: objects.PodSpec, classes: Mapping[str, objects.PriorityClass]) -> str | None:
    """Return a pod's preemption policy: its own, or else that of its class or of the lowest global default."""
    if spec.preemptionPolicy is not None:
        return spec.preemptionPolicy
    named = _priority_class(spec, classes)
    return named.preemptionPolicy if named is not None else None


def admitted_preemption_policy(spec: objects.PodSpec, classes: Mapping[str, objects.PriorityClass]) -> str | None:
    """Return the only preemption policy that an API server accepts for a new pod; None if the pod names an unknown class.

    A pod cannot choose its policy: admission computes it from the class (plugin/pkg/admission/priority).
    """
    named = _priority_class(spec, classes)
    if named is None and spec.priorityClassName and spec.priorityClassName not in SYSTEM_PRIORITIES:
        return None
    return (named.preemptionPolicy if named is not None else None) or PREEMPT_LOWER_PRIORITY


def _priority_class(spec: objects.PodSpec, classes: Mapping[str, objects.PriorityClass]) -> objects.PriorityClass | None:
    """Return the class of a pod, or else the lowest global default."""
    if spec.priorityClassName:
        return classes.get(spec.priorityClassName)
    return min((each for each in classes.values() if each.globalDefault), key=lambda each: each.value, default=None)


def priority(spec: objects.PodSpec, classes: Mapping[str, objects.PriorityClass]) -> int | None:
    """Return a pod's priority, or None if it names an unknown class."""
    if spec.priority is not None:
        return spec.priority
    if not spec.priorityClassName:
        return default_priority(classes.values())
    known = classes.get(spec.priorityClassName)
    return known.value if known is not None else SYSTEM_PRIORITIES.get(spec.priorityClassName)


# --- RuntimeClass: plugin/pkg/admission/runtimeclass, pkg/util/tolerations --------------------------------------------


class RuntimeClassError(Exception):
    """The admission plugin RuntimeClass rejects a pod. The message has the field below ``spec``, the value found and
    the value expected.
    """


def with_runtime_class(spec: objects.PodSpec, classes: Mapping[str, RuntimeClass]) -> objects.PodSpec:
    """Return a pod's spec with the overhead, node selector and tolerations of its RuntimeClass; the same object if nothing changes.

    Raises:
        RuntimeClassError: the class does not exist, or the pod contradicts it.
    """
    name = spec.runtimeClassName
    runtime_class = classes.get(name) if name is not None else None
    if name is not None and runtime_class is None:
        raise RuntimeClassError(f"runtimeClassName: got {shorten(name)}, expected a RuntimeClass of the input{near_names(name, classes)}")
    fixed = runtime_class.overhead.podFixed if runtime_class is not None and runtime_class.overhead is not None else None
    if spec.overhead and not _same_amounts(spec.overhead, fixed):
        of = f"that of RuntimeClass {shorten(name or '')} ({_listed(fixed)})" if name is not None else "none without a RuntimeClass"
        raise RuntimeClassError(f"overhead: got {_listed(spec.overhead)}, expected {of}")
    changes: dict[str, object] = {"overhead": fixed} if fixed and not spec.overhead else {}
    scheduling = runtime_class.scheduling if runtime_class is not None else None
    if scheduling is not None and scheduling.nodeSelector:
        own = spec.nodeSelector or {}
        for key, value in scheduling.nodeSelector.items():
            if own.get(key, value) != value:
                want = f"expected {shorten(value)}, as RuntimeClass {shorten(name or '')} has it"
                raise RuntimeClassError(f"nodeSelector[{key}]: got {shorten(own[key])}, {want}")
        changes["nodeSelector"] = {**own, **scheduling.nodeSelector}
    if scheduling is not None and scheduling.tolerations:
        changes["tolerations"] = _merged(list(spec.tolerations or ()), scheduling.tolerations)
    return msgspec.structs.replace(spec, **changes) if changes else spec


def _same_amounts(one: objects.ResourceList, other: objects.ResourceList | None) -> bool:
    exact = [{name: quantity.milli_round(quantity.parse(raw)) for name, raw in (each or {}).items()} for each in (one, other)]
    return exact[0] == exact[1]


def _listed(amounts: objects.ResourceList | None) -> str:
    return ", ".join(f"{name} {raw}" for name, raw in sorted((amounts or {}).items())) or "none"


def _merged(first: list[objects.Toleration], second: list[objects.Toleration]) -> list[objects.Toleration]:
    """Merge tolerations; if one covers another, only the wider one is kept (MergeTolerations)."""
    listed = [*first, *second]
    kept: list[objects.Toleration] = []
    for i, one in enumerate(listed):
        wider = any(other != one and _covers(other, one) for other in listed[i + 1 :])
        if not wider and not any(_covers(other, one) for other in kept):
            kept.append(one)
    return kept


def _covers(wide: objects.Toleration, narrow: objects.Toleration) -> bool:
    """Return True if ``wide`` tolerates every taint that ``narrow`` tolerates (isSuperset)."""
    if wide == narrow:
        return True
    if (wide.key or "") != (narrow.key or "") and (wide.key or wide.operator != "Exists"):
        return False
    if wide.effect and wide.effect != narrow.effect:
        return False
    if wide.operator == "Exists":
        return True
    equal = wide.operator in (None, "", "Equal") and narrow.operator == "Equal"
    return equal and (wide.value or "") == (narrow.value or "")


# --- other kinds ------------------------------------------------------------------------------------------------------


def _claim_spec(spec: objects.PersistentVolumeClaimSpec) -> None:
    spec.volumeMode = spec.volumeMode or "Filesystem"
    if spec.resources is not None:
        _round(spec.resources.requests)


def _claim(claim: PersistentVolumeClaim) -> None:
    if claim.spec is None:
        claim.spec = objects.PersistentVolumeClaimSpec()
    beta = (claim.metadata.annotations or {}).get(_BETA_CLASS)
    if beta is not None:  # takes precedence over the field (GetPersistentVolumeClaimClass)
        claim.spec.storageClassName = beta
    _claim_spec(claim.spec)


def _volume(volume: PersistentVolume) -> None:
    if volume.spec is None:
        volume.spec = PersistentVolumeSpec()
    beta = (volume.metadata.annotations or {}).get(_BETA_CLASS)
    if beta is not None:
        volume.spec.storageClassName = beta
    volume.spec.volumeMode = volume.spec.volumeMode or "Filesystem"
    _round(volume.spec.capacity)


def _node(node: objects.Node) -> None:
    status = node.status
    if status is None:
        return
    _round(status.capacity)
    _round(status.allocatable)
    if status.allocatable is None and status.capacity is not None:
        status.allocatable = dict(status.capacity)


def _device_requests(spec: device_objects.ResourceClaimSpec | None) -> None:
    """Set the defaults of device requests (SetDefaults_ExactDeviceRequest, SetDefaults_DeviceSubRequest and
    SetDefaults_DeviceToleration of resource/v1).
    """
    for request in (spec.devices.requests if spec is not None and spec.devices is not None else None) or ():
        subrequests: list[device_objects.ExactDeviceRequest | device_objects.DeviceSubRequest] = [*(request.firstAvailable or ())]
        for each in subrequests + ([request.exactly] if request.exactly is not None else []):
            each.allocationMode = each.allocationMode or "ExactCount"
            if each.allocationMode == "ExactCount" and not each.count:
                each.count = 1
            for toleration in each.tolerations or ():
                toleration.operator = toleration.operator or "Equal"


def _namespace(namespace: objects.Namespace) -> None:
    name = namespace.metadata.name or ""
    if (namespace.metadata.labels or {}).get(_NAMESPACE_LABEL) != name:
        namespace.metadata.labels = {**(namespace.metadata.labels or {}), _NAMESPACE_LABEL: name}


def _runtime_class(runtime_class: RuntimeClass) -> None:
    _round(runtime_class.overhead.podFixed if runtime_class.overhead is not None else None)
    for toleration in (runtime_class.scheduling.tolerations if runtime_class.scheduling is not None else None) or ():
        toleration.operator = toleration.operator or "Equal"


def _job_spec(spec: JobSpec | None) -> None:
    if spec is None:
        return
    if spec.completions is None and spec.parallelism is None:
        spec.completions = 1
    if spec.parallelism is None:
        spec.parallelism = 1


def _workload(obj: object) -> None:
    template = kinds.pod_template(obj)
    if template is not None and template[1].spec is not None:
        pod_spec(template[1].spec)
        volumes(template[1].spec.volumes)
    if isinstance(obj, Deployment | ReplicaSet | StatefulSet | ReplicationController) and obj.spec is not None:
        if obj.spec.replicas is None:
            obj.spec.replicas = 1
        if isinstance(obj, StatefulSet):
            for claim in obj.spec.volumeClaimTemplates or ():
                if claim.spec is not None:
                    _claim_spec(claim.spec)
        if isinstance(obj, ReplicationController) and not obj.spec.selector and template is not None:
            obj.spec.selector = dict((template[1].metadata.labels if template[1].metadata else None) or {}) or None
    elif isinstance(obj, Job):
        _job_spec(obj.spec)
    elif isinstance(obj, CronJob) and obj.spec is not None and obj.spec.jobTemplate is not None:
        _job_spec(obj.spec.jobTemplate.spec)


def apply(obj: object) -> None:
    """Set all defaults that depend on no other object."""
    if isinstance(obj, objects.Pod):
        pod_spec(obj.spec)
        volumes(obj.spec.volumes)
    elif isinstance(obj, objects.Node):
        _node(obj)
    elif isinstance(obj, objects.Namespace):
        _namespace(obj)
    elif isinstance(obj, PersistentVolumeClaim):
        _claim(obj)
    elif isinstance(obj, PersistentVolume):
        _volume(obj)
    elif isinstance(obj, StorageClass):
        obj.volumeBindingMode = obj.volumeBindingMode or "Immediate"
    elif isinstance(obj, RuntimeClass):
        _runtime_class(obj)
    elif isinstance(obj, device_objects.ResourceClaim):
        _device_requests(obj.spec)
    elif isinstance(obj, device_objects.ResourceClaimTemplate):
        _device_requests(obj.spec.spec if obj.spec is not None else None)
    else:
        _workload(obj)


def default_storage_class(classes: Iterable[StorageClass]) -> str | None:
    """Return the cluster's default class: the newest, then the first by name (pkg/volume/util, GetDefaultClass). None without one."""
    chosen = [c for c in classes if any((c.metadata.annotations or {}).get(a) == "true" for a in _DEFAULT_CLASS_ANNOTATIONS)]
    chosen.sort(key=lambda c: c.metadata.name or "")
    chosen.sort(key=lambda c: c.metadata.creationTimestamp or "", reverse=True)
    return chosen[0].metadata.name if chosen else None
