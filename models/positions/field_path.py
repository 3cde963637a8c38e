"""Paths of fields as in findings: ``spec.containers[0].resources.requests``, ``metadata.labels[example.com/zone]``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

from kubestow.models.positions.nodes import SourceNode

_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[]+)")


def steps(path: str) -> list[str]:
    """Return the keys, indices and selectors of a path; those in brackets keep their ``[``."""
    return [f"[{match[1]}" if match[2] is None else match[2] for match in _STEP.finditer(path)]


def place(root: SourceNode, path: str) -> int:
    """Return the position of a field below a node: a key, or a list element; for a missing field its nearest ancestor."""
    at, node, remaining = root.start, root, steps(path)
    while remaining:
        hit = _step(node, remaining)
        if hit is None:
            break
        at, node, used = hit
        remaining = remaining[used:]
    return at


def _step(node: SourceNode, remaining: Sequence[str]) -> tuple[int, SourceNode, int] | None:
    """Return the position and node of the next part of a path, and its number of steps: keys with dots take several."""
    first = remaining[0]
    if not first.startswith("["):
        for count in range(1, len(remaining) + 1):
            if remaining[count - 1].startswith("["):
                break
            member = node.member(".".join(remaining[:count]))
            if member is not None:
                return *member, count
        return None
    inside = first[1:]
    if inside.isdecimal():
        element = next(islice(node.elements(), int(inside), None), None)
        if element is not None:
            return element.start, element, 1
    member = node.member(inside)
    if member is not None:
        return *member, 1
    key, equals, value = inside.partition("=")
    for element in node.elements() if equals else ():
        named = element.member(key)
        if named is not None and named[1].text() == value:
            return element.start, element, 1
    return None
