"""Gated pods as API objects, and the patch that releases one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubestow.live.api.answers import Object
from kubestow.models.execution.template_nodes import GATE, by_name

#: Annotation of a released pod with its node.
PLACED_ON: Final = "kubestow.dev/placed-on"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def is_held(pod: Object) -> bool:
    """Return True if the pod has kubestow's scheduling gate."""
    return any(gate.get("name") == GATE for gate in pod["spec"].get("schedulingGates") or ())


def is_living(pod: Object) -> bool:
    """Return True if the pod is neither being deleted nor finished."""
    return "deletionTimestamp" not in pod["metadata"] and not is_over(pod)


def is_over(pod: Object) -> bool:
    """Return True if the pod has finished."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def node_of(pod: Object) -> str:
    """Return the node of a pod: the current one, otherwise the one given at release; empty for neither."""
    return str(pod["spec"].get("nodeName") or (pod["metadata"].get("annotations") or {}).get(PLACED_ON) or "")


def key_of(obj: Object) -> str:
    """Return ``namespace/name``."""
    return f"{obj['metadata'].get('namespace', 'default')}/{obj['metadata']['name']}"


def path_of(pod: Object) -> str:
    """Return the URL path of a pod."""
    return f"/api/v1/namespaces/{pod['metadata'].get('namespace', 'default')}/pods/{pod['metadata']['name']}"


def controller_uid(obj: Object) -> str:
    """Return the uid of an object's controller; empty without one."""
    owners: Iterable[Object] = obj["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


def letting_go(pod: Object, node: str | None) -> Object:
    """Return the merge patch that removes the gate and ties the pod to a node by its affinity, or to none.

    The API allows additions to the required node affinity of a gated pod: a term if there is none, and requirements in every other term.
    Terms are ORed, so each of them gets the node. A term without requirements matches no node and stays as it is. The server refuses the
    patch (409) for a replaced or changed pod.
    """
    metadata: Object = {key: pod["metadata"][key] for key in ("uid", "resourceVersion") if key in pod["metadata"]}
    gates = [gate for gate in pod["spec"]["schedulingGates"] if gate.get("name") != GATE]
    spec: Object = {"schedulingGates": gates or None}
    if node is not None:
        metadata["annotations"] = {PLACED_ON: node}
        required = _at(pod["spec"], "affinity", "nodeAffinity", _REQUIRED)
        terms = [_on(term, node) for term in required.get("nodeSelectorTerms") or ()] or [{"matchFields": [by_name(node)]}]
        spec["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    return {"metadata": metadata, "spec": spec}


def as_read(pod: Object) -> Object:
    """Return the fields that :func:`letting_go` depends on, and the pod's controller, for the journal."""
    owners = [owner for owner in pod["metadata"].get("ownerReferences") or () if owner.get("controller")]
    required = _at(pod["spec"], "affinity", "nodeAffinity", _REQUIRED)
    spec: Object = {"schedulingGates": pod["spec"].get("schedulingGates") or []}
    if required:
        spec["affinity"] = {"nodeAffinity": {_REQUIRED: required}}
    return {"metadata": {"resourceVersion": pod["metadata"].get("resourceVersion"), "ownerReferences": owners}, "spec": spec}


def _on(term: Object, node: str) -> Object:
    if not term.get("matchFields") and not term.get("matchExpressions"):
        return term
    return {**term, "matchFields": [*(term.get("matchFields") or ()), by_name(node)]}


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = (value or {}).get(key)
    return value or {}


def is_waiting(pod: Object) -> bool:
    """Return True if a pod was released to a node and is not bound yet."""
    return not is_held(pod) and not pod["spec"].get("nodeName") and bool(node_of(pod))
