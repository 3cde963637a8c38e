"""The routes of URLs."""

from __future__ import annotations

from dataclasses import dataclass

from tests.api_server.resources import Resource, by_path


@dataclass(frozen=True)
class Route:
    """A parsed path. ``name`` is empty for a collection; ``namespace`` is empty for all namespaces and cluster-scoped objects."""

    resource: Resource
    namespace: str
    name: str
    sub: str

    @property
    def key(self) -> str:
        """The key of the object."""
        return f"{self.namespace}/{self.name}" if self.resource.namespaced else self.name


def route(path: str) -> Route | None:
    """Return the route of a path, or None if the server does not serve it."""
    parts = [part for part in path.split("/") if part]
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and by_path(group, version, rest[2]) is not None:
        namespace, rest = rest[1], rest[2:]
    resource = by_path(group, version, rest[0]) if rest else None
    if resource is None or len(rest) > 3:
        return None
    name, sub = (*rest[1:], "", "")[:2]
    if sub and sub not in resource.subresources:
        return None
    if resource.namespaced and name and not namespace:
        return None
    return Route(resource, namespace, name, sub)
