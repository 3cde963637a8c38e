"""A few kinds of the Kubernetes API over HTTP, in the event loop of a test; faults are asked for one by one."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

Object = dict[str, Any]

#: apiVersion -> kind -> its name in URLs, and whether it lives in a namespace.
KINDS: dict[str, dict[str, tuple[str, bool]]] = {
    "v1": {
        "Pod": ("pods", True),
        "Node": ("nodes", False),
        "Namespace": ("namespaces", False),
        "Service": ("services", True),
        "PersistentVolumeClaim": ("persistentvolumeclaims", True),
        "PersistentVolume": ("persistentvolumes", False),
        "ReplicationController": ("replicationcontrollers", True),
        "PodTemplate": ("podtemplates", True),
    },
    "apps/v1": {name: (f"{name.lower()}s", True) for name in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")},
    "batch/v1": {"Job": ("jobs", True), "CronJob": ("cronjobs", True)},
    "policy/v1": {"PodDisruptionBudget": ("poddisruptionbudgets", True)},
    "scheduling.k8s.io/v1": {"PriorityClass": ("priorityclasses", False)},
    "storage.k8s.io/v1": {"StorageClass": ("storageclasses", False), "CSINode": ("csinodes", False), "CSIDriver": ("csidrivers", False)},
}

Fault = Callable[[web.Request], "web.StreamResponse | None"]


def status(code: int, reason: str, message: str, **headers: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code}
    return web.json_response(body, status=code, headers={key.replace("_", "-"): value for key, value in headers.items()})


@dataclass
class Server:
    """``faults``: asked in turn before a request is answered; one that gives an answer is used up. ``forgotten``: watches that begin
    before this version get 410. ``deaf``: watches say nothing. ``silent``: paths that get no answer. ``slow``: seconds that each answer
    takes. ``most``: requests at a time so far; ``peers``: connections."""

    version: int = 100
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    tokens: set[str] | None = None
    forgotten: int = 0
    page: int = 1_000
    deaf: bool = False
    silent: set[str] = field(default_factory=set)
    slow: float = 0.0
    url: str = ""
    most: int = 0
    peers: set[Any] = field(default_factory=set)
    _now: int = 0
    _log: list[tuple[int, str, str, Object]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _drops: int = 0

    # --- the world ----------------------------------------------------------------------------------------------------

    def put(self, obj: Object) -> Object:
        plural, namespaced = KINDS[obj["apiVersion"]][obj["kind"]]
        metadata = obj["metadata"]
        place = f"{metadata.get('namespace', 'default')}/{metadata['name']}" if namespaced else metadata["name"]
        known = self.objects.get((plural, place))
        self.version += 1
        uid = metadata.get("uid") or (known or {}).get("metadata", {}).get("uid") or f"u-{self.version}"
        found = {**obj, "metadata": {**metadata, "uid": uid, "resourceVersion": str(self.version), "managedFields": [{"manager": "x"}]}}
        if namespaced:
            found["metadata"]["namespace"] = metadata.get("namespace", "default")
        self.objects[plural, place] = found
        self._tell("MODIFIED" if known else "ADDED", plural, found)
        return found

    def delete(self, plural: str, place: str) -> None:
        self.version += 1
        gone = self.objects.pop((plural, place))
        self._tell("DELETED", plural, {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}})

    def drop(self) -> None:
        self._drops += 1
        self._wake()

    def _tell(self, what: str, plural: str, obj: Object) -> None:
        self._log.append((self.version, what, plural, obj))
        if not self.deaf:
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def asked(self, method: str, path: str = "") -> int:
        return sum(each[0] == method and path in each[1] for each in self.requests)

    # --- HTTP ---------------------------------------------------------------------------------------------------------

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self.peers.add(request.transport.get_extra_info("peername"))
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            return await self._heard(request)
        finally:
            self._now -= 1

    async def _heard(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        self.requests.append((request.method, request.path_qs, dict(request.headers), body))
        if request.path in self.silent:
            await asyncio.sleep(60)
        await asyncio.sleep(self.slow)
        if self.tokens is not None and request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            return status(401, "Unauthorized", "Unauthorized")
        for index, fault in enumerate(self.faults):
            answer = fault(request)
            if answer is not None:
                del self.faults[index]
                return answer
        return await self._answer(request)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.36.2"})
        if request.path == "/apis":
            groups = [
                {"name": v.split("/")[0], "versions": [{"groupVersion": v}], "preferredVersion": {"groupVersion": v}}
                for v in KINDS
                if "/" in v
            ]
            return web.json_response({"kind": "APIGroupList", "groups": groups})
        version, _, rest = (
            request.path.removeprefix("/apis/").removeprefix("/api/").partition("/") if request.path.startswith("/api/") else ("", "", "")
        )
        if not version:
            group, version, *parts = [*request.path.removeprefix("/apis/").split("/"), ""]
            version, rest = f"{group}/{version}", "/".join(parts).strip("/")
        if version not in KINDS:
            return status(404, "NotFound", "the server could not find the requested resource")
        if not rest:
            listed = [{"name": p, "kind": k, "namespaced": n, "verbs": ["get", "list", "watch"]} for k, (p, n) in KINDS[version].items()]
            return web.json_response(
                {"kind": "APIResourceList", "resources": [*listed, {"name": "pods/status", "kind": "Pod", "verbs": ["get"]}]}
            )
        return await self._resource(request, version, rest.split("/"))

    async def _resource(self, request: web.Request, version: str, parts: list[str]) -> web.StreamResponse:
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        kind = next((kind for kind, (plural, _) in KINDS[version].items() if plural == parts[0]), None)
        if kind is None:
            return status(404, "NotFound", "the server could not find the requested resource")
        if len(parts) > 1:
            found = self.objects.get((parts[0], f"{namespace}/{parts[1]}" if namespace else parts[1]))
            return web.json_response(found) if found is not None else status(404, "NotFound", f"{parts[0]} {parts[1]!r} not found")
        if request.query.get("watch"):
            return await self._watch(request, parts[0])
        return self._list(request, version, kind, parts[0])

    def _list(self, request: web.Request, version: str, kind: str, plural: str) -> web.Response:
        names = sorted(place for name, place in self.objects if name == plural)
        token = request.query.get("continue", "")
        first, at = (int(part) for part in token.split("-")) if token else (0, self.version)
        size = min(int(request.query.get("limit", 0)) or len(names), self.page) if request.query.get("limit") else len(names)
        items = [self.objects[plural, place] for place in names[first : first + size]]
        partial = "PartialObjectMetadataList" in request.headers["Accept"]
        if partial:
            items = [{"metadata": item["metadata"]} for item in items]
        else:
            items = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items]
        metadata = {"resourceVersion": str(at)}
        if first + size < len(names):
            metadata["continue"] = f"{first + size}-{at}"
        return web.json_response(
            {"kind": "PartialObjectMetadataList" if partial else f"{kind}List", "apiVersion": version, "metadata": metadata, "items": items}
        )

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        at = int(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        drops = self._drops
        if at < self.forgotten:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            return response
        while self._drops == drops:
            news = self._news
            lines = [json.dumps({"type": w, "object": o}) + "\n" for v, w, p, o in self._log if p == plural and v > at]
            at = self._log[-1][0] if self._log else at
            if lines:
                await response.write("".join(lines).encode())
            await news.wait()
        assert request.transport is not None
        request.transport.abort()
        return response


@asynccontextmanager
async def serving(server: Server, tls: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[Server]:
    """Answer on a port of 127.0.0.1, any if none is given."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls, reuse_address=True)
    await site.start()
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        server.drop()
        await runner.cleanup()


def kubeconfig(path: Path, server: str, user: Object | None = None, cluster: Object | None = None) -> str:
    """Write a kubeconfig with one context and return its path."""
    name = "here"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": name,
                "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
                "clusters": [{"name": name, "cluster": {"server": server, **(cluster or {})}}],
                "users": [{"name": name, "user": user or {}}],
            }
        )
    )
    return str(path)


def once(method: str, path: str, answer: Callable[[], web.StreamResponse], times: int = 1) -> Iterable[Fault]:
    """Return faults that answer the first ``times`` requests of a method whose path contains this part."""
    return [lambda request: answer() if request.method == method and path in request.path_qs else None for _ in range(times)]


def cut(method: str, path: str, times: int = 1) -> Iterable[Fault]:
    """Return faults that close the connection instead of an answer."""

    def fault(request: web.Request) -> web.StreamResponse | None:
        if request.method != method or path not in request.path_qs:
            return None
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return [fault] * times
