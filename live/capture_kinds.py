"""The resources to read from an API server: the known kinds, under the server's own names and versions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kubestow.models.custom_workloads import table
from kubestow.models.custom_workloads.table import KindEntry
from kubestow.models.kube import kinds
from kubestow.models.kube.workload_objects import PodSet

#: Kinds in reading order. Objects come before those they refer to, so that the claims, node or owner of a pod are present unless deleted
#: meanwhile. Objects created meanwhile do no harm, because no captured pod names them.
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
#: Kinds that are read from snapshots but not captured, because no placement depends on them.
NOT_ASKED: Final = frozenset({"ServiceAccount"})
#: Dynamic resource allocation (since 1.34), and device taints behind a feature gate.
_DEVICES: Final = ("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "DeviceTaintRule")
#: Kinds that a cluster may lack: extensions, kinds of only some versions, and kinds that only limit the creation of pods.
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
#: Kinds of the table of workload kinds that are not captured: others make the pods, from objects of their own.
_MADE_BY_OTHERS: Final = frozenset({"AppWrapper", "KueueWorkload"})
#: Former API group of the kinds in ``apps``. A server with both groups has the same objects in both.
_LEGACY: Final = "extensions"
_ROW: Final = re.compile(r"([a-z0-9.-]+)\s+(?:\S+\s+)?((?:[a-z0-9.-]+/)?v[0-9][a-z0-9]*)\s+(true|false)\s+([A-Za-z0-9]+)\s*")


class Resource(NamedTuple):
    """A kind on a server.

    Attributes:
        kind: The kind.
        plural: Its name in URLs.
        api_version: Such as ``v1`` or ``apps/v1``.
        namespaced: True if its objects have namespaces.
    """

    kind: kinds.Kind
    plural: str
    api_version: str
    namespaced: bool

    @property
    def label(self) -> str:
        """The name for ``kubectl get``, such as ``pods`` or ``podgroups.scheduling.x-k8s.io``."""
        group = self.api_version.rpartition("/")[0]
        return f"{self.plural}.{group}" if group else self.plural

    def url(self, namespace: str | None = None) -> str:
        """Return the URL path of all objects, or of those in one namespace."""
        base = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        return f"{base}/{self.plural}" if namespace is None else f"{base}/namespaces/{namespace}/{self.plural}"


class Served(NamedTuple):
    """The resources of a server.

    Attributes:
        resources: Resources to read, in ``ORDER``, then custom workloads.
        lacking: Kinds that every server has but this one does not list.
        absent: Optional kinds, with their API group, that this server lacks.
    """

    resources: list[Resource]
    lacking: list[str]
    absent: list[str]


def listed(output: str) -> Iterator[Resource]:
    """Yield the known kinds, custom workloads included.

    Args:
        output: That of ``kubectl api-resources`` (NAME, SHORTNAMES, APIVERSION, NAMESPACED, KIND).
    """
    for row in map(_ROW.fullmatch, output.splitlines()):
        if row is not None and (kind := kinds.find(row[2], row[4]) or _custom(row[2], row[4])) is not None:
            yield Resource(kind, row[1], row[2], row[3] == "true")


def is_captured(entry: KindEntry) -> bool:
    """Return True if the objects of a custom workload kind are captured."""
    return entry.name not in _MADE_BY_OTHERS


def _custom(api_version: str, kind: str) -> kinds.Kind | None:
    entry = table.find(api_version, kind) if "." in api_version.partition("/")[0] else None
    return None if entry is None or not is_captured(entry) else kinds.Kind(entry.kind, frozenset({entry.group}), PodSet, True)


def served(resources: Iterable[Resource]) -> Served:
    """Return the resources of a server, each in the first version of its group."""
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
    result.resources.extend(resource for resource in found.values() if resource.kind.type is PodSet)
    return result


def groups_in(text: str) -> Iterator[str]:
    """Yield the API groups of known kinds that a text mentions."""
    for group in sorted({group for kind in kinds.KINDS.values() for group in kind.groups if group}):
        if re.search(rf"(?<![\w.-]){re.escape(group)}(?![\w.-])", text):
            yield group
