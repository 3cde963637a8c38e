"""Which pods a Binding would strand, because only the scheduler sees to what they claim."""

from __future__ import annotations

from models.kube.objects import Pod
from models.snapshot.snapshot import Snapshot


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
    if pod.spec.resourceClaims:
        return "it has resource claims"
    return None
