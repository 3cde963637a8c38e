"""The object store of a simulated cluster, with recent changes and pod indices. Objects are never changed in place."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal

import msgspec

from tests.api_server.resources import PODS, Resource
from tests.api_server.rules.node_usage import NodeUsage

Object = dict[str, Any]


def copy(obj: Object) -> Object:
    """Return a deep copy that the caller can change."""
    found: Object = msgspec.json.decode(msgspec.json.encode(obj))
    return found


def key_of(resource: Resource, metadata: Object) -> str:
    """Return the key of an object: its name, or ``namespace/name``."""
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}" if resource.namespaced else str(metadata["name"])


def controller_of(obj: Object) -> Object | None:
    """Return the reference to the controller that owns an object."""
    return next((one for one in obj["metadata"].get("ownerReferences") or () if one.get("controller")), None)


def is_active(pod: Object) -> bool:
    """Return True if a pod is neither terminated nor terminating."""
    return "deletionTimestamp" not in pod["metadata"] and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def is_ready(pod: Object) -> bool:
    """Return True if the pod's condition Ready is True."""
    return any(one["type"] == "Ready" and one["status"] == "True" for one in (pod.get("status") or {}).get("conditions") or ())


class Change:
    """The old and new state of an object. ``old`` is None for a new object; ``new`` is the last state of a deleted one."""

    def __init__(self, version: int, resource: Resource, key: str, old: Object | None, new: Object, *, deleted: bool) -> None:
        self.version, self.resource, self.key, self.old, self.new, self.deleted = version, resource, key, old, new, deleted

    @property
    def type(self) -> Literal["ADDED", "MODIFIED", "DELETED"]:
        """The type of the watch event."""
        return "DELETED" if self.deleted else "ADDED" if self.old is None else "MODIFIED"

    @property
    def now(self) -> Object | None:
        """The object after the change, or None if it was deleted."""
        return None if self.deleted else self.new

    @cached_property
    def encoded(self) -> bytes:
        """The watch event as a line of JSON, for watchers without a selector."""
        return msgspec.json.encode({"type": self.type, "object": self.new}) + b"\n"


class Store:
    """All objects. ``version`` is the resourceVersion of the latest change, ``compacted`` that of the latest discarded change."""

    def __init__(self, history: int) -> None:
        self.version = 1000
        self.compacted = 1000
        self.history: deque[Change] = deque()
        self.usage = NodeUsage()
        self._most = history
        self._objects: dict[Resource, dict[str, Object]] = defaultdict(dict)
        self._by_uid: dict[str, tuple[Resource, str]] = {}
        self._pods_on: dict[str, dict[str, None]] = defaultdict(dict)
        #: Pods with required anti-affinity, by key.
        self.repelling: dict[str, None] = {}
        self._owned: dict[str, dict[tuple[Resource, str], None]] = defaultdict(dict)

    def get(self, resource: Resource, key: str) -> Object | None:
        """Return an object."""
        return self._objects[resource].get(key)

    def all(self, resource: Resource) -> dict[str, Object]:
        """Return the objects of a kind by key. They must not be modified."""
        return self._objects[resource]

    def resources(self) -> Iterator[Resource]:
        """Yield the kinds that have objects."""
        yield from (one for one, objects in self._objects.items() if objects)

    def by_uid(self, uid: str) -> tuple[Resource, Object] | None:
        """Return an object by its uid."""
        found = self._by_uid.get(uid)
        return None if found is None else (found[0], self._objects[found[0]][found[1]])

    def pods_on(self, node: str) -> list[Object]:
        """Return the pods that are bound to a node."""
        pods = self._objects[PODS]
        return [pods[key] for key in self._pods_on.get(node, ())]

    def owned(self, uid: str) -> list[tuple[Resource, Object]]:
        """Return the objects with an owner reference to this uid."""
        return [(resource, self._objects[resource][key]) for resource, key in self._owned.get(uid, ())]

    def pods_of(self, uid: str) -> list[Object]:
        """Return the pods whose controller has this uid."""
        found = (obj for resource, obj in self.owned(uid) if resource is PODS)
        return [pod for pod in found if (controller_of(pod) or {}).get("uid") == uid]

    def put(self, resource: Resource, key: str, new: Object | None) -> Change:
        """Store or delete an object under the next resourceVersion. The store takes ownership of ``new``."""
        old = self._objects[resource].get(key)
        self.version += 1
        kept = new if new is not None else copy(old or {})
        kept["metadata"]["resourceVersion"] = str(self.version)
        self._unindex(resource, key, old)
        if new is None:
            del self._objects[resource][key]
        else:
            self._objects[resource][key] = new
            self._index(resource, key, new)
        change = Change(self.version, resource, key, old, kept, deleted=new is None)
        self.history.append(change)
        if len(self.history) > self._most:
            self.compacted = self.history.popleft().version
        return change

    def compact(self) -> None:
        """Discard all changes. Watches from an earlier version must list again."""
        self.history.clear()
        self.compacted = self.version

    def since(self, version: int) -> list[Change]:
        """Return the changes after a version that is not compacted."""
        found = []
        for change in reversed(self.history):
            if change.version <= version:
                break
            found.append(change)
        return found[::-1]

    def _index(self, resource: Resource, key: str, obj: Object) -> None:
        metadata = obj["metadata"]
        self._by_uid[metadata["uid"]] = resource, key
        for reference in metadata.get("ownerReferences") or ():
            self._owned[reference["uid"]][resource, key] = None
        if resource is PODS:
            self.usage.change(obj, 1)
            affinity = (obj["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
            if affinity.get("requiredDuringSchedulingIgnoredDuringExecution"):
                self.repelling[key] = None
            if node := obj["spec"].get("nodeName"):
                self._pods_on[node][key] = None

    def _unindex(self, resource: Resource, key: str, obj: Object | None) -> None:
        if obj is None:
            return
        self._by_uid.pop(obj["metadata"]["uid"], None)
        for reference in obj["metadata"].get("ownerReferences") or ():
            self._owned[reference["uid"]].pop((resource, key), None)
        if resource is PODS:
            self.usage.change(obj, -1)
            self.repelling.pop(key, None)
            if node := obj["spec"].get("nodeName"):
                self._pods_on[node].pop(key, None)
