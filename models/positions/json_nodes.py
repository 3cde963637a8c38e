"""JSON as nodes with positions. Values are parsed on demand, so large files need no more memory than their text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from kubestow.models.positions.nodes import SourceNode

#: Numbers of any length are skipped.
_DECODER: Final = json.JSONDecoder(parse_int=len, parse_float=len, strict=False)
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class JsonNode(NamedTuple):
    """A JSON value that begins at a position of a text."""

    source: str
    start: int

    def member(self, key: str) -> tuple[int, SourceNode] | None:
        return next(((place, value) for name, place, value in self._members() if name == key), None)

    def _members(self) -> Iterator[tuple[str, int, JsonNode]]:
        """Yield the keys of an object, their positions, and their values.

        Raises:
            ValueError: Not JSON (RecursionError: excessive nesting).
        """
        text = self.source
        if text[self.start : self.start + 1] != "{":
            return
        at = _past_space(text, self.start + 1)
        while text[at : at + 1] == '"':
            place = at
            name, at = _DECODER.raw_decode(text, at)
            at = _past_space(text, _past_space(text, at) + 1)
            yield name, place, JsonNode(text, at)
            at = _past_value(text, at)

    def elements(self) -> Iterator[SourceNode]:
        text = self.source
        if text[self.start : self.start + 1] != "[":
            return
        at = _past_space(text, self.start + 1)
        while text[at : at + 1] not in ("]", ""):
            yield JsonNode(text, at)
            at = _past_value(text, at)

    def text(self) -> str | None:
        if self.source[self.start : self.start + 1] != '"':
            return None
        value, _ = _DECODER.raw_decode(self.source, self.start)
        return str(value)


def _past_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match is not None else at


def _past_value(text: str, at: int) -> int:
    """Return the position after a value and its comma."""
    _, end = _DECODER.raw_decode(text, at)
    end = _past_space(text, end)
    return _past_space(text, end + 1) if text[end : end + 1] == "," else end


def documents(text: str) -> Iterator[JsonNode]:
    """Yield the documents of a text. The first error ends them; the reader reports it."""
    at = _past_space(text, 0)
    while at < len(text):
        yield JsonNode(text, at)
        try:
            _, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        at = _past_space(text, at)
