"""YAML as nodes with positions, from the same events as :mod:`kubestow.models.snapshot.yaml_reader`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import yaml

from kubestow.models.positions.nodes import SourceNode
from kubestow.models.snapshot.yaml_reader import LOADER

_MERGE: Final = "<<"
#: Characters beyond which only the position of a scalar is kept; names are shorter.
_MAX_SCALAR_CHARACTERS: Final = 253


class YamlNode:
    """A node of YAML.

    Attributes:
        entries: Position and value of each key of a mapping.
        merged: Values of the ``<<`` keys of a mapping, in order.
        items: Elements of a list.
        value: Text of a scalar without quotes.
    """

    __slots__ = ("entries", "items", "merged", "start", "value")

    def __init__(self, start: int) -> None:
        self.start = start
        self.entries: dict[str, tuple[int, YamlNode]] | None = None
        self.merged: list[YamlNode] | None = None
        self.items: list[YamlNode] | None = None
        self.value: str | None = None

    def member(self, key: str) -> tuple[int, SourceNode] | None:
        entry = self.entries.get(key) if self.entries is not None else None
        if entry is not None:
            return entry
        for source in self.merged or ():
            for each in source.items or (source,):
                inherited = each.member(key)
                if inherited is not None:
                    return inherited
        return None

    def elements(self) -> Iterator[SourceNode]:
        yield from self.items or ()

    def text(self) -> str | None:
        return self.value


class Document(NamedTuple):
    """A document of a stream. ``start``: its position, including its ``---`` and the comments above its root."""

    start: int
    root: YamlNode


class _NodeFrame:
    """A mapping or list under construction. ``key``: the last key and its position."""

    __slots__ = ("key", "node")

    def __init__(self, node: YamlNode) -> None:
        self.node = node
        self.key: tuple[str, int] | None = None


def documents(text: str) -> Iterator[Document]:
    """Yield the non-empty documents of a stream. The first error ends them; the reader reports it."""
    loader = LOADER(text)
    try:
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.DocumentStartEvent):
                mark = event.start_mark
                # only the first document needs no ---; comments above it belong to it
                start = mark.index if event.explicit and mark is not None else 0
                builder = _NodeBuilder()
                while not isinstance(below := loader.get_event(), yaml.DocumentEndEvent):
                    builder.take(below)
                if builder.root is not None:
                    yield Document(start, builder.root)
    except (yaml.YAMLError, UnicodeError, _Odd):
        return
    finally:
        loader.dispose()


class _Odd(ValueError):
    """Input that the reader rejects."""


class _NodeBuilder:
    """Builds one document."""

    def __init__(self) -> None:
        self.root: YamlNode | None = None
        self._stack: list[_NodeFrame] = []
        self._anchors: dict[str, YamlNode] = {}

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.CollectionEndEvent):
            self._stack.pop()
            return
        node = self._node(event)
        frame = self._stack[-1] if self._stack else None
        if frame is None:
            self.root = node
        elif frame.node.items is not None:
            frame.node.items.append(node)
        elif frame.key is None:
            frame.key = self._key(node, event), event.start_mark.index
        else:
            self._put(frame, node)
        if isinstance(event, yaml.CollectionStartEvent):
            self._stack.append(_NodeFrame(node))

    def _node(self, event: Any) -> YamlNode:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise _Odd
            return self._anchors[event.anchor]
        node = YamlNode(event.start_mark.index)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if isinstance(event, yaml.MappingStartEvent):
            node.entries = {}
        elif isinstance(event, yaml.SequenceStartEvent):
            node.items = []
        elif len(event.value) <= _MAX_SCALAR_CHARACTERS:
            node.value = event.value
        return node

    @staticmethod
    def _key(node: YamlNode, event: Any) -> str:
        """Return a key's text. A merging ``<<`` gets a NUL prefix, which no YAML text can hold."""
        if node.entries is not None or node.items is not None:
            raise _Odd
        text = node.value or ""
        plain = isinstance(event, yaml.ScalarEvent) and event.implicit[0]
        return f"\0{_MERGE}" if text == _MERGE and plain else text

    @staticmethod
    def _put(frame: _NodeFrame, node: YamlNode) -> None:
        assert frame.key is not None
        assert frame.node.entries is not None
        key, place = frame.key
        frame.key = None
        if key == f"\0{_MERGE}":
            frame.node.merged = [*(frame.node.merged or ()), node]
        else:
            frame.node.entries[key] = place, node
