"""Fields of the input that kubestow does not model. Every result lists them, and ``--strict`` refuses them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kubestow.models.admission import namespace_annotations as namespace_admission
from kubestow.models.cluster.unmodelled_devices import DeviceNotes
from kubestow.models.cluster.unmodelled_nodes import NodePlugins, of_nodes
from kubestow.models.devices.table import not_evaluated
from kubestow.models.documents.placement import Unmodelled
from kubestow.models.gangs import markers
from kubestow.models.gangs.declarations import OF_GANGS, Groups, Note
from kubestow.models.kube.lenient_decode import near_names
from kubestow.models.kube.objects import Pod, PodSecurityContext, pod_key
from kubestow.models.kube.pod_spec import NO_PROVISIONER, OS_LABEL, claim_keys
from kubestow.models.numa import nri_annotations
from kubestow.models.snapshot.snapshot import Snapshot

_IN_TREE = ("gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "iscsi", "rbd")

#: Prefix of Kueue's annotations on the topology of pod set slices.
_SLICES = "kueue.x-k8s.io/podset-slice-"

#: Annotations that request GPU shares, with the values of sharedGPUs under which they are read.
_GPU_SHARES = dict.fromkeys(("gpu-fraction", "gpu-fraction-num-devices", "gpu-memory"), ("kai",))

#: Sysctls that every kubelet allows (pkg/kubelet/sysctl/safe_sysctls.go). Others need kubelet configuration.
_SAFE_SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
    )
)  # fmt: skip
_DEFAULT = "default-scheduler"

#: Feature gates that change the meaning of a pod group, with the effect of ignoring them.
_GROUP_GATES = {
    "CompositePodGroup": "a group that belongs to another group is placed alone",
    "PodGroupPreemptionPolicy": "the group's preemption policy is ignored",
}
_IGNORED = "ignored"
_UNREAD = "ignored: a selector cannot be evaluated here, which needs cel-expr-python and the functions that it knows"


def find(snapshot: Snapshot, pending: Iterable[Pod], *, tiers: Sequence[str] = ()) -> list[Unmodelled]:
    """Return the unmodelled fields of the pods to place and of nodes. ``tiers`` is the policy's ``networkTiers``."""
    pods = list(pending)
    notes = _of_gangs(snapshot, pods, tiers)
    unread, devices = {id(pod) for pod in _unread(snapshot, pods)}, DeviceNotes(snapshot)
    new, plugins = _not_admitted(snapshot), NodePlugins(snapshot)
    found = [
        Unmodelled(pod_key(pod), field, effect)
        for i, pod in enumerate(pods)
        if i in notes or id(pod) in unread or devices.wide or not _plain(pod) or snapshot.not_understood or new
        for field, effect in (
            *([("devices", _UNREAD)] if id(pod) in unread else ()),
            *_of_pod(snapshot, pod),
            *new.get(pod_key(pod), ()),
            *devices.of_pod(pod),
            *nri_annotations.not_honoured(pod, plugins),
            *_of_member(pod, notes.get(i)),
        )
    ]
    return found + list(of_nodes(snapshot)) if pods else found


def _plain(pod: Pod) -> bool:
    """Return True if the pod has no field that the functions below check. Most pods have none."""
    spec = pod.spec
    odd = (
        OS_LABEL in (pod.metadata.labels or {})
        or spec.volumes
        or spec.resourceClaims
        or spec.schedulingGroup
        or pod.metadata.annotations
        or spec.securityContext
        or spec.schedulerName not in (None, _DEFAULT)
    )
    return not odd


def _not_admitted(snapshot: Snapshot) -> dict[str, list[tuple[str, str]]]:
    """Return the namespace annotations that could affect new pods but are not applied, by pod key."""
    by_namespace = {name: effects for name in snapshot.namespaces if (effects := [*namespace_admission.not_applied(snapshot, name)])}
    if not by_namespace:
        return {}
    named = ((key, by_namespace.get(key.partition("/")[0])) for key in snapshot.to_create)
    return {key: listed for key, listed in named if listed is not None}


def _unread(snapshot: Snapshot, pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that request devices with selectors that cannot be evaluated."""
    if not (snapshot.device_classes or snapshot.resource_claims):
        return []
    try:
        return not_evaluated(snapshot, pods)
    except ValueError:
        return []  # compilation reports the error


def _of_gangs(snapshot: Snapshot, pods: Sequence[Pod], tiers: Sequence[str]) -> dict[int, list[Note]]:
    """Return the unmodelled fields of each pod's gang, by index. Pods without a gang are left out."""
    by_gang = markers.members(pods, range(len(pods)))
    if not by_gang:
        return {}
    groups = Groups(snapshot, tiers)
    notes: dict[int, list[Note]] = {}
    for named, indices in by_gang.items():
        declared = groups.declared(named, [pods[i] for i in indices]).notes
        notes.update(dict.fromkeys(indices, declared))
    return notes


def _of_member(pod: Pod, notes: list[Note] | None) -> Iterator[tuple[str, str]]:
    """Yield the unmodelled fields of a pod's gang. ``notes`` is None for a pod without a gang."""
    annotations = pod.metadata.annotations or {}
    for note in notes or ():
        if note.annotation is None or note.annotation in annotations:
            yield note.field, note.effect
    for key in annotations:
        if notes is None and key in OF_GANGS:
            yield f"metadata.annotations[{key}]", "ignored: the pod names no gang"
        elif key.startswith(_SLICES):
            yield f"metadata.annotations[{key}]", _IGNORED


def _of_pod(snapshot: Snapshot, pod: Pod) -> Iterator[tuple[str, str]]:
    spec = pod.spec
    yield from snapshot.not_understood.get(pod_key(pod), ())
    gates = snapshot.gates
    if spec.resourceClaims and spec.schedulingGroup is not None and gates.enabled("DRAWorkloadResourceClaims"):
        yield "spec.schedulingGroup", "claims of a pod group are read as the pod's own"
    if spec.resourceClaims and gates.enabled("DRANodeAllocatableResources"):
        yield "spec.resourceClaims", "devices do not add to CPU and memory"
    for gate, effect in _GROUP_GATES.items():
        if spec.schedulingGroup is not None and gates.enabled(gate):
            yield "spec.schedulingGroup", effect
    if spec.schedulerName not in (None, _DEFAULT):
        yield "spec.schedulerName", f"placed by the rules of the default scheduler{near_names(spec.schedulerName or '', [_DEFAULT])}"
    for key in pod.metadata.annotations or ():
        if key in _GPU_SHARES and snapshot.shared_gpus not in _GPU_SHARES[key]:
            yield f"metadata.annotations[{key}]", f"ignored: the policy's sharedGPUs is not {' or '.join(_GPU_SHARES[key])}"
    if OS_LABEL in (pod.metadata.labels or {}):
        yield f"metadata.labels[{OS_LABEL}]", "ignored: a kubelet of another operating system refuses the pod"
    yield from _of_kubelet(spec.securityContext)
    for i, volume in enumerate(spec.volumes or ()):
        for kind in _IN_TREE:
            if getattr(volume, kind) is not None:
                yield f"spec.volumes[{i}].{kind}", "in-tree volume limits and conflicts are ignored"
    for key in claim_keys(pod):
        if _provisioned(snapshot, key):
            yield f"claim {key}", "CSIStorageCapacity is ignored"


def _of_kubelet(context: PodSecurityContext | None) -> Iterator[tuple[str, str]]:
    """Yield the fields for which a kubelet can refuse the bound pod. No scheduler reads them.

    Source: k8s.io/kubernetes pkg/kubelet/sysctl, pkg/kubelet/lifecycle (handlers.go, predicate.go).
    """
    if context is None:
        return
    if any(each.name and each.name.replace("/", ".") not in _SAFE_SYSCTLS for each in context.sysctls or ()):
        yield "spec.securityContext.sysctls", "the kubelet refuses the pod where its configuration does not allow these sysctls"
    if context.supplementalGroupsPolicy == "Strict":
        yield "spec.securityContext.supplementalGroupsPolicy", "the kubelet refuses the pod on nodes without the feature"
    if context.appArmorProfile is not None and context.appArmorProfile.type != "Unconfined":
        yield "spec.securityContext.appArmorProfile", "the kubelet refuses the pod on nodes without AppArmor"


def _provisioned(snapshot: Snapshot, key: str) -> bool:
    claim = snapshot.persistent_volume_claims.get(key)
    if claim is None or claim.spec is None or claim.spec.volumeName:
        return False
    storage = snapshot.storage_classes.get(claim.spec.storageClassName or "")
    return storage is not None and storage.volumeBindingMode == "WaitForFirstConsumer" and storage.provisioner != NO_PROVISIONER
