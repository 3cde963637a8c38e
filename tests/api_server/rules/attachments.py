"""Limits on attached volumes for each node, and disks that pods cannot share."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.api_server.resources import CLAIMS, CLASSES, CSI_NODES, PODS, VOLUMES
from tests.api_server.rules.claims import volume_claims
from tests.api_server.store import Store

Object = dict[str, Any]
#: Disk kinds in pod specs, with their identifying fields, and True if several pods can read one.
_DISKS = {
    "gcePersistentDisk": (("pdName",), True),
    "awsElasticBlockStore": (("volumeID",), False),
    "iscsi": (("iqn",), True),
    "rbd": (("pool", "image"), True),
}
_DEFAULTS = {"pool": "rbd"}


def _attached(store: Store, pod: Object) -> set[tuple[str, str]]:
    """Return the CSI volumes of a pod as (driver, volume id)."""
    found = set()
    for key in volume_claims(pod):
        claim = store.get(CLAIMS, key)
        if claim is None:
            continue
        name = (claim.get("spec") or {}).get("volumeName")
        volume = store.get(VOLUMES, name) if name else None
        csi = ((volume or {}).get("spec") or {}).get("csi")
        if csi is not None:
            found.add((csi["driver"], str(csi.get("volumeHandle") or name)))
        elif volume is None:
            storage_class = store.get(CLASSES, (claim.get("spec") or {}).get("storageClassName") or "")
            if storage_class is not None and storage_class.get("provisioner"):
                found.add((storage_class["provisioner"], key))
    return found


def limits_fit(store: Store, pod: Object, node: str) -> bool:
    """Return True if a node can attach the pod's volumes in addition to its attached ones."""
    drivers = ((store.get(CSI_NODES, node) or {}).get("spec") or {}).get("drivers") or ()
    limits = {one["name"]: int(one["allocatable"]["count"]) for one in drivers if (one.get("allocatable") or {}).get("count") is not None}
    if not limits or not pod["spec"].get("volumes"):
        return True
    there: set[tuple[str, str]] = set()
    for other in store.pods_on(node):
        if (other.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            there |= _attached(store, other)
    new = _attached(store, pod) - there
    counts = Counter(driver for driver, _ in there | new)
    return all(counts[driver] <= limits[driver] for driver in {one for one, _ in new} & limits.keys())


def _clash(one: Object, other: Object) -> bool:
    for kind, (fields, readable) in _DISKS.items():
        mine, theirs = one.get(kind), other.get(kind)
        if mine is None or theirs is None:
            continue
        if any((mine.get(field) or _DEFAULTS.get(field)) != (theirs.get(field) or _DEFAULTS.get(field)) for field in fields):
            continue
        if kind == "rbd" and not set(mine.get("monitors") or ()) & set(theirs.get("monitors") or ()):
            continue
        if not (readable and mine.get("readOnly") and theirs.get("readOnly")):
            return True
    return False


def shared_wrongly(store: Store, pod: Object, node: str) -> bool:
    """Return True if another pod uses a disk, or a claim for one pod only, that the pod needs."""
    volumes = pod["spec"].get("volumes") or ()
    if not volumes:
        return False
    others = [other for other in store.pods_on(node) if (other.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    if any(_clash(one, two) for other in others for one in volumes for two in other["spec"].get("volumes") or ()):
        return True
    alone = set()
    for key in volume_claims(pod):
        claim = store.get(CLAIMS, key)
        if claim is not None and "ReadWriteOncePod" in ((claim.get("spec") or {}).get("accessModes") or ()):
            alone.add(key)
    return bool(alone) and any(
        alone & set(volume_claims(other))
        for other in store.all(PODS).values()
        if other["spec"].get("nodeName") and (other.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    )
