"""The volume claims and device claims of a pod."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def volume_claims(pod: Object) -> list[str]:
    """Return the keys of the PersistentVolumeClaims that a pod uses, those of generic ephemeral volumes included."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    found = []
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            found.append(f"{namespace}/{volume['persistentVolumeClaim']['claimName']}")
        elif volume.get("ephemeral"):
            found.append(f"{namespace}/{name}-{volume['name']}")
    return found


def device_claims(pod: Object) -> list[str]:
    """Return the keys of a pod's ResourceClaims. The key is empty for a claim not yet created from its template."""
    namespace, found = pod["metadata"]["namespace"], []
    made = {one["name"]: one.get("resourceClaimName") for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    for one in pod["spec"].get("resourceClaims") or ():
        name = one.get("resourceClaimName") or made.get(one["name"])
        found.append(f"{namespace}/{name}" if name else "")
    return found
