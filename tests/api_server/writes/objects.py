"""Creation and updates of objects."""

from __future__ import annotations

from typing import Any, Literal

from tests.api_server.core import Caller, Core
from tests.api_server.refusals import Refused, already_exists, bad_request, invalid, modified, not_found, precondition
from tests.api_server.resources import BUDGETS, LEASES, NAMESPACES, PODS, PRIORITIES, Resource
from tests.api_server.store import copy
from tests.api_server.writes import patches
from tests.api_server.writes.admission import check_quotas, default_resources
from tests.api_server.writes.deleting import finish
from tests.api_server.writes.pod_rules import check_update

Object = dict[str, Any]
PatchKind = Literal["merge", "json", "strategic"]
#: Fields that a client cannot set.
_KEPT = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "generateName")
#: Kinds whose updates must have a resourceVersion.
_CONDITIONAL = (LEASES, BUDGETS)
_EVERYWHERE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def create(core: Core, caller: Caller, resource: Resource, namespace: str | None, body: Object) -> Object:
    """Create an object and return it.

    Raises:
        Refused: The name exists, the namespace is missing, or the object is of another kind.
    """
    obj = copy(body)
    obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
    metadata = obj.setdefault("metadata", {})
    if metadata.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    if resource.namespaced:
        if metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if core.store.get(NAMESPACES, str(namespace)) is None:
            raise not_found(NAMESPACES, str(namespace))
    if not metadata.get("name"):
        base = metadata.get("generateName")
        if not base:
            raise invalid(resource, "", [("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")])
        metadata["name"] = base[:58] + core.suffix(resource.plural, namespace, base)
    key = f"{namespace}/{metadata['name']}" if resource.namespaced else metadata["name"]
    if core.store.get(resource, key) is not None:
        raise already_exists(resource, metadata["name"])
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
        metadata.pop(field, None)
    metadata |= {"uid": core.new_uid(resource.plural, key), "creationTimestamp": core.timestamp()}
    if "status" in resource.subresources:
        obj.pop("status", None)
        metadata["generation"] = 1
    if resource is PODS:
        _default_pod(core, obj)
        check_quotas(core, obj)
    return core.commit(caller, "create", resource, key, obj)


def _default_pod(core: Core, pod: Object) -> None:
    """Set the defaults of a new pod, also those of admission: priority, tolerations, phase."""
    spec, name = pod.setdefault("spec", {}), pod["metadata"]["name"]
    if not spec.get("containers"):
        raise invalid(PODS, name, [("spec.containers", "FieldValueRequired", "Required value")])
    if spec.get("nodeName") and spec.get("schedulingGates"):
        message = "Forbidden: cannot be set until all schedulingGates have been cleared"
        raise invalid(PODS, name, [("spec.nodeName", "FieldValueForbidden", message)])
    spec |= {"restartPolicy": "Always", "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30} | spec
    classes = core.store.all(PRIORITIES)
    if wanted := spec.get("priorityClassName"):
        system = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
        value = classes[wanted].get("value") if wanted in classes else system.get(wanted)
        if value is None:
            raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: no PriorityClass with name {wanted} was found')
        spec["priority"] = value
    elif "priority" not in spec:
        default = next((one for one in classes.values() if one.get("globalDefault")), None)
        spec["priority"] = default.get("value", 0) if default else 0
        if default:
            spec["priorityClassName"] = default["metadata"]["name"]
    if core.behaviour.default_tolerations:
        tolerations = spec.setdefault("tolerations", [])
        for key in _EVERYWHERE:
            if not any(one.get("key") in (key, None, "") and one.get("effect") in ("NoExecute", None, "") for one in tolerations):
                tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    default_resources(core, pod)
    pod["status"] = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]


def update(core: Core, caller: Caller, resource: Resource, key: str, body: Object, sub: str = "", *, verb: str = "update") -> Object:
    """Replace an object, or with ``sub`` its status, and return it. ``verb`` is the verb in the log.

    Raises:
        Refused: The object does not exist, its version differs from the body's, or the update is not allowed.
    """
    old, name = core.store.get(resource, key), key.rpartition("/")[2]
    if old is None:
        if resource is LEASES and not sub and not (body.get("metadata") or {}).get("resourceVersion"):
            return create(core, caller, resource, key.partition("/")[0], body)
        raise not_found(resource, name)
    new = copy(body)
    before, after = old["metadata"], new.setdefault("metadata", {})
    if after.get("name", name) != name:
        raise bad_request(f"the name of the object ({after['name']}) does not match the name on the URL ({name})")
    if after.get("uid") and after["uid"] != before["uid"]:
        if verb == "patch":
            message = f'Invalid value: "{after["uid"]}": field is immutable'
            raise invalid(resource, name, [("metadata.uid", "FieldValueInvalid", message)])
        raise precondition(resource, name, "UID", after["uid"], before["uid"])
    if after.get("resourceVersion"):
        if after["resourceVersion"] != before["resourceVersion"]:
            raise modified(resource, name)
    elif resource in _CONDITIONAL:
        message = "Invalid value: 0: must be specified for an update"
        raise invalid(resource, name, [("metadata.resourceVersion", "FieldValueInvalid", message)])
    for field in _KEPT:
        if field in before:
            after[field] = before[field]
        else:
            after.pop(field, None)
    new["apiVersion"], new["kind"] = resource.api_version, resource.kind
    _keep_the_rest(resource, old, new, sub)
    if resource is PODS and not sub:
        check_update(name, new.get("spec") or {}, old["spec"])
    new = core.commit(caller, verb, resource, key, new)
    if "deletionTimestamp" in before and not after.get("finalizers") and not before.get("deletionGracePeriodSeconds"):
        finish(core, caller, resource, key)
    return new


def _keep_the_rest(resource: Resource, old: Object, new: Object, sub: str) -> None:
    """Restore the parts that this request cannot change: the status, or everything else for a status update."""
    if sub == "status":
        changed = new.get("status")
        new.clear()
        new |= copy(old)
        if changed is not None:
            new["status"] = changed
    elif "status" in resource.subresources and "status" in old:
        new["status"] = copy(old["status"])
    elif "status" in resource.subresources:
        new.pop("status", None)


def patch(core: Core, caller: Caller, resource: Resource, key: str, body: Any, kind: PatchKind = "merge", sub: str = "") -> Object:
    """Change an object by a patch and return it.

    Raises:
        Refused: The object does not exist, the patch does not apply, or the update is not allowed.
    """
    old = core.store.get(resource, key)
    if old is None:
        raise not_found(resource, key.rpartition("/")[2])
    if kind == "json":
        new = patches.operations(copy(old), body)
    elif not isinstance(body, dict):
        raise bad_request("error decoding patch: cannot unmarshal into an object")
    else:
        new = (patches.merge if kind == "merge" else patches.strategic)(copy(old), body)
    return update(core, caller, resource, key, new, sub, verb="patch")
