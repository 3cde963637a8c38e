"""What the input asks for and kubestow does not honour: named in every result, and refused by ``--strict``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from models.kube import Pod, pod_key
from models.placement import Unmodelled
from models.snapshot import Snapshot
from models.volumes import NO_PROVISIONER, claim_keys

_GANG_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "kueue.x-k8s.io/pod-group-name")
_GANG_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_IN_TREE = ("gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "iscsi", "rbd")

_IGNORED = "ignored"


def find(snapshot: Snapshot, pending: Iterable[Pod]) -> list[Unmodelled]:
    """Every unmodelled field of the pods to place."""
    return [Unmodelled(pod_key(pod), field, effect) for pod in pending for field, effect in _of_pod(snapshot, pod)]


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
    if spec.schedulerName not in (None, "default-scheduler"):
        yield "spec.schedulerName", "placed by the rules of the default scheduler"
    for i, volume in enumerate(spec.volumes or ()):
        for kind in _IN_TREE:
            if getattr(volume, kind) is not None:
                yield f"spec.volumes[{i}].{kind}", "in-tree volume limits and conflicts are ignored"
    for key in claim_keys(pod):
        if _provisioned(snapshot, key):
            yield f"claim {key}", "CSIStorageCapacity is ignored"


def _provisioned(snapshot: Snapshot, key: str) -> bool:
    claim = snapshot.persistent_volume_claims.get(key)
    if claim is None or claim.spec is None or claim.spec.volumeName:
        return False
    storage = snapshot.storage_classes.get(claim.spec.storageClassName or "")
    return storage is not None and storage.volumeBindingMode == "WaitForFirstConsumer" and storage.provisioner != NO_PROVISIONER
