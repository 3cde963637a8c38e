"""The request handler of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.api_server.core import Caller
from tests.api_server.refusals import Refused, bad_request, expired, not_found
from tests.api_server.resources import PODS, Resource, group_list, resource_list
from tests.api_server.serving.routes import Route, route
from tests.api_server.serving.views import View
from tests.api_server.simulated_cluster import SimulatedCluster
from tests.api_server.store import key_of
from tests.api_server.writes import binding, deleting, eviction, objects
from tests.api_server.writes.options import deletion

Object = dict[str, Any]
_SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.2-stand-in", "platform": "linux/amd64"}
_PATCHES: Mapping[str, objects.PatchKind] = {
    "application/merge-patch+json": "merge",
    "application/json-patch+json": "json",
    "application/strategic-merge-patch+json": "strategic",
}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Asked:
    """A request of an actor."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    content_type: str = "application/json"
    accept: str = ""
    actor: str = "client"


@dataclass(frozen=True)
class Reply:
    """An answer with a JSON body."""

    code: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def reply(code: int, obj: Object) -> Reply:
    """Return an answer in JSON."""
    return Reply(code, msgspec.json.encode(obj))


def refusal(refused: Refused) -> Reply:
    """Return the answer to a refused request."""
    seconds = refused.details.get("retryAfterSeconds")
    return Reply(refused.code, msgspec.json.encode(refused.status()), {"Retry-After": str(seconds)} if seconds else {})


class Frontend:
    """A handler of all requests except watches. Callers must hold the world's lock."""

    def __init__(self, world: SimulatedCluster) -> None:
        self._world, self._core = world, world.core
        self._pages: dict[str, tuple[int, list[Object]]] = {}

    def answer(self, asked: Asked) -> Reply:
        """Process a request and return the answer."""
        try:
            found = self._discovery(asked)
            if found is not None:
                return found
            where = route(asked.path)
            if where is None:
                raise Refused(404, "NotFound", "the server could not find the requested resource")
            self.check_rights(asked, where)
            return self._on(asked, where)
        except Refused as refused:
            return refusal(refused)

    def check_rights(self, asked: Asked, where: Route) -> None:
        """Check that a client may send a request.

        Raises:
            Refused: The request is forbidden.
        """
        if asked.method == "GET":
            verb = "watch" if asked.query.get("watch") in ("true", "1") else "get" if where.name else "list"
        else:
            verb = _VERBS[asked.method]
        name = f"{where.resource.plural}/{where.sub}" if where.sub else where.resource.plural
        if (verb, name) in self._world.behaviour.forbidden:
            scope = f'in the namespace "{where.namespace}"' if where.namespace else "at the cluster scope"
            qualified, group = where.resource.qualified, where.resource.group
            what = f'{qualified} "{where.name}" is forbidden' if where.name else f"{qualified} is forbidden"
            message = f'{what}: User "{asked.actor}" cannot {verb} resource "{name}" in API group "{group}" {scope}'
            raise Refused(403, "Forbidden", message, {"name": where.name, "group": group, "kind": where.resource.plural})

    def _discovery(self, asked: Asked) -> Reply | None:
        path = asked.path.rstrip("/")
        if path == "/version":
            return reply(200, _VERSION)
        if path in ("/healthz", "/readyz", "/livez"):
            return Reply(200, b"ok", {"Content-Type": "text/plain"})
        if path == "/api":
            return reply(200, {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
        if path == "/apis":
            return reply(200, group_list())
        parts = path.split("/")
        listed = None
        if parts == ["", "api", "v1"]:
            listed = resource_list("", "v1")
        elif len(parts) == 4 and parts[1] == "apis":
            listed = resource_list(parts[2], parts[3])
        elif len(parts) == 3 and parts[1] == "apis":
            group = next((one for one in group_list()["groups"] if one["name"] == parts[2]), None)
            return None if group is None else reply(200, {"kind": "APIGroup", "apiVersion": "v1"} | group)
        if listed is not None:
            return reply(200, listed)
        if path.startswith("/apis/authorization.k8s.io/v1/selfsubject") and asked.method == "POST":
            return self._access(asked)
        return None

    def _access(self, asked: Asked) -> Reply:
        body = _decode(asked.body)
        wanted = (body.get("spec") or {}).get("resourceAttributes") or {}
        name = wanted.get("resource", "") + (f"/{wanted['subresource']}" if wanted.get("subresource") else "")
        allowed = (wanted.get("verb"), name) not in self._world.behaviour.forbidden
        return reply(
            201, {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"} | body | {"status": {"allowed": allowed}}
        )

    # --- verbs ------------------------------------------------------------------------------------------------------

    def _on(self, asked: Asked, where: Route) -> Reply:
        resource = where.resource
        caller = Caller(asked.actor, asked.query.get("dryRun") == "All")
        match asked.method:
            case "GET" if where.name:
                found = self._core.store.get(resource, where.key)
                if found is None:
                    raise not_found(resource, where.name)
                return reply(200, View(where, {}, asked.accept).of(found))
            case "GET":
                return reply(200, self._list(asked, where))
            case "POST":
                return self._post(asked, where, caller)
            case "PUT" if where.name:
                return reply(200, objects.update(self._core, caller, resource, where.key, _decode(asked.body), where.sub))
            case "PATCH" if where.name:
                return reply(200, self._patch(asked, where, caller))
            case "DELETE" if where.name and not where.sub:
                return self._delete(asked, where, caller)
        raise Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _post(self, asked: Asked, where: Route, caller: Caller) -> Reply:
        body = _decode(asked.body)
        if where.sub == "binding":
            binding.bind(self._core, caller, where.key, body)
            return reply(201, _SUCCESS)
        if where.sub == "eviction":
            eviction.evict(self._core, caller, where.key, body)
            return reply(201, _SUCCESS)
        if where.name or (where.resource.namespaced and not where.namespace):
            raise Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        kind = body.get("kind")
        if kind and kind != where.resource.kind:
            raise bad_request(f'{where.resource.kind} in version "{where.resource.version}" cannot be handled as a {kind}')
        return reply(201, objects.create(self._core, caller, where.resource, where.namespace or None, body))

    def _patch(self, asked: Asked, where: Route, caller: Caller) -> Object:
        kind = _PATCHES.get(asked.content_type)
        custom = "." in where.resource.group and not where.resource.group.endswith(("k8s.io", "apps", "batch", "policy"))
        if kind is None or (
            kind == "strategic" and (custom or where.resource.group.endswith((".x-k8s.io", ".sigs.k8s.io", "topology.node.k8s.io")))
        ):
            message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(_PATCHES)}"
            raise Refused(415, "UnsupportedMediaType", message)
        try:
            body = msgspec.json.decode(asked.body)
        except msgspec.DecodeError as error:
            raise bad_request(f"error decoding patch: {error}") from None
        return objects.patch(self._core, caller, where.resource, where.key, body, kind, where.sub)

    def _delete(self, asked: Asked, where: Route, caller: Caller) -> Reply:
        options = deletion(_decode(asked.body) if asked.body.strip() else None, dict(asked.query))
        found = deleting.delete(self._core, caller, where.resource, where.key, options)
        if where.resource is PODS or self._core.store.get(where.resource, where.key) is not None:
            return reply(200, found)
        details = {"name": where.name, "group": where.resource.group, "kind": where.resource.plural, "uid": found["metadata"]["uid"]}
        return reply(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})

    # --- lists ------------------------------------------------------------------------------------------------------

    def _list(self, asked: Asked, where: Route) -> Object:
        view = View(where, asked.query, asked.accept)
        store, token = self._core.store, asked.query.get("continue", "")
        wanted = asked.query.get("resourceVersion", "")
        if wanted.isdigit() and int(wanted) > store.version:
            message = f"Timeout: Too large resource version: {wanted}, current: {store.version}"
            raise Refused(504, "Timeout", message, {"retryAfterSeconds": 1})
        if token:
            version, items = self._pages.get(token, (0, []))
            if version < store.compacted:
                message = "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
                raise expired(f"{message} the continue parameter.")
        else:
            version = store.version
            items = [view.of(obj) for _, obj in sorted(store.all(where.resource).items()) if view.shows(obj)]
        metadata: Object = {"resourceVersion": str(version)}
        limit = int(asked.query.get("limit") or 0)
        if limit and len(items) > limit:
            following = f"{where.resource.qualified}:{key_of(where.resource, items[limit]['metadata'])}:{version}"
            self._pages[following] = version, items[limit:]
            metadata |= {"continue": following, "remainingItemCount": len(items) - limit}
            items = items[:limit]
        return _list_of(where.resource, view, metadata, items)


def _list_of(resource: Resource, view: View, metadata: Object, items: list[Object]) -> Object:
    if view.partial:
        return {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items}
    return {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata, "items": items}


def _decode(body: bytes) -> Object:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None
    if not isinstance(found, dict):
        raise bad_request("the object provided is unrecognized: no object")
    return found
