"""Base classes of actors: they receive changes, queue keys, and process them after a delay."""

from __future__ import annotations

from typing import Any

from tests.api_server.core import Caller, Core, Entry
from tests.api_server.refusals import Refused
from tests.api_server.resources import PODS, Resource
from tests.api_server.store import Change, controller_of, copy
from tests.api_server.writes.objects import create

Object = dict[str, Any]
#: Kinds whose changes can allow or prevent the creation of pods.
_ADMITTING = ("ResourceQuota", "LimitRange", "PriorityClass", "Namespace")


class Worker:
    """A queue of distinct keys, processed in order after ``delay`` seconds."""

    name = "controller"

    def __init__(self, core: Core, delay: float) -> None:
        self.core = core
        self.caller = Caller(self.name)
        self._delay = delay
        self._noted: dict[str, None] = {}
        core.listeners.append(self.hear)

    def hear(self, change: Change, entry: Entry) -> None:
        """Queue the keys that a change affects."""

    def work(self, key: str) -> None:
        """Process a key."""

    def note(self, key: str, delay: float | None = None) -> None:
        """Queue a key. It is processed once, even if it is queued several times."""
        if key not in self._noted:
            self._noted[key] = None
            self.core.clock.later(self._delay if delay is None else delay, lambda: self._take(key))

    def _take(self, key: str) -> None:
        self._noted.pop(key, None)
        self.work(key)

    def set_status(self, resource: Resource, key: str, **fields: Any) -> None:
        """Update fields of an object's status."""
        obj = self.core.store.get(resource, key)
        if obj is None or all((obj.get("status") or {}).get(name) == value for name, value in fields.items()):
            return
        new = copy(obj)
        new["status"] = (new.get("status") or {}) | fields
        self.core.commit(self.caller, "update", resource, key, new)


class Controller(Worker):
    """A controller that processes an object of one kind after every change to it or its pods."""

    resource: Resource

    def __init__(self, core: Core, delay: float) -> None:
        super().__init__(core, delay)
        self._refused: dict[str, None] = {}  # objects whose pods the API refused to create

    def hear(self, change: Change, entry: Entry) -> None:
        """Queue the changed object, or the owner of the changed pod."""
        if self._refused and (change.deleted or change.resource.kind in _ADMITTING):
            for key in self._refused:
                self.note(key, self.core.behaviour.recreate)
            self._refused.clear()
        if change.resource is self.resource:
            if not change.deleted:
                self.note(change.key)
            return
        if change.resource is not PODS:
            return
        for pod in (change.old, change.now):
            owner = controller_of(pod) if pod is not None else None
            if owner is not None and owner["kind"] == self.resource.kind:
                self.note(f"{change.new['metadata']['namespace']}/{owner['name']}")

    def current(self, key: str) -> Object | None:
        """Return an object, or None if it is deleted or terminating."""
        obj = self.core.store.get(self.resource, key)
        return None if obj is None or "deletionTimestamp" in obj["metadata"] else obj

    def new_pod(self, owner: Object, template: Object, **metadata: Any) -> Object:
        """Return a new pod from a template, controlled by the owner, with ``name`` or ``generateName``."""
        meta, kept = owner["metadata"], template.get("metadata") or {}
        reference = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, "name": meta["name"], "uid": meta["uid"]}
        found = copy({"metadata": {}, "spec": template.get("spec") or {}})
        for field in ("labels", "annotations"):
            if kept.get(field):
                found["metadata"][field] = dict(kept[field])
        found["metadata"] |= metadata
        found["metadata"] |= {
            "namespace": meta["namespace"],
            "ownerReferences": [reference | {"controller": True, "blockOwnerDeletion": True}],
        }
        return found

    def create_pod(self, pod: Object) -> bool:
        """Create a pod, and return True if the API admits it. After a refusal, the owner is queued again when it may succeed."""
        try:
            create(self.core, self.caller, PODS, pod["metadata"]["namespace"], pod)
        except Refused:
            self._refused[f"{pod['metadata']['namespace']}/{pod['metadata']['ownerReferences'][0]['name']}"] = None
            return False
        return True
