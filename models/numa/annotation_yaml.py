"""YAML with all scalars as raw text, read from events: a container may be named ``on``, ``010`` or ``1e3``.

YAML merge keys (``<<``) are ordinary keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn

import yaml

from kubestow.models.kube.lenient_decode import plain, shorten
from kubestow.models.snapshot.yaml_reader import problem_of


class AnnotationProblem(ValueError):
    """A problem of an annotation; the message does not name the object."""


class YamlScalar(NamedTuple):
    text: str
    plain: bool  # written without quotes and tag


@dataclass(slots=True, eq=False)
class YamlMap:
    pairs: list[tuple[YamlNode, YamlNode]]


YamlNode = YamlScalar | YamlMap | list[Any] | None
KINDS: Final[dict[type, str]] = {YamlScalar: "a text", YamlMap: "a mapping", list: "a list", type(None): "nothing"}
_NULLS: Final = ("", "~", "null", "Null", "NULL")
#: The C parser if PyYAML was built with it.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
#: Nesting depth; a valid annotation needs five levels.
_MAX_DEPTH: Final = 16
#: Nodes that aliases may add to one annotation.
_MAX_ALIASED_NODES: Final = 100_000


def is_null(node: YamlNode) -> bool:
    return node is None or (isinstance(node, YamlScalar) and node.plain and node.text in _NULLS)


def kind_of(node: YamlNode) -> str:
    return "null" if is_null(node) else KINDS[type(node)]


def load(text: str) -> YamlNode:
    """Return the single document of a YAML text; None if it is empty.

    Raises:
        AnnotationProblem: Not YAML, several documents, unknown tags, or excessive nesting or aliases.
    """
    try:
        loader = _LOADER(text)
        try:
            return _AnnotationBuilder().document(loader)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise AnnotationProblem(plain(f"line {mark.line + 1 if mark else '?'}: {problem_of(error, _MAX_DEPTH)}", None)) from None
    except yaml.YAMLError as error:
        raise AnnotationProblem(plain(" ".join(str(error).split())[:200])) from None
    except UnicodeError:
        raise AnnotationProblem("has invalid characters, expected YAML") from None


class _AnnotationBuilder:
    """Builds nodes from events. An alias shares its node; sizes count the expanded text."""

    def __init__(self) -> None:
        self._anchors: dict[str, tuple[YamlNode, int]] = {}
        self._aliased = 0
        #: Open collections: their items (keys and values alternate in a mapping), start events and sizes.
        self._open: list[tuple[list[YamlNode], Any]] = []
        self._sizes = [0]
        self._root: list[YamlNode] = []

    def document(self, loader: Any) -> YamlNode:
        documents = 0
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._fail(event, "a second document, expected one")
            elif isinstance(event, yaml.ScalarEvent):
                self._check_tag(event, "str")
                node = YamlScalar(event.value, event.tag is None and not event.style)
                self._anchor(event, node, 1)
                self._add(node, 1)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._check_tag(event, "map" if isinstance(event, yaml.MappingStartEvent) else "seq")
                if len(self._open) >= _MAX_DEPTH:
                    self._fail(event, f"nested deeper than {_MAX_DEPTH} levels")
                if event.anchor is not None:
                    self._anchors.pop(event.anchor, None)
                self._open.append(([], event))
                self._sizes.append(1)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close()
        return self._root[0] if self._root else None

    def _close(self) -> None:
        items, start = self._open.pop()
        size = self._sizes.pop()
        node: YamlNode = items
        if isinstance(start, yaml.MappingStartEvent):
            node = YamlMap(list(zip(items[::2], items[1::2], strict=True)))
        self._anchor(start, node, size)
        self._add(node, size)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            self._fail(event, f"alias {shorten(event.anchor)} is not defined")
        node, size = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > _MAX_ALIASED_NODES:
            self._fail(event, f"aliases expand to more than {_MAX_ALIASED_NODES} nodes")
        self._add(node, size)

    def _anchor(self, event: Any, node: YamlNode, size: int) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, size)

    def _add(self, node: YamlNode, size: int) -> None:
        self._sizes[-1] += size
        (self._open[-1][0] if self._open else self._root).append(node)

    def _check_tag(self, event: Any, expected: str) -> None:
        if event.tag not in (None, "!", _TAG + expected):
            self._fail(event, f"unknown tag {shorten(event.tag)}, expected plain data")

    @staticmethod
    def _fail(event: Any, message: str) -> NoReturn:
        raise AnnotationProblem(f"line {event.start_mark.line + 1}: {message}")
