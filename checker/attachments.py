"""Volumes that only one node at a time can attach, replayed on the raw objects for the checker of rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

_SEVERAL_NODES = ("ReadWriteMany", "ReadOnlyMany")


@dataclass
class NodeAttachments:
    """The nodes to which single-node volumes are attached.

    The node of a volume's first pod holds the volume until the last pod on that node is gone. Then the volume goes
    to the node with most of its remaining pods; ties go to the first node by name.

    Attributes:
        snapshot: Claims, volumes and CSI drivers are read from it.
        where: Node of each pod that uses a volume, by volume and pod key, in the order in which the pods arrived.
        at: Node to which each volume is attached.
    """

    snapshot: Snapshot
    where: dict[str, dict[str, str]] = field(default_factory=dict)
    at: dict[str, str] = field(default_factory=dict)

    def begin(self, pods: Sequence[objects.Pod]) -> None:
        """Attach the volumes of a cluster's running pods. Ready pods come first."""
        running = [pod for pod in pods if pod.spec.nodeName and not objects.is_terminal(pod)]
        for first in (True, False):
            for pod in running:
                if _serves(pod) == first:
                    self.come(pod, pod.spec.nodeName or "")

    def come(self, pod: objects.Pod, node: str) -> None:
        """Add a pod to a node. Its volumes that are not attached yet are attached there."""
        for volume in self._volumes(pod):
            self.where.setdefault(volume, {})[objects.pod_key(pod)] = node
            self.at.setdefault(volume, node)

    def go(self, pod: objects.Pod) -> None:
        """Remove a pod. A volume without users on its node moves to the node with most users, or is detached."""
        for volume in self._volumes(pod):
            users = self.where.get(volume, {})
            users.pop(objects.pod_key(pod), None)
            nodes = list(users.values())
            if nodes and self.at[volume] not in nodes:
                self.at[volume] = max(sorted(set(nodes)), key=nodes.count)
            if not nodes:
                self.at.pop(volume, None)

    def starts(self, pod: objects.Pod, node: str) -> bool:
        """Return True if no volume of the pod is attached to another node."""
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
