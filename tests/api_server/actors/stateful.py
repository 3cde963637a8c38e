"""The StatefulSet controller: it creates a pod again under the same name when the old one is gone."""

from __future__ import annotations

import re
from typing import Any

from tests.api_server.actors.worker import Controller
from tests.api_server.core import Core
from tests.api_server.resources import CLAIMS, PODS, STATEFUL_SETS
from tests.api_server.store import copy, is_ready
from tests.api_server.writes.deleting import delete
from tests.api_server.writes.objects import create

Object = dict[str, Any]


class StatefulSets(Controller):
    """A controller that creates pods one by one, each when the earlier ones are Ready, or all together with ``Parallel``.

    A set that was loaded with pods whose names are not its ordinals keeps these names.
    """

    resource = STATEFUL_SETS

    def __init__(self, core: Core, delay: float) -> None:
        super().__init__(core, delay)
        self._named: dict[str, list[str]] = {}

    def work(self, key: str) -> None:
        owner = self.current(key)
        if owner is None:
            return
        self._sync(owner)
        pods = self.core.store.pods_of(owner["metadata"]["uid"])
        ready = sum(1 for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"])
        counts = {"replicas": len(pods), "readyReplicas": ready, "availableReplicas": ready, "currentReplicas": len(pods)}
        self.set_status(self.resource, key, **counts, observedGeneration=owner["metadata"].get("generation", 1))

    def _names(self, owner: Object) -> list[str]:
        metadata, spec = owner["metadata"], owner.get("spec") or {}
        replicas = 1 if spec.get("replicas") is None else int(spec["replicas"])
        mine = sorted(pod["metadata"]["name"] for pod in self.core.store.pods_of(metadata["uid"]))
        if any(not re.fullmatch(re.escape(metadata["name"]) + "-[0-9]+", name) for name in mine):
            self._named.setdefault(metadata["uid"], mine)
        if metadata["uid"] in self._named:
            return self._named[metadata["uid"]][:replicas]
        start = int((spec.get("ordinals") or {}).get("start") or 0)
        return [f"{metadata['name']}-{start + i}" for i in range(replicas)]

    def _sync(self, owner: Object) -> None:
        parallel = (owner.get("spec") or {}).get("podManagementPolicy") == "Parallel"
        names, namespace = self._names(owner), owner["metadata"]["namespace"]
        for name in names:
            pod = self.core.store.get(PODS, f"{namespace}/{name}")
            if pod is None:
                self._create(owner, name)
            elif (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded") and "deletionTimestamp" not in pod["metadata"]:
                delete(self.core, self.caller, PODS, f"{namespace}/{name}")
            elif is_ready(pod) and "deletionTimestamp" not in pod["metadata"]:
                continue
            if not parallel:
                return
        extra = [pod for pod in self.core.store.pods_of(owner["metadata"]["uid"]) if pod["metadata"]["name"] not in names]
        for pod in sorted(extra, key=lambda one: -int((re.findall("[0-9]+$", one["metadata"]["name"]) or [0])[0])):
            if "deletionTimestamp" not in pod["metadata"]:
                delete(self.core, self.caller, PODS, f"{namespace}/{pod['metadata']['name']}")
            if not parallel:
                return

    def _create(self, owner: Object, name: str) -> None:
        spec, namespace = owner.get("spec") or {}, owner["metadata"]["namespace"]
        pod = self.new_pod(owner, spec.get("template") or {}, name=name)
        ordinal = name.rpartition("-")[2]
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": ordinal}
        pod["metadata"]["labels"] = (pod["metadata"].get("labels") or {}) | labels
        pod["spec"] |= {"hostname": name} | ({"subdomain": spec["serviceName"]} if spec.get("serviceName") else {})
        volumes = {one["name"]: one for one in pod["spec"].get("volumes") or ()}
        for template in spec.get("volumeClaimTemplates") or ():
            claim = f"{template['metadata']['name']}-{name}"
            volumes[template["metadata"]["name"]] = {"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim}}
            if self.core.store.get(CLAIMS, f"{namespace}/{claim}") is None:
                metadata = {"name": claim, "namespace": namespace, "labels": (template["metadata"].get("labels") or {})}
                create(self.core, self.caller, CLAIMS, namespace, {"metadata": metadata, "spec": copy(template.get("spec") or {})})
        if volumes:
            pod["spec"]["volumes"] = list(volumes.values())
        self.create_pod(pod)
