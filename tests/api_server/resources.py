"""The kinds that the server supports, with their API groups and paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


@dataclass(frozen=True)
class Resource:
    """A kind of object with its subresources."""

    kind: str
    plural: str
    group: str
    version: str
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    short: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """The API version, such as ``v1`` or ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The qualified name, such as ``pods`` or ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _cluster(kind: str, plural: str, group: str, version: str, *subresources: str, short: tuple[str, ...] = ()) -> Resource:
    return Resource(kind, plural, group, version, namespaced=False, subresources=subresources, short=short)


PODS = Resource("Pod", "pods", "", "v1", True, ("status", "binding", "eviction"), ("po",))
NODES = _cluster("Node", "nodes", "", "v1", "status", short=("no",))
NAMESPACES = _cluster("Namespace", "namespaces", "", "v1", "status", short=("ns",))
CLAIMS = Resource("PersistentVolumeClaim", "persistentvolumeclaims", "", "v1", True, ("status",), ("pvc",))
VOLUMES = _cluster("PersistentVolume", "persistentvolumes", "", "v1", "status", short=("pv",))
CLASSES = _cluster("StorageClass", "storageclasses", "storage.k8s.io", "v1", short=("sc",))
CSI_NODES = _cluster("CSINode", "csinodes", "storage.k8s.io", "v1")
PRIORITIES = _cluster("PriorityClass", "priorityclasses", "scheduling.k8s.io", "v1", short=("pc",))
BUDGETS = Resource("PodDisruptionBudget", "poddisruptionbudgets", "policy", "v1", True, ("status",), ("pdb",))
REPLICATION_CONTROLLERS = Resource("ReplicationController", "replicationcontrollers", "", "v1", True, ("status",), ("rc",))
REPLICA_SETS = Resource("ReplicaSet", "replicasets", "apps", "v1", True, ("status",), ("rs",))
DEPLOYMENTS = Resource("Deployment", "deployments", "apps", "v1", True, ("status",), ("deploy",))
STATEFUL_SETS = Resource("StatefulSet", "statefulsets", "apps", "v1", True, ("status",), ("sts",))
DAEMON_SETS = Resource("DaemonSet", "daemonsets", "apps", "v1", True, ("status",), ("ds",))
JOBS = Resource("Job", "jobs", "batch", "v1", True, ("status",))
LEASES = Resource("Lease", "leases", "coordination.k8s.io", "v1")
DEVICE_CLAIMS = Resource("ResourceClaim", "resourceclaims", "resource.k8s.io", "v1", True, ("status",))
CLAIM_TEMPLATES = Resource("ResourceClaimTemplate", "resourceclaimtemplates", "resource.k8s.io", "v1")
CSI_DRIVERS = _cluster("CSIDriver", "csidrivers", "storage.k8s.io", "v1")
DEVICE_CLASSES = _cluster("DeviceClass", "deviceclasses", "resource.k8s.io", "v1")
TAINT_RULES = _cluster("DeviceTaintRule", "devicetaintrules", "resource.k8s.io", "v1beta2")
SLICES = _cluster("ResourceSlice", "resourceslices", "resource.k8s.io", "v1")

RESOURCES: tuple[Resource, ...] = (
    PODS,
    NODES,
    NAMESPACES,
    CLAIMS,
    VOLUMES,
    REPLICATION_CONTROLLERS,
    Resource("Service", "services", "", "v1", True, ("status",), ("svc",)),
    Resource("ServiceAccount", "serviceaccounts", "", "v1", True, (), ("sa",)),
    Resource("ResourceQuota", "resourcequotas", "", "v1", True, ("status",), ("quota",)),
    Resource("LimitRange", "limitranges", "", "v1", True, (), ("limits",)),
    Resource("PodTemplate", "podtemplates", "", "v1"),
    Resource("ConfigMap", "configmaps", "", "v1", True, (), ("cm",)),
    REPLICA_SETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
    Resource("CronJob", "cronjobs", "batch", "v1", True, ("status",), ("cj",)),
    BUDGETS,
    PRIORITIES,
    CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    LEASES,
    DEVICE_CLAIMS,
    CLAIM_TEMPLATES,
    SLICES,
    DEVICE_CLASSES,
    TAINT_RULES,
    Resource("PodGroup", "podgroups", "scheduling.k8s.io", "v1alpha2"),
    Resource("Workload", "workloads", "scheduling.k8s.io", "v1alpha2"),
    Resource("PodGroup", "podgroups", "scheduling.x-k8s.io", "v1alpha1", True, ("status",), ("pg",)),
    Resource("PodGroup", "podgroups", "scheduling.sigs.k8s.io", "v1alpha1", True, ("status",)),
    Resource("PodGroup", "podgroups", "scheduling.volcano.sh", "v1beta1", True, ("status",)),
    _cluster("RuntimeClass", "runtimeclasses", "node.k8s.io", "v1"),
    _cluster("NodeResourceTopology", "noderesourcetopologies", "topology.node.k8s.io", "v1alpha2"),
    Resource("CapacityBuffer", "capacitybuffers", "autoscaling.x-k8s.io", "v1beta1", True, ("status",), ("cb",)),
    Resource("EvictionRequest", "evictionrequests", "lifecycle.k8s.io", "v1alpha1", True, ("status",)),
    Resource("BalloonsPolicy", "balloonspolicies", "config.nri", "v1alpha1", True, ("status",)),
    Resource("TopologyAwarePolicy", "topologyawarepolicies", "config.nri", "v1alpha1", True, ("status",)),
)

_BY_PATH = {(one.group, one.version, one.plural): one for one in RESOURCES}
_BY_KIND = {(one.kind, one.group): one for one in RESOURCES}
_LEGACY = {"extensions": "apps"}


def by_path(group: str, version: str, plural: str) -> Resource | None:
    """Return the resource of a URL."""
    return _BY_PATH.get((group, version, plural))


def by_kind(kind: str, api_version: str | None = None) -> Resource | None:
    """Return the resource of a kind, in a group if given. ``PodGroup.scheduling.k8s.io`` names both kind and group."""
    kind, _, group = kind.partition(".")
    if api_version:
        group = api_version.rpartition("/")[0]
        return _BY_KIND.get((kind, _LEGACY.get(group, group)))
    return next((one for one in RESOURCES if one.kind == kind and group in ("", one.group)), None)


def groups() -> list[str]:
    """Return the named API groups, in order."""
    return list(dict.fromkeys(one.group for one in RESOURCES if one.group))


def resource_list(group: str, version: str) -> Object | None:
    """Return the APIResourceList of a group version, or None if the version does not exist."""
    found = [one for one in RESOURCES if (one.group, one.version) == (group, version)]
    if not found:
        return None
    rows: list[Object] = []
    for one in found:
        row: Object = {
            "name": one.plural,
            "singularName": one.kind.lower(),
            "namespaced": one.namespaced,
            "kind": one.kind,
            "verbs": _VERBS,
        }
        rows.append(row | ({"shortNames": list(one.short)} if one.short else {}))
        for sub in one.subresources:
            kind, verbs = {"binding": ("Binding", ["create"]), "eviction": ("Eviction", ["create"])}.get(
                sub, (one.kind, ["get", "patch", "update"])
            )
            row = {"name": f"{one.plural}/{sub}", "singularName": "", "namespaced": one.namespaced, "kind": kind, "verbs": verbs}
            rows.append(row | ({"group": "policy", "version": "v1"} if sub == "eviction" else {}))
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{version}" if group else version, "resources": rows}


def group_list() -> Object:
    """Return the APIGroupList."""
    rows = []
    for group in groups():
        versions = dict.fromkeys(one.version for one in RESOURCES if one.group == group)
        named = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
        rows.append({"name": group, "versions": named, "preferredVersion": named[0]})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": rows}
