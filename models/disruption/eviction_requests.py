"""Pods that others have asked to be evicted: EvictionRequests (lifecycle.k8s.io, KEP-4563, alpha in Kubernetes 1.37).

A request counts as long as its intent is Eviction and it has neither failed nor reached its end. kubestow makes none: all are of others.

Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4563-eviction-request-api
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.kube.workload_objects import EvictionRequest
from kubestow.models.snapshot.snapshot import Snapshot

_WANTED: Final = "Eviction"
_OVER: Final = ("TargetEvicted", "Failed")
_NOBODY: Final = "somebody"


def requested(snapshot: Snapshot) -> dict[str, EvictionRequest]:
    """Return the pods that are to be evicted (namespace/name), each with the first EvictionRequest that asks for it."""
    if not snapshot.eviction_requests:
        return {}
    pods = {pod_key(pod): pod for pod in snapshot.pods}
    found: dict[str, EvictionRequest] = {}
    for _, request in sorted(snapshot.eviction_requests.items()):
        key = target(request)
        if key is not None and key in pods and asks_for(request, pods[key]):
            found.setdefault(key, request)
    return found


def target(request: EvictionRequest) -> str | None:
    """Return the pod (namespace/name) that a request is about as long as it counts, else None."""
    spec = request.spec
    if spec is None or spec.intent != _WANTED or spec.target is None or spec.target.pod is None:
        return None
    conditions = (request.status.conditions if request.status is not None else None) or ()
    if any(each.type in _OVER and each.status == "True" for each in conditions):
        return None
    return f"{request.metadata.namespace or 'default'}/{spec.target.pod.name}"


def asks_for(request: EvictionRequest, pod: Pod) -> bool:
    """Return True if a request that counts is about this pod, and not about an earlier one of its name."""
    wanted = request.spec.target.pod.uid if request.spec is not None and request.spec.target and request.spec.target.pod else None
    return target(request) == pod_key(pod) and (not wanted or not pod.metadata.uid or wanted == pod.metadata.uid)


def described(request: EvictionRequest) -> str:
    """Return who asks, as in ``EvictionRequest default/r of example.com/drainer``."""
    name = f"{request.metadata.namespace or 'default'}/{request.metadata.name}"
    return f"EvictionRequest {name} of {(request.spec.requester if request.spec else None) or _NOBODY}"


def of_uid(objects: Mapping[str, Mapping[str, Any]], uid: str) -> str | None:
    """Return who asks for the eviction of the pod with a uid, None if nobody does. ``objects``: EvictionRequests as the API has them."""
    return next((_said(each) for each in _counting(objects) if each["spec"]["target"]["pod"].get("uid") == uid), None)


def notes(objects: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return which pods are to be evicted by others, a sentence each. ``objects``: as for :func:`of_uid`."""
    found = []
    for each in _counting(objects):
        pod = f"{each['metadata'].get('namespace', 'default')}/{each['spec']['target']['pod'].get('name', '')}"
        found.append(f"pod {pod} is to be evicted by others: {_said(each)} asks for it")
    return sorted(found)


def _counting(objects: Mapping[str, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for each in objects.values():
        spec = each.get("spec") or {}
        over = any(c.get("type") in _OVER and c.get("status") == "True" for c in (each.get("status") or {}).get("conditions") or ())
        if spec.get("intent") == _WANTED and (spec.get("target") or {}).get("pod") and not over:
            yield each


def _said(request: Mapping[str, Any]) -> str:
    metadata = request["metadata"]
    name = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
    return f"EvictionRequest {name} of {request['spec'].get('requester') or _NOBODY}"
