"""Files that say how a command is to work: YAML or JSON, one document, unknown fields refused."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from models.snapshot import sources, yaml_reader
from models.snapshot.snapshot import InputError

_T = TypeVar("_T", bound=msgspec.Struct)


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
        raise InputError([f"{path}: {kind.__name__}: {_readable(str(error))}"]) from error


def _readable(text: str) -> str:
    """Return msgspec's "what - at `$.where`" with the field first."""
    what, _, where = text.rpartition(" - at `")
    return f"{where.rstrip('`').removeprefix('$.')}: {what}" if what else text
