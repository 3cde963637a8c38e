"""Volumes that only one node at a time can attach, and the pods that use them.

Source: pkg/controller/volume/attachdetach/reconciler (isMultiAttachForbidden) and pkg/volume/util: a PersistentVolume whose access modes
name neither ReadWriteMany nor ReadOnlyMany. Volumes that are not attached (NFS, local volumes, CSI drivers with attachRequired: false) can
be used on any nodes that reach them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.objects import Pod, is_terminal, is_terminating, pod_key
from kubestow.models.kube.pod_spec import claim_keys
from kubestow.models.kube.storage_objects import PersistentVolume
from kubestow.models.snapshot.snapshot import Snapshot

#: Access modes that let several nodes attach a volume.
_SHARED_ACCESS_MODES: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})
#: In-tree volume types that a controller attaches to nodes.
_ATTACHED_TYPES: Final = ("gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "vsphereVolume")


def exclusive_volumes(pod: Pod, snapshot: Snapshot) -> frozenset[str]:
    """Return the PersistentVolumes of a pod's bound claims that only one node at a time can attach, by name."""
    return frozenset(exclusive_claims(pod, snapshot))


def exclusive_claims(pod: Pod, snapshot: Snapshot) -> dict[str, str]:
    """Return the volumes of :func:`exclusive_volumes`, each with its claim (``namespace/name``)."""
    found: dict[str, str] = {}
    for key in claim_keys(pod):
        claim = snapshot.persistent_volume_claims.get(key)
        bound = claim.spec.volumeName if claim is not None and claim.spec is not None else None
        there = snapshot.persistent_volumes.get(bound) if bound else None
        if bound and there is not None and _exclusive(there, snapshot):
            found[bound] = key
    return found


@dataclass
class Holders:
    """The users of a volume that only one node at a time can attach.

    Attributes:
        volume: Name of the PersistentVolume.
        claim: A claim bound to it, ``namespace/name``.
        pods: Indices of the pods that use it, by node. Nodes with a ready pod come first.
    """

    volume: str
    claim: str
    pods: dict[str, list[int]] = field(default_factory=dict)

    @property
    def node(self) -> str:
        """The node that most likely has the volume attached."""
        return next(iter(self.pods))


def holders(snapshot: Snapshot, pods: Iterable[int]) -> dict[str, Holders]:
    """Return the users of volumes that only one node at a time can attach, by volume name.

    Args:
        snapshot: The input.
        pods: Indices of the pods to consider. Pods without a node and pods that are terminated or terminating are ignored.
    """
    found: dict[str, Holders] = {}
    there = [i for i in pods if snapshot.pods[i].spec.volumes and snapshot.pods[i].spec.nodeName]
    for i in sorted(there, key=lambda i: not _is_ready(snapshot.pods[i])):
        pod = snapshot.pods[i]
        if is_terminal(pod) or is_terminating(pod):
            continue
        for volume, claim in exclusive_claims(pod, snapshot).items():
            holder = found.setdefault(volume, Holders(volume, claim))
            holder.pods.setdefault(pod.spec.nodeName or "", []).append(i)
    return found


def split_volumes(snapshot: Snapshot, pods: Iterable[int], new: Collection[int]) -> list[str]:
    """Return a sentence for each volume that one node at a time can attach and that pods on several nodes use, ``new`` pods included."""
    found = []
    for each in sorted(holders(snapshot, pods).values(), key=lambda each: each.claim):
        if len(each.pods) < 2 or not any(i in new for there in each.pods.values() for i in there):
            continue
        waiting = [pod_key(snapshot.pods[i]) for node, there in each.pods.items() if node != each.node for i in there]
        found.append(
            f"volume {each.volume} of claim {each.claim} goes to one node at a time, and its pods are on {some(list(each.pods))}: if "
            f"{each.node} has it, {some(waiting)} wait{'s' * (len(waiting) == 1)} with a Multi-Attach error, which kube-scheduler does not "
            f"prevent"
        )
    return found


def held_elsewhere(snapshot: Snapshot, feasible: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a sentence for each pod that fits on nodes other than the one where its volume is attached.

    Args:
        snapshot: The input.
        feasible: Feasible nodes by pod (``namespace/name``).
    """
    waiting = {i: key for i, pod in enumerate(snapshot.pods) if pod.spec.volumes and (key := pod_key(pod)) in feasible}
    holders_of = holders(snapshot, (i for i in range(len(snapshot.pods)) if i not in waiting)) if waiting else {}
    found = []
    for i, key in sorted(waiting.items(), key=lambda each: each[1]):
        for volume, claim in exclusive_claims(snapshot.pods[i], snapshot).items():
            others = [node for node in feasible[key] if volume in holders_of and node not in holders_of[volume].pods]
            if others:
                there = [pod_key(snapshot.pods[j]) for j in holders_of[volume].pods[holders_of[volume].node]]
                found.append(
                    f"{key} fits on {some(others)}, and waits there with a Multi-Attach error: volume {volume} of claim {claim} goes to "
                    f"one node at a time, and {some(there)} has it on {holders_of[volume].node}"
                )
    return found


def _is_ready(pod: Pod) -> bool:
    conditions = (pod.status.conditions if pod.status is not None else None) or ()
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)


def _exclusive(volume: PersistentVolume, snapshot: Snapshot) -> bool:
    spec = volume.spec
    if spec is None or not spec.accessModes or not _SHARED_ACCESS_MODES.isdisjoint(spec.accessModes):
        return False
    if spec.csi is None:
        return any(getattr(spec, field) is not None for field in _ATTACHED_TYPES)
    driver = snapshot.csi_drivers.get(spec.csi.driver)
    return driver is None or driver.spec is None or driver.spec.attachRequired is not False
