"""A cluster in one dictionary, for tests of changes to nodes: patches with resource versions, and a watch that lags only on request."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from kubestow.live.api.answers import Body, Object, ServerAnswer, Unreachable
from kubestow.models.documents.journal import What
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests import objects

T = TypeVar("T")
_PLURALS = {"nodes": "Node", "pods": "Pod", "leases": "Lease"}


class FakeCluster:
    """Objects by kind and name; ``send`` is the API, the rest is what a LiveCluster has. ``before`` is called with each request first."""

    def __init__(self, *items: Object) -> None:
        self.items: dict[tuple[str, str], Object] = {}
        self.sent: list[tuple[str, str, Object | None]] = []
        self.before: Callable[[str, str, Object | None], ServerAnswer | None] = lambda method, path, body: None
        self.facts: list[tuple[str, dict[str, Any]]] = []
        self.latency = 0.0
        self._version = 100
        self._changed = asyncio.Event()
        for item in items:
            self.put(item)

    # --- other actors ----------------------------------------------------------------------------------------------

    def put(self, item: Object) -> Object:
        item = copy.deepcopy(item)
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        item["metadata"].setdefault("uid", f"uid-{item['metadata']['name']}")
        self.items[item["kind"], item["metadata"]["name"]] = item
        self._changed.set()
        return item

    def edit(self, kind: str, name: str, change: Mapping[str, Any]) -> Object:
        item = copy.deepcopy(self.items[kind, name])
        merge(item, change)
        return self.put(item)

    def remove(self, kind: str, name: str) -> None:
        del self.items[kind, name]
        self._version += 1
        self._changed.set()

    # --- LiveCluster -----------------------------------------------------------------------------------------------

    def objects(self, kind: str) -> Mapping[str, Object]:
        return {item["metadata"]["uid"]: item for (each, _), item in self.items.items() if each == kind}

    def pod(self, uid: str) -> Object | None:
        return self.objects("Pod").get(uid)

    def node(self, name: str) -> Object:
        return self.items["Node", name]

    def snapshot(self) -> Snapshot:
        return from_objects([item for (kind, _), item in self.items.items() if kind != "Lease"])

    async def until(self, found: Callable[[], T | None], seconds: float) -> T | None:
        end = asyncio.get_running_loop().time() + seconds
        while True:
            self._changed.clear()
            value = found()
            left = end - asyncio.get_running_loop().time()
            if value is not None or left <= 0:
                return value
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                return found()

    # --- API and journal -------------------------------------------------------------------------------------------

    async def send(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        *,
        params: Mapping[str, str] | None = None,
        patch: Literal["merge", "json", "strategic"] = "merge",
    ) -> ServerAnswer:
        assert not isinstance(body, list)
        self.sent.append((method, path, body))
        await asyncio.sleep(self.latency)
        told = self.before(method, path, body)
        if told is not None:
            if told.code == 0:
                raise Unreachable("connection lost")
            return told
        parts = path.strip("/").split("/")
        kind = next(_PLURALS[part] for part in parts if part in _PLURALS)
        name = parts[-1]
        item = self.items.get((kind, name))
        if method == "POST":
            assert body is not None
            key = kind, body["metadata"]["name"]
            return _status(409, "AlreadyExists") if key in self.items else ServerAnswer(201, copy.deepcopy(self.put(body)))
        if item is None:
            return _status(404, "NotFound")
        if method == "GET":
            return ServerAnswer(200, copy.deepcopy(item))
        assert body is not None
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted is not None and wanted != item["metadata"]["resourceVersion"]:
            return _status(409, "Conflict")
        if method == "DELETE":
            uid, version = (body.get("preconditions", {}).get(key) for key in ("uid", "resourceVersion"))
            if uid not in (None, item["metadata"]["uid"]) or version not in (None, item["metadata"]["resourceVersion"]):
                return _status(409, "Conflict")
            self.remove(kind, name)
            return ServerAnswer(200, {"kind": "Status", "status": "Success"})
        return ServerAnswer(200, copy.deepcopy(self.put(body) if method == "PUT" else self.edit(kind, name, body)))

    async def fact(self, what: What, **fields: Any) -> None:
        self.facts.append((what, fields))


def merge(item: Object, change: Mapping[str, Any]) -> None:
    """Apply a JSON merge patch (RFC 7386)."""
    for key, value in change.items():
        if value is None:
            item.pop(key, None)
        elif isinstance(value, Mapping):
            inner = item[key] if isinstance(item.get(key), dict) else item.setdefault(key, {})
            merge(inner, value)
        else:
            item[key] = copy.deepcopy(value)


def _status(code: int, reason: str) -> ServerAnswer:
    return ServerAnswer(code, {"kind": "Status", "reason": reason, "message": f"it is a {reason}"})


def nodes(*names: str, **spec: Any) -> list[Object]:
    return [objects.node(name, **spec) for name in names]
