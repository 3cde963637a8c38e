"""Files that say how a command is to work: YAML or JSON, one document, unknown fields refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from models.snapshot import yaml_reader
from models.snapshot.snapshot import InputError

_T = TypeVar("_T", bound=msgspec.Struct)


def read(path: str, kind: type[_T]) -> _T:
    """Read a file of one document; an empty one stands for the defaults of ``kind``.

    Raises:
        InputError: not YAML, an unknown field, or a value out of range; the message names file and field.
        OSError: the file cannot be read.
    """
    name = kind.__name__
    try:
        data = Path(path).read_bytes()
        found: list[Any] = [d for d in yaml_reader.documents(data) if d is not None]
    except (yaml_reader.YamlError, UnicodeError) as error:
        raise InputError([f"{path}: {error}"]) from error
    if len(found) > 1:
        raise InputError([f"{path}: one {name} expected, {len(found)} documents found"])
    try:
        return msgspec.convert(found[0] if found else {}, kind)
    except msgspec.ValidationError as error:
        raise InputError([f"{path}: {name}: {_readable(str(error))}"]) from error


def _readable(text: str) -> str:
    """Return msgspec's "what - at `$.where`" with the field first."""
    what, _, where = text.rpartition(" - at `")
    return f"{where.rstrip('`').removeprefix('$.')}: {what}" if what else text
