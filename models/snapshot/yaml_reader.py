"""YAML to plain data, as Kubernetes tools read it.

Timestamps and base-60 numbers stay strings, keys become strings, and duplicate keys are errors. The reader
works on parser events, so that nesting and alias expansion are bounded before any data are built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

#: The C parser if PyYAML was built with it; it is an order of magnitude faster.
LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
#: Nesting depth of lists and mappings.
_MAX_DEPTH: Final = 200
#: Nodes that aliases may add to one document. Real manifests add a few hundred; an alias bomb adds billions.
_MAX_ALIASED_NODES: Final = 1_000_000
#: Digits up to which a scalar is read as an integer; Python converts no more than 4300.
_MAX_DIGITS: Final = 4000

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS: Final = {
    word: value
    for words, value in (("true True TRUE yes Yes YES on On ON", True), ("false False FALSE no No NO off Off OFF", False))
    for word in words.split()
}
#: Braces of a template where YAML would have a value or a line of its own.
_TEMPLATE: Final = re.compile(r"(?:^|[\s:-])(\{\{.*?\}\}|\{%.*?%\})")
_LINE: Final = re.compile(r"line ([0-9]+)[:,]")
_INT: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)\Z")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z|[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")


class YamlError(ValueError):
    """The text is not acceptable YAML; the message names the line."""


class _YamlFrame:
    """A list or mapping under construction."""

    __slots__ = ("anchor", "key", "merges", "size", "value")

    def __init__(self, value: list[Any] | dict[str, Any], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        self.merges: list[Any] = []
        self.size = 1


_MERGE: Final = "<<"
_MERGE_KEY: Final = "\0<<"  # marks an unquoted << key; no YAML text holds a NUL


def documents(text: str | bytes) -> Iterator[Any]:
    """Yield the documents of a YAML stream; empty ones are None.

    Raises:
        YamlError: Not YAML, a duplicate key, an unknown tag, or excessive nesting or aliases.
    """
    try:
        yield from _checked(text)
    except YamlError as error:
        message = _unrendered(text, str(error))
        raise YamlError(message) if message is not None else error from None


def _unrendered(text: str | bytes, problem: str) -> str | None:
    """Return the message about an unrendered template; None if the line of a problem and the one above have none."""
    at = _LINE.search(problem)
    if at is None:
        return None
    number = int(at[1])
    lines = (text.decode("utf-8", "replace") if isinstance(text, bytes) else text).splitlines()
    for k in (number, number - 1):
        template = _TEMPLATE.search(lines[k - 1][:2000]) if 0 < k <= len(lines) else None
        if template is not None:
            return f"line {k}: {template[1][:60]!r} looks like a template that is not rendered (helm template renders charts)"
    return None


def _checked(text: str | bytes) -> Iterator[Any]:
    try:
        yield from _documents(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(f"line {mark.line + 1 if mark else '?'}: {problem_of(error, _MAX_DEPTH)}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise YamlError(" ".join(str(error).replace('in "<byte string>", ', "at ").split())[:200]) from None


def problem_of(error: yaml.MarkedYAMLError, levels: int) -> str:
    """Return the message of a parser error. PyYAML 6.0.4 and later have a nesting limit of their own above ``levels``."""
    if "maximum nesting depth" in (error.problem or ""):
        return f"nested deeper than {levels} levels"
    return error.problem or error.context or "is not YAML"


def _documents(text: str | bytes) -> Iterator[Any]:
    loader = LOADER(text)
    try:
        builder = _YamlBuilder()
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.DocumentStartEvent):
                builder = _YamlBuilder()
            elif isinstance(event, yaml.DocumentEndEvent):
                yield builder.root
            elif isinstance(event, yaml.NodeEvent):
                builder.take(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                builder.close(event)
    finally:
        loader.dispose()


def _fail(event: Any, message: str) -> YamlError:
    return YamlError(f"line {event.start_mark.line + 1}: {message}")


class _YamlBuilder:
    """Builds one document."""

    def __init__(self) -> None:
        self.root: Any = None
        self._stack: list[_YamlFrame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._open: list[str] = []
        self._aliased = 0

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            value: Any = self._scalar(event)
            if event.anchor is not None:
                self._anchors[event.anchor] = (None if value == _MERGE_KEY else value, 1)
            self._add(value, 1, event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        else:
            if len(self._stack) >= _MAX_DEPTH:
                raise _fail(event, f"nested deeper than {_MAX_DEPTH} levels")
            mapping = isinstance(event, yaml.MappingStartEvent)
            if event.tag not in (None, "!", f"{_TAG}map" if mapping else f"{_TAG}seq"):
                raise _fail(event, f"unknown tag {event.tag[:60]!r}, expected plain data")
            self._stack.append(_YamlFrame({} if mapping else [], event.anchor))
            if event.anchor is not None:
                self._anchors.pop(event.anchor, None)
                self._open.append(event.anchor)

    def close(self, event: Any) -> None:
        frame = self._stack.pop()
        value = frame.value
        if frame.merges and isinstance(value, dict):
            merged: dict[str, Any] = {}
            for source in reversed(frame.merges):  # the first source wins; the mapping's own keys take precedence
                merged.update(source)
            merged.update(value)
            value = merged
        if frame.anchor is not None:
            self._open.remove(frame.anchor)
            self._anchors[frame.anchor] = (value, frame.size)
        self._add(value, frame.size, event)

    def _alias(self, event: Any) -> None:
        known = self._anchors.get(event.anchor)
        if known is None:
            state = "refers to itself" if event.anchor in self._open else "is not defined"
            raise _fail(event, f"alias {event.anchor[:60]!r} {state}")
        self._aliased += known[1]
        if self._aliased > _MAX_ALIASED_NODES:
            raise _fail(event, f"aliases expand to more than {_MAX_ALIASED_NODES} nodes")
        self._add(known[0], known[1], event)

    def _add(self, value: Any, size: int, event: Any) -> None:
        if not self._stack:
            self.root = value
            return
        frame = self._stack[-1]
        frame.size += size
        if isinstance(frame.value, list):
            frame.value.append(_MERGE if value == _MERGE_KEY else value)
        elif frame.key is None:
            frame.key = self._key(value, frame.value, event)
        elif frame.key == _MERGE_KEY:
            self._merge(frame, value, event)
            frame.key = None
        else:
            frame.value[frame.key] = _MERGE if value == _MERGE_KEY else value
            frame.key = None

    def _key(self, value: Any, into: dict[str, Any], event: Any) -> str:
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int | float):
            value = str(value)
        if not isinstance(value, str):
            raise _fail(event, "a key is not a string")
        if value in into:
            raise _fail(event, f"duplicate key {value[:60]!r}")
        return value

    def _merge(self, frame: _YamlFrame, value: Any, event: Any) -> None:
        sources = value if isinstance(value, list) else [value]
        for source in sources:
            if not isinstance(source, dict):
                raise _fail(event, "<< takes a mapping or a list of mappings")
        frame.merges.extend(sources)

    @staticmethod
    def _scalar(event: Any) -> Any:
        text: str = event.value
        tag: str | None = event.tag
        if tag is None or tag == "!":
            if tag == "!" or not event.implicit[0]:
                return text
            return _MERGE_KEY if text == _MERGE else _plain(text)
        kind = tag.removeprefix(_TAG)
        if kind == "str":
            return text
        value = _plain(text)
        fits = {
            "int": isinstance(value, int) and not isinstance(value, bool),
            "float": isinstance(value, int | float) and not isinstance(value, bool),
            "bool": isinstance(value, bool),
            "null": value is None,
        }.get(kind)
        if fits is None:
            raise _fail(event, f"unknown tag {tag[:60]!r}, expected plain data")
        if not fits:
            raise _fail(event, f"{text[:60]!r} is not of type {kind}")
        return value


def _plain(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INT.match(text) and len(text) <= _MAX_DIGITS:
        digits = text.replace("_", "").lstrip("+-")
        if digits:
            octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "bxo"
            value = int(digits[1:], 8) if octal else int(digits, 0)
            return -value if text[0] == "-" else value
    if _FLOAT.match(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text
