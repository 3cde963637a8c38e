"""Detection of duplicate keys in JSON objects.

JSON decoders silently keep the last one; YAML readers and the API server reject them. A text without duplicates
has as many colons as its plain data has when it is written again, because a dropped key takes its colon along.
Only a text that fails this comparison is decoded pair by pair, which yields the positions. Larger files than the
limit are lists of an API server, which have none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kubestow.models.snapshot.decode import JSON_ERRORS, MAX_LIST_DEPTH, Buffer, documents_of, head_of, identity, is_list

#: Bytes up to which a file is examined, about 10,000 pods. The comparison takes 0.1 s for that, and much memory beyond.
MAX_EXAMINED_BYTES: Final = 2**23
#: A colon in a string that is written without one again.
_ESCAPED_COLONS: Final = (b"\\u003a", b"\\u003A")


def problems(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield (object, problem) for every object of a JSON file with a duplicate key. Malformed JSON and large files are ignored."""
    if len(data) > MAX_EXAMINED_BYTES:
        return
    try:
        for document in documents_of(data):
            yield from _document(document, 0)
    except JSON_ERRORS:
        return


def _document(data: Buffer, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the problems of a list item by item, then those outside the items."""
    if not _suspected(data):
        return
    try:
        head = head_of(data)
        items = head.items if is_list(head.kind, head.items is not None) else None
    except JSON_ERRORS:  # e.g. no object; text that is not JSON fails again below
        items = None
    seen = False
    if items and depth < MAX_LIST_DEPTH:
        for item in items:
            for problem in _document(item, depth + 1):
                seen = True
                yield problem
    if not seen:
        yield from _pairs(data)


def _suspected(data: Buffer) -> bool:
    """Return True if some object may have a duplicate key. False is certain."""
    text = bytes(data)
    try:
        written = msgspec.json.encode(msgspec.json.decode(text))
    except JSON_ERRORS:  # e.g. numbers out of range
        return True
    return text.count(b":") != written.count(b":") or any(each in text for each in _ESCAPED_COLONS)


def _pairs(data: Buffer) -> Iterator[tuple[str, str]]:
    twice: dict[int, list[str]] = {}
    kept: list[dict[str, Any]] = []  # keeps ids unique

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            kept.append(mapping)
            twice[id(mapping)] = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        return mapping

    text = bytes(data).decode("utf-8", "replace")  # invalid UTF-8 is reported by the reader
    value = json.loads(text, object_pairs_hook=made, parse_int=len, parse_float=len)
    if twice:
        yield from _places(value, "object", "", twice)


def _places(value: Any, name: str, path: str, twice: dict[int, list[str]]) -> Iterator[tuple[str, str]]:
    """Yield the positions of objects with duplicate keys. ``name``: the enclosing object with a kind."""
    if isinstance(value, dict):
        if "kind" in value and "metadata" in value and isinstance(value["kind"], str):
            name, path = identity(value["kind"], value["metadata"]), ""
        for key in twice.get(id(value), ()):
            yield name, f"{path}{'.' if path else ''}{key}: duplicate key, expected each key once"
        for key, below in value.items():
            yield from _places(below, name, f"{path}.{key}" if path else key, twice)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, name, f"{path}[{index}]", twice)
