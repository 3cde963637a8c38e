"""The interface of parsed texts: trees of mappings and lists with positions."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, Protocol

#: Line breaks of editors and version control. YAML has more, which these ignore.
_BREAK: Final = re.compile(r"\r\n|\r|\n")


class SourceNode(Protocol):
    """A mapping, a list or a scalar."""

    @property
    def start(self) -> int:
        """The position in the text where it begins, in characters from 0."""

    def member(self, key: str) -> tuple[int, SourceNode] | None:
        """Return the position and value of a mapping's key; None if it is missing or the node is no mapping."""

    def elements(self) -> Iterator[SourceNode]:
        """Yield the elements of a list; none if the node is no list."""

    def text(self) -> str | None:
        """Return the text of a scalar; None if the node is no text."""


class SourceLines:
    """The lines of a text."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in _BREAK.finditer(text))]

    def at(self, place: int) -> tuple[int, int]:
        """Return line and column, both from 1, of a position in characters from 0."""
        line = bisect_right(self._starts, place)
        return line, place - self._starts[line - 1] + 1
