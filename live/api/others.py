"""Who else moves pods or changes nodes in a cluster: autoscalers, deschedulers and the like that run, by their labels, names and images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from kubestow.live.api.answers import Api, Object
from kubestow.live.api.live_cluster import LiveCluster

Role = Literal["autoscaler", "descheduler", "rightsizer", "drainer"]

#: What each of them does that a run has to reckon with.
DOES: Final[dict[Role, str]] = {
    "autoscaler": "adds nodes while pods wait, closed nodes or not, and removes those with little on them",
    "descheduler": "evicts pods",
    "rightsizer": "evicts pods, or changes what they request",
    "drainer": "closes and drains nodes",
}


class _Known(NamedTuple):
    """``words``: what names, values of labels or parts of images are, or end in after a hyphen."""

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
#: What the bytes of an object have that may be one of them: most need not be looked at.
_HINTS: Final = tuple(word.encode() for each in _KNOWN for word in each.words)
_LABELS: Final = ("app.kubernetes.io/name", "app.kubernetes.io/component", "app", "k8s-app", "name")
_WORKLOADS: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicationController", "CronJob")
#: Parts of an image's path that say whose it is, where the last part does not: ``karpenter/controller``.
_HOMES: Final = frozenset({"karpenter", "descheduler"})
#: Nodes that Karpenter has made say so, also where it runs out of sight.
_NODE_LABELS: Final = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name")
#: Where cluster-autoscaler says that it is alive, also where a provider runs it out of sight, and for how long it is believed.
_STATUS: Final = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
_UPDATED: Final = "cluster-autoscaler.kubernetes.io/last-updated"
_ALIVE: Final = timedelta(minutes=10)


@dataclass(frozen=True, order=True)
class Other:
    """``name``: what it is called. ``where``: such as ``Deployment kube-system/cluster-autoscaler``, or what tells of it."""

    role: Role
    name: str
    where: str

    def __str__(self) -> str:
        """Return a line for people."""
        return f"{self.name} runs ({self.where}): it {DOES[self.role]}"


async def find(api: Api, cluster: LiveCluster) -> list[Other]:
    """Return what runs, in order of role and name. One that a provider runs out of sight is found by what it leaves in the cluster.

    Raises:
        Unreachable: no answer came.
    """
    found = set(running(cluster))
    if not any(each.name == "cluster-autoscaler" for each in found):
        answer = await api.send("GET", _STATUS)
        if answer.ok and _alive(answer.body, datetime.now(UTC)):
            found.add(Other("autoscaler", "cluster-autoscaler", "ConfigMap kube-system/cluster-autoscaler-status is up to date"))
    return sorted(found)


def running(cluster: LiveCluster) -> list[Other]:
    """Return what the objects of the cluster tell of: workloads with replicas, pods that run, labels of nodes."""
    found: set[Other] = set()
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
                    found.add(Other("autoscaler", "Karpenter", f"label {label} of nodes"))
    return sorted(found)


def _other(known: _Known, obj: Object) -> Other:
    metadata = obj["metadata"]
    return Other(known.role, known.name, f"{obj['kind']} {metadata.get('namespace', 'default')}/{metadata['name']}")


def _wanted(obj: Object) -> bool:
    """Return whether a workload is to have pods."""
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
    """Yield what tells of a workload or a pod what it runs."""
    metadata = obj["metadata"]
    if obj["kind"] != "Pod":  # names of pods end in letters of their own
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
    """Yield the uids of what made a pod, and of what made that."""
    obj: Object | None = pod
    while obj is not None:
        owner = next((each for each in obj["metadata"].get("ownerReferences") or () if each.get("controller")), None)
        if owner is None:
            return
        yield owner["uid"]
        obj = cluster.objects(owner["kind"]).get(owner["uid"]) if owner["kind"] in ("ReplicaSet", "Job") else None


def _alive(config_map: Object, now: datetime) -> bool:
    """Return whether the status is of a moment ago: ``2026-11-22 06:03:53.1 +0000 UTC``."""
    written = str((config_map.get("metadata", {}).get("annotations") or {}).get(_UPDATED) or "")
    try:
        return now - datetime.strptime(written[:19], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) < _ALIVE
    except ValueError:
        return False
