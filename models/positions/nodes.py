"""What positions are found in: a text as a tree of mappings and lists that know where they begin."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, Protocol

#: Where editors and version control begin a new line. YAML also knows others, which they do not.
_BREAK: Final = re.compile(r"\r\n|\r|\n")


class Node(Protocol):
    """A mapping, a list or a scalar."""

    @property
    def start(self) -> int:
        """Return the place in the text where it begins, in characters from 0."""

    def member(self, key: str) -> tuple[int, Node] | None:
        """Return where a key of a mapping is written, and what its value is; None without it, or if this is no mapping."""

    def elements(self) -> Iterator[Node]:
        """Yield what is in a list; nothing if this is none."""

    def text(self) -> str | None:
        """Return what a scalar says; None if this is none, or no text."""


class Lines:
    """The lines of a text."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in _BREAK.finditer(text))]

    def at(self, place: int) -> tuple[int, int]:
        """Return line and column, both from 1, of a place in characters from 0."""
        line = bisect_right(self._starts, place)
        return line, place - self._starts[line - 1] + 1
