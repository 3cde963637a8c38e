"""Volumes that only one node at a time can have attached, and which pods use them.

Source: pkg/controller/volume/attachdetach/reconciler (isMultiAttachForbidden) and pkg/volume/util: a PersistentVolume whose access modes
name neither ReadWriteMany nor ReadOnlyMany. Of volumes that nothing attaches (NFS, local ones, CSI drivers with attachRequired: false)
pods may be on any nodes that reach them.
"""

from __future__ import annotations

from typing import Final

from models.kube.objects import Pod
from models.kube.storage_objects import PersistentVolume
from models.snapshot.snapshot import Snapshot

#: Access modes with which several nodes may have a volume.
_SHARED: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})
#: In-tree volumes of a PersistentVolume that a controller attaches to nodes.
_ATTACHED: Final = ("gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "vsphereVolume")


def exclusive_volumes(pod: Pod, snapshot: Snapshot) -> frozenset[str]:
    """Return the names of PersistentVolumes of a pod's bound claims that only one node at a time can have attached."""
    found = set()
    namespace = pod.metadata.namespace or "default"
    for volume in pod.spec.volumes or ():
        name = volume.persistentVolumeClaim.claimName if volume.persistentVolumeClaim is not None else None
        if volume.ephemeral is not None:
            name = f"{pod.metadata.name}-{volume.name}"
        claim = snapshot.persistent_volume_claims.get(f"{namespace}/{name}") if name else None
        bound = claim.spec.volumeName if claim is not None and claim.spec is not None else None
        there = snapshot.persistent_volumes.get(bound) if bound else None
        if bound and there is not None and _exclusive(there, snapshot):
            found.add(bound)
    return frozenset(found)


def _exclusive(volume: PersistentVolume, snapshot: Snapshot) -> bool:
    spec = volume.spec
    if spec is None or not spec.accessModes or not _SHARED.isdisjoint(spec.accessModes):
        return False
    if spec.csi is None:
        return any(getattr(spec, field) is not None for field in _ATTACHED)
    driver = snapshot.csi_drivers.get(spec.csi.driver)
    return driver is None or driver.spec is None or driver.spec.attachRequired is not False
