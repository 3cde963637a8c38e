"""The kinds of objects that a snapshot holds: API group, type, and scope."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from kubestow.models.kube import device_objects, namespace_limits, objects, topology_objects, workload_objects
from kubestow.models.kube.storage_objects import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from kubestow.models.kube.workload_objects import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    PodGroup,
    PodSet,
    PodTemplate,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    Workload,
)


class Kind(NamedTuple):
    """A kind that is read. Versions within a group are not distinguished, because the fields read here are equal in all."""

    name: str
    groups: frozenset[str]
    type: type[msgspec.Struct]
    namespaced: bool


def _kind(type_: type[msgspec.Struct], groups: str, *, namespaced: bool = True) -> Kind:
    return Kind(type_.__name__, frozenset(groups.split(",")), type_, namespaced)


KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        _kind(objects.Node, "", namespaced=False),
        _kind(objects.Pod, ""),
        _kind(objects.Namespace, "", namespaced=False),
        _kind(objects.PriorityClass, "scheduling.k8s.io", namespaced=False),
        _kind(workload_objects.PodDisruptionBudget, "policy"),
        _kind(workload_objects.EvictionRequest, "lifecycle.k8s.io"),
        _kind(PersistentVolume, "", namespaced=False),
        _kind(PersistentVolumeClaim, ""),
        _kind(StorageClass, "storage.k8s.io", namespaced=False),
        _kind(CSINode, "storage.k8s.io", namespaced=False),
        _kind(CSIDriver, "storage.k8s.io", namespaced=False),
        _kind(device_objects.ResourceSlice, "resource.k8s.io", namespaced=False),
        _kind(device_objects.DeviceClass, "resource.k8s.io", namespaced=False),
        _kind(device_objects.DeviceTaintRule, "resource.k8s.io", namespaced=False),
        _kind(device_objects.ResourceClaim, "resource.k8s.io"),
        _kind(device_objects.ResourceClaimTemplate, "resource.k8s.io"),
        _kind(topology_objects.NodeResourceTopology, "topology.node.k8s.io", namespaced=False),
        _kind(topology_objects.BalloonsPolicy, "config.nri"),
        _kind(topology_objects.TopologyAwarePolicy, "config.nri"),
        _kind(workload_objects.CapacityBuffer, "autoscaling.x-k8s.io"),
        _kind(objects.Service, ""),
        _kind(namespace_limits.ResourceQuota, ""),
        _kind(namespace_limits.LimitRange, ""),
        _kind(namespace_limits.RuntimeClass, "node.k8s.io", namespaced=False),
        _kind(objects.ServiceAccount, ""),
        _kind(PodGroup, "scheduling.k8s.io,scheduling.x-k8s.io,scheduling.sigs.k8s.io,scheduling.volcano.sh"),
        _kind(Workload, "scheduling.k8s.io"),
        _kind(Deployment, "apps,extensions"),
        _kind(ReplicaSet, "apps,extensions"),
        _kind(StatefulSet, "apps"),
        _kind(DaemonSet, "apps,extensions"),
        _kind(Job, "batch"),
        _kind(CronJob, "batch"),
        _kind(PodTemplate, ""),
        _kind(ReplicationController, ""),
    )
}

#: Kinds kept in ``Snapshot.workloads``.
WORKLOADS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "PodTemplate", "ReplicationController")
#: The other kinds, with the fields of the Snapshot that hold them.
FIELDS: Final = {
    "Node": "nodes",
    "Pod": "pods",
    "Namespace": "namespaces",
    "PriorityClass": "priority_classes",
    "PodDisruptionBudget": "pod_disruption_budgets",
    "EvictionRequest": "eviction_requests",
    "PersistentVolume": "persistent_volumes",
    "PersistentVolumeClaim": "persistent_volume_claims",
    "StorageClass": "storage_classes",
    "CSINode": "csi_nodes",
    "CSIDriver": "csi_drivers",
    "ResourceSlice": "resource_slices",
    "DeviceClass": "device_classes",
    "DeviceTaintRule": "device_taint_rules",
    "ResourceClaim": "resource_claims",
    "ResourceClaimTemplate": "resource_claim_templates",
    "NodeResourceTopology": "node_topologies",
    "BalloonsPolicy": "balloons_policies",
    "TopologyAwarePolicy": "topology_aware_policies",
    "CapacityBuffer": "capacity_buffers",
    "Service": "services",
    "ResourceQuota": "resource_quotas",
    "LimitRange": "limit_ranges",
    "RuntimeClass": "runtime_classes",
    "ServiceAccount": "service_accounts",
    "PodGroup": "pod_groups",
    "Workload": "scheduling_workloads",
}


def name_of(obj: object) -> str:
    """Return the kind of an object. Pod sets have that of the custom workload that they belong to."""
    return obj.kind if isinstance(obj, PodSet) else type(obj).__name__


def kind_of(obj: object) -> Kind:
    """Return the kind of an object that was read."""
    return Kind(obj.kind, frozenset(), PodSet, True) if isinstance(obj, PodSet) else KINDS[type(obj).__name__]


def find(api_version: str | None, kind: str) -> Kind | None:
    """Return the kind that is read under this name, or None for kinds that are only counted.

    A kind of the same name in another group is a different kind. An object without apiVersion is identified by its kind.
    """
    known = KINDS.get(kind)
    if known is None or not api_version:
        return known
    group = api_version.partition("/")[0] if "/" in api_version else ""
    return known if group in known.groups else None


def pod_template(obj: object) -> tuple[str, PodTemplateSpec] | None:
    """Return the field path and pod template of a workload, or None."""
    template: PodTemplateSpec | None = None
    path = "spec.template"
    if isinstance(obj, PodSet):
        path, template = (obj.spec.path, obj.spec.template) if obj.spec else (path, None)
    elif isinstance(obj, CronJob):
        path = "spec.jobTemplate.spec.template"
        job = obj.spec.jobTemplate.spec if obj.spec and obj.spec.jobTemplate else None
        template = job.template if job else None
    elif isinstance(obj, PodTemplate):
        path, template = "template", obj.template
    elif isinstance(obj, Deployment | ReplicaSet | StatefulSet | DaemonSet | Job | ReplicationController):
        template = obj.spec.template if obj.spec else None
    return None if template is None else (path, template)
