"""Nodes chosen by a label selector in kubectl's syntax. The checker parses it on its own."""

from __future__ import annotations

import re
from typing import Final

from kubestow.checker.reading import matching
from kubestow.models.snapshot.snapshot import Snapshot

_COMMA: Final = re.compile(r",(?![^()]*\))")
_SET: Final = re.compile(r"(\S+)\s+(in|notin)\s*\((.*)\)\Z", re.DOTALL)
_EQUAL: Final = re.compile(r"([^=!\s]+)\s*(==|=|!=)\s*(.*)\Z", re.DOTALL)
_SIGNS: Final = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn"}


def selected(snapshot: Snapshot, selector: str) -> list[str]:
    """Return the names of the nodes that match a label selector, in snapshot order."""
    wanted = tuple(sorted(_requirement(part.strip()) for part in _COMMA.split(selector)))
    return [node.metadata.name or "" for node in snapshot.nodes if matching.selects(wanted, node.metadata.labels or {})]


def _requirement(text: str) -> matching.SelectorRequirement:
    """Parse one requirement of a selector."""
    if found := _SET.match(text):
        values = tuple(sorted({value.strip() for value in found[3].split(",")}))
        return matching.SelectorRequirement(found[1], _SIGNS[found[2]], values)
    if found := _EQUAL.match(text):
        return matching.SelectorRequirement(found[1], _SIGNS[found[2]], (found[3],))
    return matching.SelectorRequirement(text.lstrip("! "), "DoesNotExist" if text.startswith("!") else "Exists", ())
