"""The claims of a pod: of volumes, and of devices."""

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
    """Return the keys of the ResourceClaims that a pod uses, empty where one has not been made of its template yet."""
    namespace, found = pod["metadata"]["namespace"], []
    made = {one["name"]: one.get("resourceClaimName") for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    for one in pod["spec"].get("resourceClaims") or ():
        name = one.get("resourceClaimName") or made.get(one["name"])
        found.append(f"{namespace}/{name}" if name else "")
    return found
