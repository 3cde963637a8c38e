"""Volumes that one node at a time has attached, replayed on the raw objects for the checker of rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

_SEVERAL_NODES = ("ReadWriteMany", "ReadOnlyMany")


@dataclass
class Attachments:
    """``where``: the pods that use each volume with their nodes, in the order in which they came; ``at``: the node that has the volume.

    The node of the first pod has it until its last pod has gone; then the node with most of the pods, or the first of these by name.
    """

    snapshot: Snapshot
    where: dict[str, dict[str, str]] = field(default_factory=dict)
    at: dict[str, str] = field(default_factory=dict)

    def begin(self, pods: Sequence[objects.Pod]) -> None:
        """Let the pods of a cluster have their volumes, those that are ready first."""
        running = [pod for pod in pods if pod.spec.nodeName and not objects.is_terminal(pod)]
        for first in (True, False):
            for pod in running:
                if _serves(pod) == first:
                    self.come(pod, pod.spec.nodeName or "")

    def come(self, pod: objects.Pod, node: str) -> None:
        for volume in self._volumes(pod):
            self.where.setdefault(volume, {})[objects.pod_key(pod)] = node
            self.at.setdefault(volume, node)

    def go(self, pod: objects.Pod) -> None:
        for volume in self._volumes(pod):
            users = self.where.get(volume, {})
            users.pop(objects.pod_key(pod), None)
            nodes = list(users.values())
            if nodes and self.at[volume] not in nodes:
                self.at[volume] = max(sorted(set(nodes)), key=nodes.count)
            if not nodes:
                self.at.pop(volume, None)

    def starts(self, pod: objects.Pod, node: str) -> bool:
        """Return True if the node has all volumes of the pod."""
        return all(self.at.get(volume, node) == node for volume in self._volumes(pod))

    def _volumes(self, pod: objects.Pod) -> list[str]:
        found = []
        for volume in pod.spec.volumes or ():
            if volume.ephemeral is None and volume.persistentVolumeClaim is None:
                continue
            source = volume.persistentVolumeClaim
            claim_name = source.claimName if source is not None else f"{pod.metadata.name}-{volume.name}"
            claim = self.snapshot.persistent_volume_claims.get(f"{pod.metadata.namespace or 'default'}/{claim_name}")
            if claim is not None and claim.spec is not None and claim.spec.volumeName and self._one_node(claim.spec.volumeName):
                found.append(claim.spec.volumeName)
        return sorted(set(found))

    def _one_node(self, name: str) -> bool:
        volume = self.snapshot.persistent_volumes.get(name)
        spec = volume.spec if volume is not None else None
        if spec is None or not spec.accessModes or any(mode in _SEVERAL_NODES for mode in spec.accessModes):
            return False
        if spec.csi is not None:
            driver = self.snapshot.csi_drivers.get(spec.csi.driver)
            return driver is None or driver.spec is None or driver.spec.attachRequired in (None, True)
        disks = (spec.gcePersistentDisk, spec.awsElasticBlockStore, spec.azureDisk, spec.cinder, spec.vsphereVolume)
        return any(disk is not None for disk in disks)


def _serves(pod: objects.Pod) -> bool:
    status = pod.status
    ready = next((c.status for c in (status.conditions or ()) if c.type == "Ready"), None) if status is not None else None
    return ready == "True" if ready is not None else status is None or status.phase in (None, "Running")
