"""Other controllers that move pods or change nodes, such as autoscalers and deschedulers, recognised by label, name and image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from kubestow.live.api.answers import Api, Object
from kubestow.live.api.live_cluster import LiveCluster

Role = Literal["autoscaler", "descheduler", "rightsizer", "drainer"]

#: Effects of each role that matter for a run.
DOES: Final[dict[Role, str]] = {
    "autoscaler": "adds nodes while pods wait, closed nodes or not, and removes those with little on them",
    "descheduler": "evicts pods",
    "rightsizer": "evicts pods, or changes their requests",
    "drainer": "closes and drains nodes",
}


class _Known(NamedTuple):
    """A known controller. ``words``: names, label values or image names, or their endings after a hyphen."""

    name: str
    role: Role
    words: tuple[str, ...]


_KNOWN: Final = (
    _Known("cluster-autoscaler", "autoscaler", ("cluster-autoscaler",)),
    _Known("Karpenter", "autoscaler", ("karpenter", "karpenter-provider-azure", "karpenter-provider-gcp")),
    _Known("CAST AI", "autoscaler", ("castai-cluster-controller", "castai-evictor", "castai-live", "castai-spot-handler")),
    _Known("Ocean", "autoscaler", ("spotinst-kubernetes-cluster-controller", "ocean-kubernetes-controller", "ocean-controller")),
    _Known("descheduler", "descheduler", ("descheduler",)),
    _Known("Vertical Pod Autoscaler", "rightsizer", ("vpa-updater", "vertical-pod-autoscaler-updater")),
    _Known("CAST AI", "rightsizer", ("castai-workload-autoscaler",)),
    _Known("Kubecost cluster controller", "rightsizer", ("kubecost-cluster-controller", "cluster-turndown")),
    _Known("Turbonomic", "rightsizer", ("kubeturbo",)),
    _Known("ScaleOps", "rightsizer", ("scaleops-updater", "scaleops-recommender", "scaleops-agent")),
    _Known("kured", "drainer", ("kured",)),
    _Known("Draino", "drainer", ("draino", "draino2")),
    _Known("aws-node-termination-handler", "drainer", ("aws-node-termination-handler",)),
    _Known("system-upgrade-controller", "drainer", ("system-upgrade-controller",)),
)
#: Byte strings in every object that may match; other objects are not decoded.
_HINTS: Final = tuple(word.encode() for each in _KNOWN for word in each.words)
_LABELS: Final = ("app.kubernetes.io/name", "app.kubernetes.io/component", "app", "k8s-app", "name")
_WORKLOADS: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicationController", "CronJob")
#: Parts of an image path that identify it if the last part does not: ``karpenter/controller``.
_HOMES: Final = frozenset({"karpenter", "descheduler"})
#: Labels of nodes created by Karpenter, which may run outside the cluster.
_NODE_LABELS: Final = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name")
#: The status ConfigMap of cluster-autoscaler, which may run outside the cluster.
_STATUS: Final = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
_UPDATED: Final = "cluster-autoscaler.kubernetes.io/last-updated"
#: Maximum age of a status that shows a running autoscaler.
_MAX_STATUS_AGE: Final = timedelta(minutes=10)


@dataclass(frozen=True, order=True)
class OtherController:
    """A running controller.

    Attributes:
        role: Its role.
        name: Its name.
        where: Its workload, such as ``Deployment kube-system/cluster-autoscaler``, or the evidence for it.
    """

    role: Role
    name: str
    where: str

    def __str__(self) -> str:
        """Return a sentence for messages."""
        return f"{self.name} runs ({self.where}): it {DOES[self.role]}"


async def find(api: Api, cluster: LiveCluster) -> list[OtherController]:
    """Return the running controllers, sorted by role and name. Controllers outside the cluster are found by their traces.

    Raises:
        Unreachable: there was no answer.
    """
    found = set(running(cluster))
    if not any(each.name == "cluster-autoscaler" for each in found):
        answer = await api.send("GET", _STATUS)
        if answer.ok and _alive(answer.body, datetime.now(UTC)):
            found.add(OtherController("autoscaler", "cluster-autoscaler", "ConfigMap kube-system/cluster-autoscaler-status is up to date"))
    return sorted(found)


def running(cluster: LiveCluster) -> list[OtherController]:
    """Return the controllers found among workloads with replicas, running pods, and labels of nodes."""
    found: set[OtherController] = set()
    owners: set[str] = set()
    for kind in _WORKLOADS:
        for obj in cluster.mentioning(kind, _HINTS):
            known = _recognised(obj) if _wanted(obj) else None
            if known is not None:
                found.add(_other(known, obj))
                owners.add(obj["metadata"]["uid"])
    for pod in cluster.mentioning("Pod", _HINTS):
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed") or pod["metadata"].get("deletionTimestamp")
        known = None if ended else _recognised(pod)
        if known is not None and owners.isdisjoint(_above(pod, cluster)):
            found.add(_other(known, pod))
    if not any(each.name == "Karpenter" for each in found):
        for node in cluster.objects("Node").values():
            for label in _NODE_LABELS:
                if label in (node["metadata"].get("labels") or {}):
                    found.add(OtherController("autoscaler", "Karpenter", f"label {label} of nodes"))
    return sorted(found)


def _other(known: _Known, obj: Object) -> OtherController:
    metadata = obj["metadata"]
    return OtherController(known.role, known.name, f"{obj['kind']} {metadata.get('namespace', 'default')}/{metadata['name']}")


def _wanted(obj: Object) -> bool:
    """Return True if a workload should have pods: replicas, eligible nodes (DaemonSet), or a schedule not suspended (CronJob)."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if obj["kind"] == "CronJob":
        return not spec.get("suspend")
    if obj["kind"] == "DaemonSet":
        return bool(status.get("desiredNumberScheduled", 1))
    return bool(spec.get("replicas", 1))


def _recognised(obj: Object) -> _Known | None:
    said = [f"-{word}" for word in _said(obj)]
    return next((known for known in _KNOWN for word in known.words if any(each.endswith(f"-{word}") for each in said)), None)


def _said(obj: Object) -> Iterator[str]:
    """Yield the names, labels and images that identify a workload or pod."""
    metadata = obj["metadata"]
    if obj["kind"] != "Pod":  # pod names end in random letters
        yield metadata["name"]
    spec: Any = obj.get("spec") or {}
    if obj["kind"] == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    labels = metadata.get("labels") or {}
    yield from (labels[key] for key in _LABELS if key in labels)
    if obj["kind"] != "Pod":
        spec = (spec.get("template") or {}).get("spec") or {}
    for container in spec.get("containers") or ():
        path = str(container.get("image") or "").partition("@")[0].split("/")
        yield path[-1].partition(":")[0]
        yield from _HOMES.intersection(path[:-1])


def _above(pod: Object, cluster: LiveCluster) -> Iterator[str]:
    """Yield the uids of the controllers above a pod, bottom up."""
    obj: Object | None = pod
    while obj is not None:
        owner = next((each for each in obj["metadata"].get("ownerReferences") or () if each.get("controller")), None)
        if owner is None:
            return
        yield owner["uid"]
        obj = cluster.objects(owner["kind"]).get(owner["uid"]) if owner["kind"] in ("ReplicaSet", "Job") else None


def _alive(config_map: Object, now: datetime) -> bool:
    """Return True if the status is recent (``2026-11-22 06:03:53.1 +0000 UTC``)."""
    written = str((config_map.get("metadata", {}).get("annotations") or {}).get(_UPDATED) or "")
    try:
        return now - datetime.strptime(written[:19], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) < _MAX_STATUS_AGE
    except ValueError:
        return False
