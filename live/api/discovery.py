"""The known kinds on a server, from its discovery documents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from kubestow.live.api.answers import Api, Object
from kubestow.live.capture_kinds import Resource, Served, served
from kubestow.models.kube import kinds

#: API groups of all known kinds, without the core group, which has its own path.
_GROUPS = sorted({group for kind in kinds.KINDS.values() for group in kind.groups if group})


@dataclass
class Discovered:
    """The resources of a server, and one line for each API group that does not answer."""

    served: Served
    problems: list[str] = field(default_factory=list)


async def discover(api: Api) -> Discovered:
    """Request a server's API groups, and the resources of groups with known kinds.

    Raises:
        Unreachable: there was no answer.
    """
    problems: list[str] = []
    answer = await api.send("GET", "/apis")
    if not answer.ok:
        problems.append(f"/apis: {answer.message}")
    versions = ["v1", *_versions(answer.body if answer.ok else {})]
    documents = await asyncio.gather(*(api.send("GET", f"/apis/{each}" if "/" in each else f"/api/{each}") for each in versions))
    found: list[Resource] = []
    for version, document in zip(versions, documents, strict=True):
        if document.ok:
            found += _listed(version, document.body)
        else:
            problems.append(f"{version}: {document.message}")
    return Discovered(served(found), problems)


def _versions(groups: Object) -> Iterator[str]:
    """Yield ``group/version`` for each group with known kinds, the preferred version first."""
    by_name = {group.get("name"): group for group in groups.get("groups") or ()}
    for name in _GROUPS:
        group = by_name.get(name)
        if group is not None:
            listed = [each["groupVersion"] for each in ((group.get("preferredVersion") or {}), *(group.get("versions") or ())) if each]
            yield from dict.fromkeys(listed)


def _listed(version: str, document: Object) -> Iterator[Resource]:
    for each in document.get("resources") or ():
        kind = kinds.find(version, each.get("kind", ""))
        if kind is not None and "/" not in each.get("name", "/") and "list" in (each.get("verbs") or ()):
            yield Resource(kind, each["name"], version, bool(each.get("namespaced")))
