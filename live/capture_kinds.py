"""What to ask an API server for: the kinds that are read, under the names and versions that this server has for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kubestow.models.kube import kinds

#: What refers to others comes before what it refers to, so that a pod's claims, node or owner are there unless they were deleted meanwhile;
#: one that was made meanwhile is named by no pod, and does no harm.
ORDER: Final = (
    "Pod",
    "PodGroup",
    "Workload",
    "CapacityBuffer",
    "ReplicaSet",
    "ReplicationController",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "PodTemplate",
    "Service",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "EvictionRequest",
    "ResourceClaimTemplate",
    "ResourceClaim",
    "DeviceClass",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "PriorityClass",
    "RuntimeClass",
    "Namespace",
    "CSIDriver",
    "CSINode",
    "DeviceTaintRule",
    "ResourceSlice",
    "NodeResourceTopology",
    "BalloonsPolicy",
    "TopologyAwarePolicy",
    "Node",
)
#: Kinds that are read where a snapshot has them, and that no placement depends on.
NOT_ASKED: Final = frozenset({"ServiceAccount"})
#: Dynamic resource allocation, which servers have since 1.34, and taints of devices where they are turned on.
_DEVICES: Final = ("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "DeviceTaintRule")
#: Kinds that clusters may do without: extensions, what is new or gone in some version, and what only keeps new pods from being created.
_OPTIONAL: Final = frozenset(
    {
        "PodGroup",
        "Workload",
        "NodeResourceTopology",
        "BalloonsPolicy",
        "TopologyAwarePolicy",
        "CapacityBuffer",
        "ResourceQuota",
        "LimitRange",
        "RuntimeClass",
        "EvictionRequest",
        *_DEVICES,
    }
)
#: Once the home of what ``apps`` has now; a server with both has the same objects in both.
_LEGACY: Final = "extensions"
_ROW: Final = re.compile(r"([a-z0-9.-]+)\s+(?:\S+\s+)?((?:[a-z0-9.-]+/)?v[0-9][a-z0-9]*)\s+(true|false)\s+([A-Za-z0-9]+)\s*")


class Resource(NamedTuple):
    """A kind as a server has it. ``plural``: its name in URLs; ``api_version``: ``v1``, ``apps/v1`` …"""

    kind: kinds.Kind
    plural: str
    api_version: str
    namespaced: bool

    @property
    def label(self) -> str:
        """Return what ``kubectl get`` calls it: ``pods``, ``podgroups.scheduling.x-k8s.io``."""
        group = self.api_version.rpartition("/")[0]
        return f"{self.plural}.{group}" if group else self.plural

    def url(self, namespace: str | None = None) -> str:
        """Return the path of its objects: all, or those of one namespace."""
        base = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        return f"{base}/{self.plural}" if namespace is None else f"{base}/namespaces/{namespace}/{self.plural}"


class Served(NamedTuple):
    """``resources``: what to ask for, in ``ORDER``; ``lacking``: kinds that every server has and this one does not name; ``absent``: kinds
    (with their API group) that it does without."""

    resources: list[Resource]
    lacking: list[str]
    absent: list[str]


def listed(table: str) -> Iterator[Resource]:
    """Yield the kinds that are read of ``kubectl api-resources`` (rows of NAME, SHORTNAMES, APIVERSION, NAMESPACED, KIND)."""
    for row in map(_ROW.fullmatch, table.splitlines()):
        if row is not None and (kind := kinds.find(row[2], row[4])) is not None:
            yield Resource(kind, row[1], row[2], row[3] == "true")


def served(resources: Iterable[Resource]) -> Served:
    """Return which kinds a server has, of each group in the version that comes first."""
    found: dict[tuple[str, str], Resource] = {}
    for resource in resources:
        found.setdefault((resource.kind.name, resource.api_version.rpartition("/")[0]), resource)
    result = Served([], [], [])
    for name in ORDER:
        groups = [group for group in sorted(kinds.KINDS[name].groups) if group != _LEGACY or (name, "apps") not in found]
        result.resources.extend(found[name, group] for group in groups if (name, group) in found)
        if name in _OPTIONAL:
            result.absent.extend(f"{name} ({group})" for group in groups if group and (name, group) not in found)
        elif not any((name, group) in found for group in groups):
            result.lacking.append(name)
    return result


def groups_in(text: str) -> Iterator[str]:
    """Yield the API groups of kinds that are read which a text names."""
    for group in sorted({group for kind in kinds.KINDS.values() for group in kind.groups if group}):
        if re.search(rf"(?<![\w.-]){re.escape(group)}(?![\w.-])", text):
            yield group
