"""The persistent volume claims that a pod mounts, by name."""

from __future__ import annotations

from typing import Final

from models.kube.objects import Pod

#: The provisioner of storage classes whose volumes are made by hand.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


def claim_keys(pod: Pod) -> tuple[str, ...]:
    """Return ``namespace/name`` of the claims a pod mounts, in order and once; an ephemeral volume's claim is ``<pod>-<volume>``."""
    return tuple(dict.fromkeys((*named_claims(pod), *_ephemeral_claims(pod))))


def named_claims(pod: Pod) -> tuple[str, ...]:
    """Return the claims that a pod mounts by name. VolumeZone and VolumeRestrictions look at these only."""
    namespace = pod.metadata.namespace or "default"
    return tuple(f"{namespace}/{v.persistentVolumeClaim.claimName}" for v in pod.spec.volumes or () if v.persistentVolumeClaim is not None)


def _ephemeral_claims(pod: Pod) -> tuple[str, ...]:
    namespace = pod.metadata.namespace or "default"
    return tuple(
        f"{namespace}/{pod.metadata.name}-{v.name}"
        for v in pod.spec.volumes or ()
        if v.persistentVolumeClaim is None and v.ephemeral is not None
    )
