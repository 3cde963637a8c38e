"""The ResourceClaim controller: it creates claims from templates, and releases them when no pod uses them."""

from __future__ import annotations

from typing import Any

from tests.api_server.actors.worker import Worker
from tests.api_server.core import Entry
from tests.api_server.resources import CLAIM_TEMPLATES, DEVICE_CLAIMS, PODS
from tests.api_server.store import Change, copy
from tests.api_server.writes.objects import create

Object = dict[str, Any]


class DeviceClaims(Worker):
    """A controller that creates one claim for each pod and template. If the template is missing, the claim requests one device."""

    def hear(self, change: Change, entry: Entry) -> None:
        if change.resource is PODS and change.new["spec"].get("resourceClaims"):
            if change.deleted or (change.new.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                self.note(f"free {change.new['metadata']['uid']} {change.new['metadata']['namespace']}")
            elif change.old is None:
                self.note(f"make {change.key}")

    def work(self, key: str) -> None:
        what, *words = key.split(" ")
        if what == "make":
            self._make(words[0])
        else:
            self._free(*words)

    def _make(self, key: str) -> None:
        pod = self.core.store.get(PODS, key)
        if pod is None or "deletionTimestamp" in pod["metadata"] or (pod.get("status") or {}).get("phase", "Pending") != "Pending":
            return
        metadata, made = pod["metadata"], {}
        for one in pod["spec"]["resourceClaims"]:
            name = one.get("resourceClaimTemplateName")
            if not name or any(each["name"] == one["name"] for each in (pod.get("status") or {}).get("resourceClaimStatuses") or ()):
                continue
            template = self.core.store.get(CLAIM_TEMPLATES, f"{metadata['namespace']}/{name}") or {}
            reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
            body: Object = {"metadata": {"generateName": f"{metadata['name']}-{one['name']}-", "ownerReferences": [reference]}}
            body["spec"] = copy((template.get("spec") or {}).get("spec") or {})
            made[one["name"]] = create(self.core, self.caller, DEVICE_CLAIMS, metadata["namespace"], body)["metadata"]["name"]
        if made:
            statuses = [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
            known = (pod.get("status") or {}).get("resourceClaimStatuses") or []
            self.set_status(PODS, key, resourceClaimStatuses=known + statuses)

    def _free(self, uid: str, namespace: str) -> None:
        for key, claim in list(self.core.store.all(DEVICE_CLAIMS).items()):
            reserved = (claim.get("status") or {}).get("reservedFor") or []
            left = [one for one in reserved if one["uid"] != uid]
            if claim["metadata"]["namespace"] == namespace and left != reserved:
                new = copy(claim)
                new["status"]["reservedFor"] = left
                if not left:
                    new["status"].pop("allocation", None)
                self.core.commit(self.caller, "update", DEVICE_CLAIMS, key, new)
