"""Edits of values within YAML text that preserve comments, order and quoting of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from kubestow.models.snapshot import yaml_reader
from kubestow.report.documents import yaml_text

#: The C parser if PyYAML was built with it. It is an order of magnitude faster.
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class YamlChange:
    """A new value for ``path`` in the document with index ``document`` of a stream. Lists grow at the beginning."""

    document: int
    path: tuple[str | int, ...]
    value: Any


def applied(documents: Sequence[Any], changes: Sequence[YamlChange]) -> list[Any]:
    """Return plain documents with the changes. Unchanged parts are shared with the originals."""
    found = list(documents)
    for change in changes:
        found[change.document] = _put(found[change.document], change.path, change.value)
    return found


def edited(text: str, changes: Sequence[YamlChange]) -> str | None:
    """Return the text of a YAML stream with the changes, or None if the text cannot be edited, for example within an alias."""
    try:
        before = list(yaml_reader.documents(text))
        nodes = _nodes(text)
        if len(nodes) != len(before):
            return None
        patches = [_patch(text, nodes[c.document], before[c.document], c) for c in changes]
        for start, end, new in sorted(patches, key=lambda patch: patch[0], reverse=True):
            text = text[:start] + new + text[end:]
        return text if list(yaml_reader.documents(text)) == applied(before, changes) else None
    except (yaml.YAMLError, yaml_reader.YamlError, _Unfit):
        return None


class _Unfit(Exception):
    """Raised if the text has no place for a change."""


def _nodes(text: str) -> list[Any]:
    loader = _Loader(text)
    found = []
    try:
        while loader.check_node():
            found.append(loader.get_node())
    finally:
        loader.dispose()
    return found


def _put(old: Any, path: Sequence[str | int], value: Any) -> Any:
    if not path:
        return value
    key = path[0]
    if isinstance(old, list) and isinstance(key, int):
        return [_put(item, path[1:], value) if i == key else item for i, item in enumerate(old)]
    known = old if isinstance(old, dict) else {}
    return {**known, key: _put(known.get(key), path[1:], value)}


# --- patches: position and new text ---------------------------------------------------------------------------------

_Patch = tuple[int, int, str]


def _patch(text: str, node: Any, old: Any, change: YamlChange) -> _Patch:
    for depth, key in enumerate(change.path):
        subpath = change.path[depth + 1 :]
        child = _child(node, key)
        if child is None:
            return _insert(text, node, key, _put(None, subpath, change.value))
        node = child
        old = old[key]
        if old is None and subpath:
            return _over(text, node, _put(None, subpath, change.value))
    if isinstance(change.value, list) and isinstance(old, list) and old and old == change.value[len(change.value) - len(old) :]:
        return _grow(text, node, change.value[: len(change.value) - len(old)])
    return _over(text, node, change.value)


def _child(node: Any, key: str | int) -> Any:
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int):
        return node.value[key]
    if not isinstance(node, yaml.MappingNode):
        raise _Unfit
    return next((value for name, value in node.value if isinstance(name, yaml.ScalarNode) and name.value == key), None)


def _insert(text: str, node: Any, key: str | int, value: Any) -> _Patch:
    """Insert a new key at the beginning of a mapping."""
    if node.flow_style or not node.value:
        start = node.start_mark.index + 1
        return start, start, f"{_json(key)}: {_json(value)}{', ' if node.value else ''}"
    return _before(text, node.value[0][0].start_mark, {key: value})


def _grow(text: str, node: Any, items: list[Any]) -> _Patch:
    """Insert new items at the beginning of a non-empty sequence."""
    if node.flow_style:
        start = node.start_mark.index + 1
        return start, start, "".join(f"{_json(item)}, " for item in items)
    return _before(text, node.start_mark, items) if items else (0, 0, "")


def _before(text: str, mark: Any, value: Any) -> _Patch:
    """Insert lines before a block and before the comments that precede it."""
    start = mark.index - mark.column
    body = _lines(value, mark.column)
    if text[start : mark.index].strip():  # the block follows a dash
        return mark.index, mark.index, body[mark.column :] + " " * mark.column
    while start:
        above = text.rfind("\n", 0, start - 1) + 1
        if not text[above:start].lstrip().startswith("#"):
            break
        start = above
    return start, start, body


def _over(text: str, node: Any, value: Any) -> _Patch:
    """Replace a value."""
    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, yaml.ScalarNode) or node.flow_style:
        return start, end, (" " if start == end else "") + _json(value)
    begin = start - node.start_mark.column
    if text[begin:start].strip():
        raise _Unfit
    last = text.find("\n", _end(node))
    deeper = 0 if (isinstance(value, list) and value) or isinstance(node, yaml.MappingNode) else 2  # dashes may be directly below their key
    return begin, len(text) if last < 0 else last + 1, _lines(value, node.start_mark.column + deeper)


def _end(node: Any) -> int:
    """Return the end of the last scalar of a node, because a block node extends to the next token."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _lines(value: Any, column: int) -> str:
    return "".join(f"{' ' * column}{line}\n" for line in yaml_text.dump(value).splitlines())


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
