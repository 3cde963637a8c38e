"""The action that a journal's request asks of an API server, read from its method, path and body alone.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/ (paths), RFC 7386 (merge patches).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import unquote

from kubestow.models.documents.journal import Request

Kind = Literal["eviction", "binding", "creation", "pod", "claim", "node", "lease", "other"]

_PATHS: Final[tuple[tuple[Kind, str, re.Pattern[str]], ...]] = (
    ("eviction", "POST", re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/eviction")),
    ("binding", "POST", re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/binding")),
    ("creation", "POST", re.compile(r"/api/v1/namespaces/([^/]+)/pods()")),
    ("pod", "PATCH", re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)")),
    ("claim", "PATCH", re.compile(r"/api/v1/namespaces/([^/]+)/persistentvolumeclaims/([^/]+)")),
    ("node", "PATCH", re.compile(r"/api/v1/nodes/()([^/]+)")),
    ("lease", "", re.compile(r"/apis/coordination\.k8s\.io/v1/namespaces/(kube-system)/leases(?:/(kubestow-apply))?")),
)


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A parsed request.

    Attributes:
        kind: Kind of action.
        namespace: Namespace in the path, or empty.
        name: Object name in the path, or empty.
        body: Body of the request, or empty.
    """

    kind: Kind
    namespace: str
    name: str
    body: Mapping[str, Any]

    @property
    def key(self) -> str:
        """``namespace/name`` of the object."""
        return f"{self.namespace}/{self.name}"

    def get(self, *path: str) -> Any:
        """Return a field of the body, or None if it is absent or null."""
        return at(self.body, *path)

    def has(self, *path: str) -> bool:
        """Return True if the body contains a field, even if null."""
        above = self.get(*path[:-1])
        return isinstance(above, Mapping) and path[-1] in above

    def fields(self) -> Iterator[str]:
        """Yield the dotted paths of all fields in the body."""
        yield from _leaves("", self.body)


def at(value: object, *path: str) -> Any:
    """Return a field of plain data, or None if it is absent or null."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _leaves(above: str, body: Mapping[str, Any]) -> Iterator[str]:
    for name, value in body.items():
        if isinstance(value, dict) and value:
            yield from _leaves(f"{above}{name}.", value)
        else:
            yield f"{above}{name}"


_DELETED: Final = re.compile(r"(?:/api/v1|/apis/(?:apps|batch)/v1)/namespaces/([^/]+)/([a-z]+)/([^/]+)")
_KINDS: Final = {
    kind.lower() + "s": kind
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "Job", "CronJob", "ReplicationController", "PodTemplate", "Pod")
}


def deleted(request: Request) -> str | None:
    """Return the workload that a request deletes, as ``Kind namespace/name``; None for other requests."""
    match = _DELETED.fullmatch(request.path)
    if request.method != "DELETE" or match is None or match[2] not in _KINDS:
        return None
    return f"{_KINDS[match[2]]} {unquote(match[1])}/{unquote(match[3])}"


def ask_of(request: Request) -> ParsedRequest:
    """Parse a request. The kind is ``other`` if a run has no reason to send it."""
    body = request.body if isinstance(request.body, dict) else None
    for kind, method, path in _PATHS:
        match = path.fullmatch(request.path)
        if match is not None and request.method == (method or request.method) and (body is not None or kind == "lease"):
            return ParsedRequest(kind, unquote(match[1]), unquote(match[2] or ""), body or {})
    return ParsedRequest("other", "", "", {})
