"""Conversion of a snapshot to a simulated cluster. Fields that the snapshot's objects lack are filled in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.api_server.core import Caller, Core
from tests.api_server.resources import NAMESPACES, PODS, REPLICA_SETS, Resource, by_kind
from tests.api_server.store import controller_of, copy, is_active, key_of

Object = dict[str, Any]
_TRACKING = ("batch.kubernetes.io/job-tracking", "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection")


class Loader:
    """A loader for one snapshot. ``skipped`` lists kinds that the server does not support."""

    def __init__(self, core: Core, *, templates_of_pods: bool) -> None:
        self._core = core
        self._of_pods = templates_of_pods
        self._caller = Caller("load")
        self.skipped: set[str] = set()

    def load(self, items: Iterable[Object]) -> None:
        """Create all objects, owners first, so that no object appears orphaned."""
        found: dict[tuple[Resource, str], Object] = {}
        for item in items:
            resource = by_kind(item.get("kind", ""), item.get("apiVersion"))
            if resource is None:
                self.skipped.add(str(item.get("kind")))
                continue
            obj = self._complete(resource, item)
            found[resource, key_of(resource, obj["metadata"])] = obj
        pods = {key: obj for (resource, key), obj in found.items() if resource is PODS}
        self._add_owners(found, pods)
        self._add_namespaces(found)
        for _, obj in sorted(found.items(), key=lambda one: one[0][0] is PODS):
            for reference in obj["metadata"].get("ownerReferences") or ():
                self._refer(reference, obj, found)
        for (resource, key), obj in sorted(found.items(), key=lambda one: (one[0][0] is not NAMESPACES, one[0][0] is PODS)):
            self._core.commit(self._caller, "create", resource, key, obj)

    def _complete(self, resource: Resource, item: Object) -> Object:
        obj = copy(item)
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        metadata = obj.setdefault("metadata", {})
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        else:
            metadata.pop("namespace", None)
        metadata.setdefault("uid", self._core.new_uid(resource.plural, key_of(resource, metadata)))
        metadata.setdefault("creationTimestamp", self._core.timestamp())
        kept = [one for one in metadata.pop("finalizers", None) or () if one not in _TRACKING]
        if kept:
            metadata["finalizers"] = kept
        if "status" in resource.subresources:
            metadata.setdefault("generation", 1)
        if resource is PODS:
            _complete_pod(obj)
        return obj

    def _add_owners(self, found: dict[tuple[Resource, str], Object], pods: dict[str, Object]) -> None:
        """Add missing owners of pods, and missing templates of owners."""
        uids = {obj["metadata"]["uid"] for obj in found.values()}
        members: dict[tuple[Resource, str], list[Object]] = {}
        for pod in pods.values():
            reference = controller_of(pod)
            resource = by_kind(reference["kind"], reference.get("apiVersion")) if reference is not None else None
            if reference is None or resource is None:
                continue
            key = f"{pod['metadata']['namespace']}/{reference['name']}" if resource.namespaced else reference["name"]
            if resource.kind != "Node":
                members.setdefault((resource, key), []).append(pod)
            if (resource, key) not in found and resource is REPLICA_SETS:
                obj = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": {}}
                metadata = {"name": reference["name"], "namespace": pod["metadata"]["namespace"]}
                if reference.get("uid") and reference["uid"] not in uids:
                    metadata["uid"] = reference["uid"]
                    uids.add(reference["uid"])
                found[resource, key] = self._complete(resource, obj | {"metadata": metadata})
                selector = {"matchLabels": dict(pod["metadata"].get("labels") or {})}
                active = sum(1 for one in pods.values() if is_active(one) and _same(controller_of(one), reference, one, pod))
                found[resource, key]["spec"] = {"replicas": active, "selector": selector}
        for (resource, key), mine in members.items():
            owner = found.get((resource, key))
            if owner is None or resource.kind not in ("ReplicaSet", "ReplicationController", "StatefulSet", "Job"):
                continue
            template = (owner.setdefault("spec", {})).get("template") or {}
            if self._of_pods or not (template.get("spec") or {}).get("containers"):
                owner["spec"]["template"] = _template(mine[0])

    def _add_namespaces(self, found: dict[tuple[Resource, str], Object]) -> None:
        names = {"default", "kube-system"} | {key.partition("/")[0] for resource, key in found if resource.namespaced}
        for name in sorted(names):
            if (NAMESPACES, name) not in found and self._core.store.get(NAMESPACES, name) is None:
                labels = {"kubernetes.io/metadata.name": name}
                obj = {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Active"}}
                found[NAMESPACES, name] = self._complete(NAMESPACES, obj)

    def _refer(self, reference: Object, obj: Object, found: dict[tuple[Resource, str], Object]) -> None:
        """Set the uid of an owner reference to that of the owner, or to a new one if the owner is unknown."""
        resource = by_kind(reference.get("kind", ""), reference.get("apiVersion"))
        if resource is not None:
            key = f"{obj['metadata'].get('namespace')}/{reference['name']}" if resource.namespaced else reference["name"]
            owner = found.get((resource, key))
            if owner is not None:
                reference["uid"] = owner["metadata"]["uid"]
        if not reference.get("uid"):
            reference["uid"] = self._core.new_uid("unknown", reference.get("kind"), reference["name"])


def _same(reference: Object | None, other: Object, pod: Object, another: Object) -> bool:
    if reference is None or pod["metadata"]["namespace"] != another["metadata"]["namespace"]:
        return False
    return bool((reference["kind"], reference["name"]) == (other["kind"], other["name"]))


def _template(pod: Object) -> Object:
    """Return a template from which the pod could have been created."""
    spec = {key: value for key, value in copy(pod["spec"]).items() if key not in ("nodeName", "schedulingGates")}
    metadata = {field: dict(pod["metadata"][field]) for field in ("labels", "annotations") if pod["metadata"].get(field)}
    return {"metadata": metadata, "spec": spec}


def _complete_pod(pod: Object) -> None:
    status, spec = pod.setdefault("status", {}), pod.setdefault("spec", {})
    spec.setdefault("containers", [{"name": "c"}])
    bound = bool(spec.get("nodeName"))
    status.setdefault("phase", "Running" if bound else "Pending")
    if status["phase"] == "Running" and not any(one.get("type") == "Ready" for one in status.get("conditions") or ()):
        status.setdefault("conditions", []).extend(
            {"type": kind, "status": "True"} for kind in ("PodScheduled", "ContainersReady", "Ready")
        )
    if "deletionTimestamp" in pod["metadata"]:
        pod["metadata"].setdefault("deletionGracePeriodSeconds", 30)
