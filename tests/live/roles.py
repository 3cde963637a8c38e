"""Requests to a server as permissions, and the permissions of a manifest of roles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml
from aiohttp import web

from tests.api_server import Server

_VERBS: Final = {"GET": "list", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: Everybody may ask these.
_DISCOVERY: Final = re.compile(r"/version|/api(/v1)?|/apis(/[^/]+/[^/]+)?")
_RESOURCE: Final = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<kind>[a-z]+)(?:/(?P<name>[^/]+)(?P<sub>/[a-z]+)?)?"
)
Right = tuple[str, str, str, str]


class Recording(Server):
    """Keeps the requests as permissions: group, resource, verb, and the namespace of Leases."""

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if _DISCOVERY.fullmatch(request.path) is None:
            found = _RESOURCE.fullmatch(request.path)
            assert found is not None, request.path
            verb = "watch" if "watch" in request.query else "get" if request.method == "GET" and found["name"] else _VERBS[request.method]
            namespace = found["namespace"] or "" if found["kind"] == "leases" else ""
            RIGHTS.add((found["group"] or "", found["kind"] + (found["sub"] or ""), verb, namespace))
        return await super()._answer(request)


RIGHTS: set[Right] = set()
#: Kinds of extensions, which not every server has.
ELSEWHERE: Final = {
    *((group, "podgroups") for group in ("scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.sigs.k8s.io", "scheduling.volcano.sh")),
    ("scheduling.k8s.io", "workloads"),
    ("topology.node.k8s.io", "noderesourcetopologies"),
    ("autoscaling.x-k8s.io", "capacitybuffers"),
    ("config.nri", "balloonspolicies"),
    ("lifecycle.k8s.io", "evictionrequests"),
    ("config.nri", "topologyawarepolicies"),
}


def allowed(manifest: Path) -> set[Right]:
    roles: list[dict[str, Any]] = [each for each in yaml.safe_load_all(manifest.read_text()) if each["kind"] in ("Role", "ClusterRole")]
    return {
        (group, resource, verb, role["metadata"].get("namespace", ""))
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def optional(rights: set[Right]) -> set[Right]:
    """Rights to kinds of extensions, which not every server has."""
    return {right for right in rights if right[:2] in ELSEWHERE and right[2] in ("get", "list", "watch")}
