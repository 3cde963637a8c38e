"""Deletion: preconditions, grace, finalizers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.api_server.core import Caller, Core
from tests.api_server.refusals import not_found
from tests.api_server.resources import PODS, Resource
from tests.api_server.store import copy
from tests.api_server.writes.options import Deletion

Object = dict[str, Any]


def _grace(pod: Object, options: Deletion) -> int:
    """Return the grace period of a pod in seconds (``podStrategy.CheckGracefulDelete``)."""
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    own = pod["spec"].get("terminationGracePeriodSeconds")
    period = options.grace if options.grace is not None else 30 if own is None else int(own)
    return 1 if period < 0 else period


def _later(timestamp: str, seconds: int) -> str:
    found = datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) + timedelta(seconds=seconds)
    return found.strftime("%Y-%m-%dT%H:%M:%SZ")


def delete(core: Core, caller: Caller, resource: Resource, key: str, options: Deletion | None = None, verb: str = "delete") -> Object:
    """Delete an object, or start its termination, and return its new or last state.

    Raises:
        Refused: The object does not exist, or a precondition does not hold.
    """
    options = options or Deletion()
    caller = replace(caller, dry=caller.dry or options.dry)
    obj = core.store.get(resource, key)
    if obj is None:
        raise not_found(resource, key.rpartition("/")[2])
    options.check(resource, obj)
    grace = _grace(obj, options) if resource is PODS else 0
    going = "deletionTimestamp" in obj["metadata"]
    if going and grace >= obj["metadata"].get("deletionGracePeriodSeconds", 0) > 0:
        return obj
    if options.propagation == "Orphan":
        _orphan(core, caller, obj["metadata"]["uid"])
    if grace == 0 and not obj["metadata"].get("finalizers"):
        return core.commit(caller, verb, resource, key, None)
    new = copy(obj)
    if not going:
        new["metadata"]["deletionTimestamp"] = _later(core.timestamp(), grace)
    new["metadata"]["deletionGracePeriodSeconds"] = grace
    return core.commit(caller, verb, resource, key, new)


def finish(core: Core, caller: Caller, resource: Resource, key: str) -> None:
    """Delete a terminated object unless it has finalizers."""
    obj = core.store.get(resource, key)
    if obj is None or "deletionTimestamp" not in obj["metadata"]:
        return
    if obj["metadata"].get("finalizers"):
        new = copy(obj)
        new["metadata"]["deletionGracePeriodSeconds"] = 0
        core.commit(caller, "update", resource, key, new)
    else:
        core.commit(caller, "gone", resource, key, None)


def _orphan(core: Core, caller: Caller, uid: str) -> None:
    for resource, obj in core.store.owned(uid):
        new = copy(obj)
        new["metadata"]["ownerReferences"] = [one for one in new["metadata"]["ownerReferences"] if one["uid"] != uid]
        metadata = obj["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}" if resource.namespaced else metadata["name"]
        core.commit(Caller("controller", caller.dry), "update", resource, key, new)
