"""What the input asks for and kubestow does not honour: named in every result, and refused by ``--strict``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from models.kube import Pod, pod_key
from models.placement import Unmodelled
from models.snapshot import Snapshot
from models.volumes import NO_PROVISIONER, claim_keys

_GANG_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "kueue.x-k8s.io/pod-group-name")
_GANG_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_CONTAINER_AFFINITY = ("cri-resource-manager.intel.com/", "resource-policy.nri.io/")
_IN_TREE = ("gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "iscsi", "rbd")
_REJECTING_POLICIES = ("single-numa-node", "restricted", "SingleNUMANode", "Restricted")

_IGNORED = "ignored"
_NOT_GUIDING = "does not guide the search yet"


def find(snapshot: Snapshot, pending: Iterable[Pod]) -> list[Unmodelled]:
    """Every unmodelled field of the pods to place, and of the cluster objects that would bear on them."""
    pods = list(pending)
    found = [Unmodelled(pod_key(pod), field, effect) for pod in pods for field, effect in _of_pod(snapshot, pod)]
    if pods:
        found.extend(Unmodelled(name, field, effect) for name, field, effect in _of_cluster(snapshot))
    return found


def _of_pod(snapshot: Snapshot, pod: Pod) -> Iterator[tuple[str, str]]:
    spec = pod.spec
    if spec.resourceClaims:
        yield "spec.resourceClaims", _IGNORED
    if spec.workloadRef is not None:
        yield "spec.workloadRef", "placed pod by pod, not as a gang"
    if spec.schedulingGroup is not None:
        yield "spec.schedulingGroup", "placed pod by pod, not as a gang"
    for key in _GANG_LABELS:
        if key in (pod.metadata.labels or {}):
            yield f"metadata.labels[{key}]", "placed pod by pod, not as a gang"
    for key in pod.metadata.annotations or {}:
        if key in _GANG_ANNOTATIONS:
            yield f"metadata.annotations[{key}]", "placed pod by pod, not as a gang"
        elif key.startswith(_CONTAINER_AFFINITY) and key.endswith("affinity"):
            yield f"metadata.annotations[{key}]", _NOT_GUIDING
    if spec.schedulerName not in (None, "default-scheduler"):
        yield "spec.schedulerName", "placed by the rules of the default scheduler"
    for i, volume in enumerate(spec.volumes or ()):
        for kind in _IN_TREE:
            if getattr(volume, kind) is not None:
                yield f"spec.volumes[{i}].{kind}", "in-tree volume limits and conflicts are ignored"
    for key in claim_keys(pod):
        if _provisioned(snapshot, key):
            yield f"claim {key}", "CSIStorageCapacity is ignored"
    yield from _soft(pod)


def _provisioned(snapshot: Snapshot, key: str) -> bool:
    claim = snapshot.persistent_volume_claims.get(key)
    if claim is None or claim.spec is None or claim.spec.volumeName:
        return False
    storage = snapshot.storage_classes.get(claim.spec.storageClassName or "")
    return storage is not None and storage.volumeBindingMode == "WaitForFirstConsumer" and storage.provisioner != NO_PROVISIONER


def _soft(pod: Pod) -> Iterator[tuple[str, str]]:
    affinity = pod.spec.affinity
    if affinity is not None:
        for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
            part = getattr(affinity, kind)
            if part is not None and part.preferredDuringSchedulingIgnoredDuringExecution:
                yield f"spec.affinity.{kind}.preferredDuringSchedulingIgnoredDuringExecution", _NOT_GUIDING
    for i, constraint in enumerate(pod.spec.topologySpreadConstraints or ()):
        if constraint.whenUnsatisfiable == "ScheduleAnyway":
            yield f"spec.topologySpreadConstraints[{i}]", _NOT_GUIDING


def _of_cluster(snapshot: Snapshot) -> Iterator[tuple[str, str, str]]:
    for node in snapshot.nodes:
        if node.spec and any(t.effect == "PreferNoSchedule" for t in node.spec.taints or ()):
            yield f"Node/{node.metadata.name}", "spec.taints (PreferNoSchedule)", _NOT_GUIDING
    for name, topology in snapshot.node_topologies.items():
        policies = [
            *(topology.topologyPolicies or ())[:1],
            *(a.value for a in topology.attributes or () if a.name == "topologyManagerPolicy"),
        ]
        if any(p.startswith(_REJECTING_POLICIES) for p in policies):
            yield (
                f"NodeResourceTopology/{name}",
                f"Topology Manager policy {policies[-1]}",
                "ignored: the kubelet may reject a pod placed there",
            )
