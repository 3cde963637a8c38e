"""Reader of settings files: YAML or JSON, one document, unknown fields refused."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from kubestow.models.kube.lenient_decode import did_you_mean
from kubestow.models.snapshot import sources, yaml_reader
from kubestow.models.snapshot.snapshot import InputError

_T = TypeVar("_T", bound=msgspec.Struct)
#: A step of a msgspec path: a field, a list index, or any key of a mapping.
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]|(\[\.\.\.\])")
_UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `([^`]*)`")
#: Largest mapping, in keys, that is searched for the key at fault. Each key costs a conversion.
_MAX_SEARCHED_KEYS: Final = 1000


def read(path: str, kind: type[_T]) -> _T:
    """Read a file of one document. An empty file means the defaults of ``kind``.

    Raises:
        InputError: The file cannot be read, is not YAML, or has an unknown field or a value out of range.
    """
    return fitted(path, document(path, kind.__name__), kind)


def document(path: str, name: str) -> Any:
    """Return the one document in a file as plain values, or an empty mapping if the file is empty.

    Args:
        path: The file.
        name: The expected kind of document, for messages.

    Raises:
        InputError: The file cannot be read, is not YAML, or has several documents.
    """
    try:
        return parsed(path, sources.read(path), name)
    except ValueError as error:
        raise InputError([f"{path}: {error}"]) from error


def parsed(path: str, text: str | bytes, name: str) -> Any:
    """Return the one document in a text as plain values, or an empty mapping if the text is empty.

    Raises:
        InputError: The text is not YAML, or has several documents. The message begins with ``path``.
    """
    try:
        found: list[Any] = [d for d in yaml_reader.documents(text) if d is not None]
    except yaml_reader.YamlError as error:
        raise InputError([f"{path}: {error}"]) from error
    if len(found) > 1:
        raise InputError([f"{path}: expected one {name}, found {len(found)} documents"])
    return found[0] if found else {}


def fitted(path: str, plain: object, kind: type[_T]) -> _T:
    """Convert plain values to ``kind``.

    Raises:
        InputError: A field is unknown or a value is out of range. The message names the file and the field.
    """
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).rpartition(" - at `")
        problem = f"{_named(plain, where.rstrip('`'), kind, str(error)).removeprefix('$.')}: {what}" if what else str(error)
        unknown = _UNKNOWN_FIELD.match(str(error))
        problem += did_you_mean(unknown[1], _fields(inspect.type_info(kind))) if unknown else ""
        raise InputError([f"{path}: {kind.__name__}: {problem}"]) from error


def _fields(kind: inspect.Type) -> set[str]:
    """Return the names of all fields in a type, at any depth."""
    found: set[str] = set()
    if isinstance(kind, inspect.StructType):
        found |= {field.encode_name for field in kind.fields}
    inner = [field.type for field in kind.fields] if isinstance(kind, inspect.StructType) else []
    inner += [getattr(kind, name) for name in ("item_type", "value_type", "type") if isinstance(getattr(kind, name, None), inspect.Type)]
    inner += getattr(kind, "types", ())
    return found.union(*map(_fields, inner)) if inner else found


def _named(plain: object, where: str, kind: type[msgspec.Struct], problem: str) -> str:
    """Return the path of a problem, with the names of mapping keys instead of msgspec's ``[...]``."""
    found, inner, whole = "$", plain, plain
    for field, number, key in _STEP.findall(where.removeprefix("$")):
        if key and isinstance(inner, dict) and len(inner) <= _MAX_SEARCHED_KEYS:
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
    """Return a copy of plain data in which ``mapping`` has only the key ``kept``."""
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
