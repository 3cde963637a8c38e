"""Which kinds of object a snapshot holds: API group, type, and whether they live in a namespace."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from models import kube


class Kind(NamedTuple):
    """One kind that is read. Versions inside a group are not told apart: the fields read here are the same in all of them."""

    name: str
    groups: frozenset[str]
    type: type[msgspec.Struct]
    namespaced: bool


def _kind(type_: type[msgspec.Struct], groups: str, *, namespaced: bool = True) -> Kind:
    return Kind(type_.__name__, frozenset(groups.split(",")), type_, namespaced)


KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        _kind(kube.Node, "", namespaced=False),
        _kind(kube.Pod, ""),
        _kind(kube.Namespace, "", namespaced=False),
        _kind(kube.PriorityClass, "scheduling.k8s.io", namespaced=False),
        _kind(kube.PodDisruptionBudget, "policy"),
        _kind(kube.PersistentVolume, "", namespaced=False),
        _kind(kube.PersistentVolumeClaim, ""),
        _kind(kube.StorageClass, "storage.k8s.io", namespaced=False),
        _kind(kube.CSINode, "storage.k8s.io", namespaced=False),
        _kind(kube.NodeResourceTopology, "topology.node.k8s.io", namespaced=False),
        _kind(kube.Service, ""),
        _kind(kube.PodGroup, "scheduling.k8s.io,scheduling.x-k8s.io,scheduling.sigs.k8s.io,scheduling.volcano.sh"),
        _kind(kube.Workload, "scheduling.k8s.io"),
        _kind(kube.Deployment, "apps,extensions"),
        _kind(kube.ReplicaSet, "apps,extensions"),
        _kind(kube.StatefulSet, "apps"),
        _kind(kube.DaemonSet, "apps,extensions"),
        _kind(kube.Job, "batch"),
        _kind(kube.CronJob, "batch"),
        _kind(kube.PodTemplate, ""),
        _kind(kube.ReplicationController, ""),
    )
}

#: Kinds kept in ``Snapshot.workloads``.
WORKLOADS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "PodTemplate", "ReplicationController")


def find(api_version: str | None, kind: str) -> Kind | None:
    """The kind that is read under this name, or None for kinds that are only counted.

    Another group's kind of the same name is another kind; an object that states no apiVersion is taken by its kind.
    """
    found = KINDS.get(kind)
    if found is None or not api_version:
        return found
    group = api_version.partition("/")[0] if "/" in api_version else ""
    return found if group in found.groups else None


def pod_template(obj: object) -> tuple[str, kube.PodTemplateSpec] | None:
    """The pod template of a workload object and its field path; None where there is none."""
    template: kube.PodTemplateSpec | None = None
    path = "spec.template"
    if isinstance(obj, kube.CronJob):
        path = "spec.jobTemplate.spec.template"
        job = obj.spec.jobTemplate.spec if obj.spec and obj.spec.jobTemplate else None
        template = job.template if job else None
    elif isinstance(obj, kube.PodTemplate):
        path, template = "template", obj.template
    elif isinstance(obj, kube.Deployment | kube.ReplicaSet | kube.StatefulSet | kube.DaemonSet | kube.Job | kube.ReplicationController):
        template = obj.spec.template if obj.spec else None
    return None if template is None else (path, template)
