"""Validation as in an API server, of all fields that placement reads. Problems have the form ``path: problem, expected value``.

If the API server might accept a value, so does this module, and a dump of a real cluster always passes. Names and
labels are not checked.

Source: k8s.io/kubernetes pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from kubestow.models.kube import device_objects, kinds, objects, topology_objects, workload_objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.namespace_limits import LimitRange, ResourceQuota, RuntimeClass
from kubestow.models.kube.storage_objects import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from kubestow.models.kube.validation import devices
from kubestow.models.kube.validation.pods import (
    EFFECTS,
    MAX_INT32,
    MAX_INT64,
    Problems,
    UnknownValue,
    affinity_problems,
    check_choice,
    check_claim_spec,
    check_label_selector,
    check_node_selector,
    check_quantity,
    check_range,
    check_resources,
    check_toleration,
    spec_problems,
    status_problems,
    volume_problems,
)
from kubestow.models.kube.workload_objects import (
    CapacityBuffer,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    JobSpec,
    PodGroup,
    ReplicaSet,
    ReplicationController,
    SchedulingPolicy,
    StatefulSet,
    Workload,
)

_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_PERCENT: Final = re.compile(r"[0-9]{1,9}%\Z", re.ASCII)


def _node(node: objects.Node, out: Problems) -> None:
    for index, taint in enumerate((node.spec.taints if node.spec else None) or ()):
        if taint.effect not in EFFECTS:
            out.append(UnknownValue(f"spec.taints[{index}].effect", taint.effect, EFFECTS, "the taint repels no pods"))
    if node.status is not None:
        check_resources(node.status.capacity, "status.capacity", out)
        check_resources(node.status.allocatable, "status.allocatable", out)


def _volume(volume: PersistentVolume, out: Problems) -> None:
    if volume.spec is not None:
        check_resources(volume.spec.capacity, "spec.capacity", out)
        check_node_selector(volume.spec.nodeAffinity.required if volume.spec.nodeAffinity else None, "spec.nodeAffinity.required", out)


def _topology(obj: topology_objects.NodeResourceTopology, out: Problems) -> None:
    for i, zone in enumerate(obj.zones or ()):
        for j, cost in enumerate(zone.costs or ()):
            check_range(cost.value, -MAX_INT64 - 1, MAX_INT64, f"zones[{i}].costs[{j}].value", out)
        for j, resource in enumerate(zone.resources or ()):
            for field in ("capacity", "allocatable", "available"):
                raw = getattr(resource, field)
                if raw is not None:  # available may be negative if pods hold more than the exporter counts
                    check_quantity(resource.name, raw, f"zones[{i}].resources[{j}].{field}", out, negative=True)


def _percentage(value: int | str | None, path: str, out: Problems) -> None:
    if isinstance(value, int):
        check_range(value, 0, MAX_INT32, path, out)
    elif value is not None and not _PERCENT.match(value):
        out.append(f"{path}: got {shorten(value)}, expected a whole number or a percentage such as 50%")


def _budget(budget: workload_objects.PodDisruptionBudget, out: Problems) -> None:
    if budget.spec is not None:
        check_label_selector(budget.spec.selector, "spec.selector", out)
        _percentage(budget.spec.minAvailable, "spec.minAvailable", out)
        _percentage(budget.spec.maxUnavailable, "spec.maxUnavailable", out)


def _workload(obj: object, gates: FeatureGates | None, out: Problems) -> None:
    template = kinds.pod_template(obj)
    if template is not None and template[1].spec is not None:
        spec, path = template[1].spec, f"{template[0]}.spec"
        out += (
            spec_problems(spec, path, gates)
            + affinity_problems(spec.affinity, f"{path}.affinity")
            + volume_problems(spec.volumes, f"{path}.volumes")
        )
    if isinstance(obj, Deployment | ReplicaSet | StatefulSet | DaemonSet) and obj.spec is not None:
        check_label_selector(obj.spec.selector, "spec.selector", out)
        for index, claim in enumerate(obj.spec.volumeClaimTemplates or ()):
            check_claim_spec(claim.spec, f"spec.volumeClaimTemplates[{index}].spec", out)
        for field in ("strategy", "updateStrategy"):
            rolling = strategy.rollingUpdate if (strategy := getattr(obj.spec, field)) else None
            if rolling is not None:
                _percentage(rolling.maxSurge, f"spec.{field}.rollingUpdate.maxSurge", out)
                _percentage(rolling.maxUnavailable, f"spec.{field}.rollingUpdate.maxUnavailable", out)
    if isinstance(obj, Deployment | ReplicaSet | StatefulSet | ReplicationController) and obj.spec is not None:
        check_range(obj.spec.replicas, 0, MAX_INT32, "spec.replicas", out)
        if isinstance(obj, StatefulSet) and obj.spec.ordinals is not None:
            check_range(obj.spec.ordinals.start, 0, MAX_INT32, "spec.ordinals.start", out)
    elif isinstance(obj, Job):
        _job(obj.spec, "spec", out)
    elif isinstance(obj, CronJob) and obj.spec is not None and obj.spec.jobTemplate is not None:
        _job(obj.spec.jobTemplate.spec, "spec.jobTemplate.spec", out)


def _job(spec: JobSpec | None, path: str, out: Problems) -> None:
    if spec is not None:
        check_range(spec.parallelism, 0, MAX_INT32, f"{path}.parallelism", out)
        check_range(spec.completions, 0, MAX_INT32, f"{path}.completions", out)
        if spec.completionMode == "Indexed" and spec.completions is None and spec.parallelism is not None:
            out.append(f"{path}.completions: missing, expected it with completionMode Indexed")
        check_label_selector(spec.selector, f"{path}.selector", out)


def _csi_node(node: CSINode, out: Problems) -> None:
    for index, driver in enumerate((node.spec.drivers if node.spec else None) or ()):
        if driver.allocatable is not None:
            check_range(driver.allocatable.count, 0, MAX_INT32, f"spec.drivers[{index}].allocatable.count", out)


def _gang_policy(policy: SchedulingPolicy | None, path: str, out: Problems) -> None:
    if policy is not None and policy.gang is not None:
        check_range(policy.gang.minCount, 0, MAX_INT32, f"{path}.gang.minCount", out)


def _pod_group(group: PodGroup, out: Problems) -> None:
    if group.spec is not None:
        check_range(group.spec.minMember, 0, MAX_INT32, "spec.minMember", out)
        _gang_policy(group.spec.schedulingPolicy, "spec.schedulingPolicy", out)
        if group.spec.networkTopology is not None:
            check_choice(group.spec.networkTopology.mode, ("hard", "soft"), "spec.networkTopology.mode", out)


def _scheduling_workload(workload: Workload, out: Problems) -> None:
    for index, group in enumerate((workload.spec.podGroups if workload.spec else None) or ()):
        _gang_policy(group.policy, f"spec.podGroups[{index}].policy", out)


def _runtime_class(obj: RuntimeClass, gates: FeatureGates | None, out: Problems) -> None:
    check_resources(obj.overhead.podFixed if obj.overhead else None, "overhead.podFixed", out)
    for index, toleration in enumerate((obj.scheduling.tolerations if obj.scheduling else None) or ()):
        check_toleration(toleration, f"scheduling.tolerations[{index}]", gates, out)


def _limit_range(obj: LimitRange, out: Problems) -> None:
    for index, item in enumerate((obj.spec.limits if obj.spec else None) or ()):
        for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            check_resources(getattr(item, field), f"spec.limits[{index}].{field}", out)


def _capacity_buffer(obj: CapacityBuffer, gates: FeatureGates | None, out: Problems) -> None:
    """Append the problems of a CapacityBuffer by the rules of its CustomResourceDefinition.

    Older definitions lack the rules about references, so stored objects may break them.
    """
    spec = obj.spec
    if spec is None:
        return
    for field in ("replicas", "percentage"):
        value = getattr(spec, field)
        if value is not None:
            check_range(value, 0, MAX_INT32, f"spec.{field}", out)
    check_resources(spec.limits, "spec.limits", out)
    if gates is not None and spec.podTemplateRef is not None:
        if spec.scalableRef is not None:
            out.append("spec.scalableRef: set together with podTemplateRef, expected only one of the two")
        if spec.replicas is None and spec.limits is None:
            out.append("spec.replicas: missing, expected replicas or limits with podTemplateRef")


_CHECKS: Final[dict[type[object], Callable[..., None]]] = {
    objects.Node: _node,
    PersistentVolumeClaim: lambda obj, out: check_claim_spec(obj.spec, "spec", out),
    PersistentVolume: _volume,
    StorageClass: lambda obj, out: check_choice(obj.volumeBindingMode, _MODES, "volumeBindingMode", out, "it is treated as Immediate"),
    topology_objects.NodeResourceTopology: _topology,
    workload_objects.PodDisruptionBudget: _budget,
    CSINode: _csi_node,
    objects.PriorityClass: lambda obj, out: check_range(obj.value, -MAX_INT32 - 1, MAX_INT32, "value", out),
    PodGroup: _pod_group,
    Workload: _scheduling_workload,
    ResourceQuota: lambda obj, out: check_resources(obj.spec.hard if obj.spec else None, "spec.hard", out),
    LimitRange: _limit_range,
}


def problems(obj: object, gates: FeatureGates | None = None) -> Problems:
    """Return all problems of an object as it was read, before defaulting.

    Args:
        obj: The object.
        gates: Feature gates of the API server that will receive the object; None for a stored object.
    """
    if isinstance(obj, objects.Pod):
        return (
            spec_problems(obj.spec, gates=gates)
            + affinity_problems(obj.spec.affinity)
            + volume_problems(obj.spec.volumes)
            + status_problems(obj.status)
        )
    out: Problems = []
    check = _CHECKS.get(type(obj))
    if check is not None:
        check(obj, out)
    elif isinstance(obj, RuntimeClass):
        _runtime_class(obj, gates, out)
    elif isinstance(obj, CapacityBuffer):
        _capacity_buffer(obj, gates, out)
    elif type(obj).__module__ == device_objects.__name__:
        devices.CHECKS[type(obj)](obj, gates, out)
    else:
        _workload(obj, gates, out)
    return out
