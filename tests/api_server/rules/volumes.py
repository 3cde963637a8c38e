"""The scheduler's treatment of claims: nodes that can use their volumes, and the node choice for delayed claims."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tests.api_server.core import Caller, Core
from tests.api_server.resources import CLAIMS, CLASSES, DEVICE_CLAIMS, NODES, SLICES, VOLUMES
from tests.api_server.rules.claims import device_claims, volume_claims
from tests.api_server.rules.devices import Devices
from tests.api_server.rules.quantities import amount
from tests.api_server.rules.selectors import labels_match, node_selector_matches
from tests.api_server.store import Store, copy

Object = dict[str, Any]
SELECTED = "volume.kubernetes.io/selected-node"
STATIC = "kubernetes.io/no-provisioner"


def is_bound(claim: Object) -> bool:
    """Return True if a claim is bound to a volume."""
    return bool((claim.get("spec") or {}).get("volumeName")) and (claim.get("status") or {}).get("phase") == "Bound"


def waits_for_consumer(store: Store, claim: Object) -> bool:
    """Return True if a claim's volume is chosen together with the node of its pod."""
    found = store.get(CLASSES, (claim.get("spec") or {}).get("storageClassName") or "")
    return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"


def static_volume(store: Store, claim: Object, node: Object | None, taken: Collection[str] = ()) -> Object | None:
    """Return the smallest existing volume that a claim can use, or its reserved volume.

    The volume is reachable from ``node``, if given, and is not ``taken``."""
    spec, metadata = claim.get("spec") or {}, claim["metadata"]
    wanted = amount("storage", str(((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")))
    found = []
    for volume in store.all(VOLUMES).values():
        own, reference = volume.get("spec") or {}, (volume.get("spec") or {}).get("claimRef")
        size = amount("storage", str((own.get("capacity") or {}).get("storage", "0")))
        named = (metadata["namespace"], metadata["name"])
        mine = reference is not None and (reference.get("namespace"), reference.get("name")) == named
        if reference is not None and reference.get("uid") not in (None, "", metadata["uid"]):
            mine = False
        if (
            volume["metadata"]["name"] in taken
            or (reference is not None and not mine)
            or size < wanted
            or "deletionTimestamp" in volume["metadata"]
        ):
            continue
        if (own.get("storageClassName") or "") != (spec.get("storageClassName") or "") or own.get("volumeMode", "Filesystem") != spec.get(
            "volumeMode", "Filesystem"
        ):
            continue
        if not set(spec.get("accessModes") or ()) <= set(own.get("accessModes") or ()):
            continue
        if spec.get("selector") is not None and not labels_match(spec["selector"], volume["metadata"].get("labels")):
            continue
        if node is not None and not node_selector_matches((own.get("nodeAffinity") or {}).get("required"), node):
            continue
        found.append((not mine, size, volume["metadata"]["name"], volume))
    return min(found)[3] if found else None


def _topologies_match(terms: list[Object], node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    return not terms or any(
        all(labels.get(one["key"]) in one["values"] for one in term.get("matchLabelExpressions") or ()) for term in terms
    )


class Volumes:
    """The scheduler's handling of volume claims and device claims."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._devices = Devices(store)

    def are_known(self, pod: Object) -> bool:
        """Return True if all claims of a pod exist, and none waits for a volume that is bound without the scheduler."""
        for key in volume_claims(pod):
            claim = self._store.get(CLAIMS, key)
            if claim is None or "deletionTimestamp" in claim["metadata"]:
                return False
            if not is_bound(claim) and not waits_for_consumer(self._store, claim):
                return False
        return all(key and self._store.get(DEVICE_CLAIMS, key) is not None for key in device_claims(pod))

    def are_bound(self, pod: Object) -> bool:
        """Return True if all claims of a pod are bound."""
        claims = [self._store.get(CLAIMS, key) for key in volume_claims(pod)]
        return all(claim is not None and is_bound(claim) for claim in claims)

    def fit(self, pod: Object, node: Object) -> bool:
        """Return True if a node can use the pod's current or future volumes, and has the devices."""
        taken: set[str] = set()
        for key in volume_claims(pod):
            claim = self._store.all(CLAIMS)[key]
            if is_bound(claim):
                volume = self._store.get(VOLUMES, claim["spec"]["volumeName"])
                if volume is None or not node_selector_matches(((volume["spec"].get("nodeAffinity")) or {}).get("required"), node):
                    return False
                continue
            selected = (claim["metadata"].get("annotations") or {}).get(SELECTED)
            if selected and selected != node["metadata"]["name"]:
                return False
            found = self._store.all(CLASSES)[claim["spec"]["storageClassName"]]
            there = static_volume(self._store, claim, node, taken)
            if there is not None:
                taken.add(there["metadata"]["name"])
            elif found.get("provisioner") == STATIC or not _topologies_match(found.get("allowedTopologies") or [], node):
                return False
        return self._devices_fit(pod, node)

    def _devices_fit(self, pod: Object, node: Object) -> bool:
        for key in device_claims(pod):
            allocated = (self._store.all(DEVICE_CLAIMS)[key].get("status") or {}).get("allocation")
            if allocated is not None and "nodeSelector" in allocated and not node_selector_matches(allocated["nodeSelector"], node):
                return False
        return not self._store.all(SLICES) or self._devices.find(self._unallocated(pod), node) is not None

    def _unallocated(self, pod: Object) -> list[str]:
        claims = self._store.all(DEVICE_CLAIMS)
        return [key for key in dict.fromkeys(device_claims(pod)) if (claims[key].get("status") or {}).get("allocation") is None]

    def reserve(self, core: Core, caller: Caller, pod: Object, node: str) -> bool:
        """Select a node for the claims of a pod, and return True if all of them are already bound."""
        wanted = self._unallocated(pod)
        given = self._devices.find(wanted, self._store.all(NODES)[node]) if wanted and self._store.all(SLICES) else {}
        for key in device_claims(pod):
            self._allocate(core, caller, key, pod, node, (given or {}).get(key))
        ready = True
        for key in volume_claims(pod):
            claim = self._store.all(CLAIMS)[key]
            if is_bound(claim):
                continue
            ready = False
            there = static_volume(self._store, claim, self._store.all(NODES)[node])
            new = copy(there or claim)
            if there is not None:
                named = {field: claim["metadata"][field] for field in ("namespace", "name", "uid")}
                new["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", **named}
                core.commit(caller, "update", VOLUMES, there["metadata"]["name"], new)
            else:
                new["metadata"]["annotations"] = (new["metadata"].get("annotations") or {}) | {SELECTED: node}
                core.commit(caller, "update", CLAIMS, key, new)
        return ready

    def _allocate(self, core: Core, caller: Caller, key: str, pod: Object, node: str, results: list[Object] | None) -> None:
        """Reserve a claim for a pod. An unallocated claim gets ``results``; None means any devices, if none are published."""
        new = copy(self._store.all(DEVICE_CLAIMS)[key])
        status = new.setdefault("status", {})
        if "allocation" not in status:
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            requests = ((new.get("spec") or {}).get("devices") or {}).get("requests") or [{"name": "device"}]
            made = [
                {"request": one["name"], "driver": "stand-in.example.com", "pool": node, "device": str(i)} for i, one in enumerate(requests)
            ]
            for result in results or ():
                if "shareID" in result:
                    result["shareID"] = core.new_uid("share", key)
            selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
            status["allocation"] = {"devices": {"results": made if results is None else results}, "nodeSelector": selector}
        metadata = pod["metadata"]
        if not any(one["uid"] == metadata["uid"] for one in status.setdefault("reservedFor", [])):
            status["reservedFor"].append({"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]})
        core.commit(caller, "update", DEVICE_CLAIMS, key, new)
