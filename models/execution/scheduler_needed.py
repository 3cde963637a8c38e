"""The pods that a Binding would block, because only the scheduler handles their claims."""

from __future__ import annotations

from typing import Final

from kubestow.models.kube.objects import Pod
from kubestow.models.snapshot.snapshot import Snapshot

#: Prefix of every DeviceClass's name as an extended resource (KEP-5004).
IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"


def scheduler_needed(pod: Pod, snapshot: Snapshot) -> str | None:
    """Return the reason why only the scheduler can bind a pending pod; None if a Binding suffices.

    A Binding neither announces the node to claims of volumes that wait for their first consumer, nor allocates
    devices. Such a pod would wait on its node indefinitely. An ephemeral volume is also a claim, with the name
    POD-VOLUME.
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
    """Return the reason why a pod may need devices, which only the scheduler allocates; None if it needs none.

    It has claims for devices, or requests extended resources that a DeviceClass backs on some node.
    """
    if pod.spec.resourceClaims:
        return "it has resource claims"
    if not snapshot.gates.enabled("DRAExtendedResource"):
        return None
    backed = {cls.spec.extendedResourceName for cls in snapshot.device_classes.values() if cls.spec is not None}
    for container in (*(pod.spec.initContainers or ()), *(pod.spec.containers or ())):
        for part in (container.resources.requests, container.resources.limits) if container.resources is not None else ():
            for name in sorted(part or ()):
                if name in backed or name.startswith(IMPLICIT_PREFIX):
                    return f"it requests {name}, which devices may provide"
    return None
