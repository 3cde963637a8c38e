"""Files that say how a command is to work: YAML or JSON, one document, unknown fields refused."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec

from kubestow.models.snapshot import sources, yaml_reader
from kubestow.models.snapshot.snapshot import InputError

_T = TypeVar("_T", bound=msgspec.Struct)
#: A step of msgspec's paths: a field, a place in a list, or any key of a mapping.
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]|(\[\.\.\.\])")
#: Mappings of so many keys are not searched: each takes a conversion.
_MOST: Final = 1000


def read(path: str, kind: type[_T]) -> _T:
    """Read a file of one document; an empty one stands for the defaults of ``kind``.

    Raises:
        InputError: it cannot be read, is not YAML, has an unknown field or a value out of range; the message names file and field.
    """
    return fitted(path, document(path, kind.__name__), kind)


def document(path: str, name: str) -> Any:
    """Return what is in a file of one document, plain; an empty one is an empty mapping. ``name``: what it is to be, for messages.

    Raises:
        InputError: it cannot be read, or is not YAML.
    """
    try:
        found: list[Any] = [d for d in yaml_reader.documents(sources.read(path)) if d is not None]
    except (yaml_reader.YamlError, ValueError) as error:
        raise InputError([f"{path}: {error}"]) from error
    if len(found) > 1:
        raise InputError([f"{path}: one {name} expected, {len(found)} documents found"])
    return found[0] if found else {}


def fitted(path: str, plain: object, kind: type[_T]) -> _T:
    """Return plain values as ``kind``.

    Raises:
        InputError: they have an unknown field or a value out of range; the message names file and field.
    """
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).rpartition(" - at `")
        told = f"{_named(plain, where.rstrip('`'), kind, str(error)).removeprefix('$.')}: {what}" if what else str(error)
        raise InputError([f"{path}: {kind.__name__}: {told}"]) from error


def _named(plain: object, where: str, kind: type[msgspec.Struct], problem: str) -> str:
    """Return the place of a problem with the keys of mappings by their names, where msgspec says ``[...]``."""
    found, inner, whole = "$", plain, plain
    for field, number, key in _STEP.findall(where.removeprefix("$")):
        if key and isinstance(inner, dict) and len(inner) <= _MOST:
            name = next((each for each in inner if _problem(_without(whole, inner, each), kind) == problem), None)
            if name is None:
                return where
            whole = _without(whole, inner, name)
            found, inner = f"{found}.{repr(name)[1:-1] if isinstance(name, str) else name}", inner[name]
        elif field and isinstance(inner, dict) and field in inner:
            found, inner = f"{found}.{field}", inner[field]
        elif number and isinstance(inner, list | tuple) and int(number) < len(inner):
            found, inner = f"{found}[{number}]", inner[int(number)]
        else:
            return where
    return found


def _without(whole: object, mapping: dict[object, object], kept: object) -> object:
    """Return plain data in which one mapping has one key only."""
    if whole is mapping:
        return {kept: mapping[kept]}
    if isinstance(whole, dict):
        return {key: _without(value, mapping, kept) for key, value in whole.items()}
    return [_without(value, mapping, kept) for value in whole] if isinstance(whole, list) else whole


def _problem(plain: object, kind: type[msgspec.Struct]) -> str | None:
    try:
        msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        return str(error)
    return None
