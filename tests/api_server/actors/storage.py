"""Controllers of claims: they create claims of ephemeral volumes, and choose or provision volumes."""

from __future__ import annotations

from typing import Any

from tests.api_server.actors.worker import Worker
from tests.api_server.core import Caller, Entry
from tests.api_server.resources import CLAIMS, CLASSES, NODES, PODS, VOLUMES
from tests.api_server.rules.volumes import SELECTED, STATIC, is_bound, static_volume, waits_for_consumer
from tests.api_server.store import Change, copy
from tests.api_server.writes.deleting import delete
from tests.api_server.writes.objects import create

Object = dict[str, Any]
_ZONE = "topology.kubernetes.io/zone"


def _key(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


class EphemeralClaims(Worker):
    """A controller that creates the claims of generic ephemeral volumes of new pods."""

    def hear(self, change: Change, entry: Entry) -> None:
        if change.resource is PODS and change.old is None and any("ephemeral" in one for one in change.new["spec"].get("volumes") or ()):
            self.note(change.key)

    def work(self, key: str) -> None:
        pod = self.core.store.get(PODS, key)
        if pod is None or "deletionTimestamp" in pod["metadata"] or (pod.get("status") or {}).get("phase", "Pending") != "Pending":
            return
        metadata = pod["metadata"]
        for volume in pod["spec"].get("volumes") or ():
            name = f"{metadata['name']}-{volume['name']}"
            if "ephemeral" not in volume or self.core.store.get(CLAIMS, f"{metadata['namespace']}/{name}") is not None:
                continue
            template = volume["ephemeral"].get("volumeClaimTemplate") or {}
            reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
            body = {"metadata": {"name": name, "ownerReferences": [reference]}, "spec": copy(template.get("spec") or {})}
            create(self.core, self.caller, CLAIMS, metadata["namespace"], body)


class Volumes(Worker):
    """The volume controller and the provisioners.

    A claim that waits for its first consumer gets a new volume only after ``volume.kubernetes.io/selected-node`` names a node. It gets an
    existing volume only if the scheduler has set the volume's ``claimRef``.
    """

    name = "provisioner"

    def hear(self, change: Change, entry: Entry) -> None:
        if change.resource is CLAIMS:
            if change.deleted:
                self._release(change.new)
            elif not is_bound(change.new):
                self.note(change.key)
        elif change.resource is VOLUMES and not change.deleted:
            reference = (change.new.get("spec") or {}).get("claimRef")
            if reference is not None:
                self.note(f"{reference['namespace']}/{reference['name']}")
            else:
                for key, claim in self.core.store.all(CLAIMS).items():
                    if not is_bound(claim):
                        self.note(key)
        elif change.resource is CLASSES and change.old is None:
            for key, claim in self.core.store.all(CLAIMS).items():
                if not is_bound(claim):
                    self.note(key)

    def work(self, key: str) -> None:
        store = self.core.store
        claim = store.get(CLAIMS, key)
        if claim is None or is_bound(claim) or "deletionTimestamp" in claim["metadata"]:
            return
        named = (claim.get("spec") or {}).get("volumeName")
        volume = store.get(VOLUMES, named) if named else static_volume(store, claim, None)
        waits = waits_for_consumer(store, claim)
        if volume is not None and (named or not waits or "claimRef" in volume["spec"]):
            self._bind(claim, volume)
            return
        found = store.get(CLASSES, (claim.get("spec") or {}).get("storageClassName") or "")
        selected = (claim["metadata"].get("annotations") or {}).get(SELECTED)
        if named or found is None or found.get("provisioner") == STATIC or (waits and not selected):
            return
        node = store.get(NODES, selected) if selected else None
        if waits and node is None:
            return
        self._bind(claim, self._provision(claim, found, node))

    def _provision(self, claim: Object, found: Object, node: Object | None) -> Object:
        spec = claim["spec"]
        name = f"pvc-{claim['metadata']['uid']}"
        made: Object = {
            "capacity": {"storage": ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")},
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "storageClassName": found["metadata"]["name"],
            "persistentVolumeReclaimPolicy": found.get("reclaimPolicy") or "Delete",
            "csi": {"driver": found.get("provisioner") or "stand-in.example.com", "volumeHandle": name},
        }
        allowed = [one["key"] for term in found.get("allowedTopologies") or () for one in term.get("matchLabelExpressions") or ()]
        labels = (node["metadata"].get("labels") or {}) if node is not None else {}
        keys = [key for key in allowed or [_ZONE] if key in labels]
        if keys:
            terms = [{"key": key, "operator": "In", "values": [labels[key]]} for key in dict.fromkeys(keys)]
            made["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
        return create(self.core, self.caller, VOLUMES, None, {"metadata": {"name": name}, "spec": made})

    def _bind(self, claim: Object, volume: Object) -> None:
        metadata = claim["metadata"]
        new = copy(volume)
        new["spec"]["claimRef"] = {
            "kind": "PersistentVolumeClaim",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        new["status"] = {"phase": "Bound"}
        self.core.commit(self.caller, "update", VOLUMES, volume["metadata"]["name"], new)
        mine = copy(claim)
        mine["spec"]["volumeName"] = volume["metadata"]["name"]
        mine["status"] = {
            "phase": "Bound",
            "accessModes": new["spec"].get("accessModes") or [],
            "capacity": new["spec"].get("capacity") or {},
        }
        self.core.commit(self.caller, "bind claim", CLAIMS, _key(claim), mine)

    def _release(self, claim: Object) -> None:
        """Delete, or release, the volume of a claim that is gone."""
        name = (claim.get("spec") or {}).get("volumeName")
        volume = self.core.store.get(VOLUMES, name or "")
        if (
            name is None
            or volume is None
            or ((volume.get("spec") or {}).get("claimRef") or {}).get("uid") not in (None, claim["metadata"]["uid"])
        ):
            return
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self.core.clock.later(0, lambda: self._delete(name))
        else:
            self.core.clock.later(0, lambda: self.set_status(VOLUMES, name, phase="Released"))

    def _delete(self, name: str) -> None:
        if self.core.store.get(VOLUMES, name) is not None:
            delete(self.core, Caller(self.name), VOLUMES, name)
