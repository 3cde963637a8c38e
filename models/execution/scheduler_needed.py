"""Which pods a Binding would strand, because only the scheduler sees to what they claim."""

from __future__ import annotations

from typing import Final

from kubestow.models.kube.objects import Pod
from kubestow.models.snapshot.snapshot import Snapshot

#: The name of every DeviceClass as an extended resource begins so (KEP-5004).
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"


def scheduler_needed(pod: Pod, snapshot: Snapshot) -> str | None:
    """Return why a pending pod must be bound by the scheduler itself, None if a Binding does.

    A Binding leaves out that the scheduler names the node to the claims of volumes that wait for their first consumer, and has devices
    allocated: such a pod would wait on its node for ever. An ephemeral volume is a claim, too, called POD-VOLUME.
    """
    namespace = pod.metadata.namespace or "default"
    for volume in pod.spec.volumes or ():
        if volume.persistentVolumeClaim is not None:
            name = volume.persistentVolumeClaim.claimName
        elif volume.ephemeral is not None:
            name = f"{pod.metadata.name}-{volume.name}"
        else:
            continue
        claim = snapshot.persistent_volume_claims.get(f"{namespace}/{name}")
        if claim is None:
            return f"the snapshot lacks its claim {name}"
        if claim.spec is None or not claim.spec.volumeName:
            return f"its claim {name} has no volume yet"
    return devices_wanted(pod, snapshot)


def devices_wanted(pod: Pod, snapshot: Snapshot) -> str | None:
    """Return why a pod may need devices that only the scheduler allocates, None if it needs none: it has claims of them, or requests
    extended resources that a DeviceClass backs, on whatever nodes."""
    if pod.spec.resourceClaims:
        return "it has resource claims"
    if not snapshot.gates.enabled("DRAExtendedResource"):
        return None
    backed = {cls.spec.extendedResourceName for cls in snapshot.device_classes.values() if cls.spec is not None}
    for container in (*(pod.spec.initContainers or ()), *(pod.spec.containers or ())):
        for part in (container.resources.requests, container.resources.limits) if container.resources is not None else ():
            for name in sorted(part or ()):
                if name in backed or name.startswith(IMPLICIT):
                    return f"it requests {name}, which devices may provide"
    return None
