"""Pods whose eviction other parties have requested: EvictionRequests (lifecycle.k8s.io, KEP-4563, alpha in 1.37).

A request counts while its intent is Eviction and it has neither failed nor completed. kubestow creates none
itself. Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4563-eviction-request-api
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.kube.workload_objects import EvictionRequest
from kubestow.models.snapshot.snapshot import Snapshot

_EVICTION_INTENT: Final = "Eviction"
_ENDED_CONDITIONS: Final = ("TargetEvicted", "Failed")
_SOMEBODY: Final = "somebody"


def requested(snapshot: Snapshot) -> dict[str, EvictionRequest]:
    """Return the pods to be evicted (namespace/name), each with its first EvictionRequest."""
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
    """Return the pod (namespace/name) of a request that counts; None for other requests."""
    spec = request.spec
    if spec is None or spec.intent != _EVICTION_INTENT or spec.target is None or spec.target.pod is None:
        return None
    conditions = (request.status.conditions if request.status is not None else None) or ()
    if any(each.type in _ENDED_CONDITIONS and each.status == "True" for each in conditions):
        return None
    return f"{request.metadata.namespace or 'default'}/{spec.target.pod.name}"


def asks_for(request: EvictionRequest, pod: Pod) -> bool:
    """Return True if a request that counts concerns this pod, not an earlier one of the same name."""
    wanted = request.spec.target.pod.uid if request.spec is not None and request.spec.target and request.spec.target.pod else None
    return target(request) == pod_key(pod) and (not wanted or not pod.metadata.uid or wanted == pod.metadata.uid)


def described(request: EvictionRequest) -> str:
    """Return the request with its requester, as in ``EvictionRequest default/r of example.com/drainer``."""
    name = f"{request.metadata.namespace or 'default'}/{request.metadata.name}"
    return f"EvictionRequest {name} of {(request.spec.requester if request.spec else None) or _SOMEBODY}"


def of_uid(objects: Mapping[str, Mapping[str, Any]], uid: str) -> str | None:
    """Return the request to evict the pod with a uid, with its requester, or None.

    Args:
        objects: EvictionRequests in the API's form.
    """
    return next((_described(each) for each in _current(objects) if each["spec"]["target"]["pod"].get("uid") == uid), None)


def notes(objects: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each pod that other parties want to evict. ``objects``: as for :func:`of_uid`."""
    found = []
    for each in _current(objects):
        pod = f"{each['metadata'].get('namespace', 'default')}/{each['spec']['target']['pod'].get('name', '')}"
        found.append(f"pod {pod} is to be evicted by others: {_described(each)} asks for it")
    return sorted(found)


def _current(objects: Mapping[str, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for each in objects.values():
        spec = each.get("spec") or {}
        over = any(
            c.get("type") in _ENDED_CONDITIONS and c.get("status") == "True" for c in (each.get("status") or {}).get("conditions") or ()
        )
        if spec.get("intent") == _EVICTION_INTENT and (spec.get("target") or {}).get("pod") and not over:
            yield each


def _described(request: Mapping[str, Any]) -> str:
    metadata = request["metadata"]
    name = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
    return f"EvictionRequest {name} of {request['spec'].get('requester') or _SOMEBODY}"
