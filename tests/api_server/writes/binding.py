"""``pods/binding`` (``pkg/registry/core/pod/storage``)."""

from __future__ import annotations

from typing import Any

from tests.api_server.core import Caller, Core
from tests.api_server.refusals import bad_request, conflict, invalid, not_found, precondition
from tests.api_server.resources import PODS
from tests.api_server.store import copy

Object = dict[str, Any]


def set_condition(pod: Object, condition: Object) -> None:
    """Set a condition of a pod in place."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [one for one in conditions if one["type"] != condition["type"]]
    conditions.append(condition)


def bind(core: Core, caller: Caller, key: str, body: Object) -> None:
    """Bind a pod to the node that a Binding names, even if the node does not exist.

    Raises:
        Refused: The pod does not exist, has another uid, or is bound, terminating or gated.
    """
    name, metadata, target = key.rpartition("/")[2], body.get("metadata") or {}, body.get("target") or {}
    if metadata.get("name") != name:
        raise bad_request("name in URL does not match name in Binding object")
    if target.get("kind") not in (None, "", "Node") or not target.get("name"):
        field, why = ("target.name", "Required value") if not target.get("name") else ("target.kind", "Unsupported value")
        raise invalid(PODS, name, [(field, "FieldValueRequired", why)])
    pod = core.store.get(PODS, key)
    if pod is None:
        raise not_found(PODS, name)
    for what, wanted, found in (
        ("UID", metadata.get("uid"), pod["metadata"]["uid"]),
        ("ResourceVersion", metadata.get("resourceVersion"), pod["metadata"]["resourceVersion"]),
    ):
        if wanted and wanted != found:
            raise precondition(PODS, key, what, wanted, found)
    why = ""
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(PODS, name, why, subresource="binding")
    new = copy(pod)
    new["spec"]["nodeName"] = target["name"]
    if metadata.get("annotations"):
        new["metadata"]["annotations"] = (new["metadata"].get("annotations") or {}) | metadata["annotations"]
    new.setdefault("status", {}).pop("nominatedNodeName", None)
    set_condition(new, {"type": "PodScheduled", "status": "True", "lastTransitionTime": core.timestamp()})
    core.commit(caller, "bind", PODS, key, new)
