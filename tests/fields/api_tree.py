"""Every field of Kubernetes' API types as a path (``spec.containers.image``, as ``kubectl explain`` has it), and which of them are read."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import inspect

from kubestow.models.kube import kinds
from tests.models.snapshot.test_api_types import Fields, published_types, resource_types

#: v1 before v2beta1 before v2alpha3, and of two alike the higher one.
_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?$")
_STAGES: Final = {"alpha": 0, "beta": 1, None: 2}


@functools.cache
def types() -> Mapping[str, Fields]:
    """Return every published type."""
    return published_types()


def _rank(name: str) -> tuple[int, int, int]:
    found = _VERSION.search(name.partition(".")[0])
    assert found, name
    return _STAGES[found[2]], int(found[1]), int(found[3] or 0)


@functools.cache
def heads() -> dict[str, str]:
    """Return the type of each kind, in its best version; of two groups with a kind of one name the one that is read, else the first."""
    found: dict[str, str] = {}
    for (group, kind), named in sorted(resource_types().items()):
        names = [name for name in named if name in types()]  # answers of the API server have none
        known = kinds.KINDS.get(kind)
        if names and (kind not in found or (known is not None and group in known.groups)):
            found[kind] = max(names, key=_rank)
    return found


@functools.cache
def paths(kind: str) -> frozenset[str]:
    """Return all fields of a kind, those of a type inside itself once."""
    return frozenset(_walk(heads()[kind], "", (heads()[kind],)))


def _walk(name: str, prefix: str, above: tuple[str, ...]) -> Iterator[str]:
    for field, below in types()[name].items():
        yield prefix + field
        if below and below not in above:
            yield from _walk(below, f"{prefix}{field}.", (*above, below))


@functools.cache
def read(kind: str) -> frozenset[str]:
    """Return the fields that a struct of models/kube has, of a kind that is read."""
    known = kinds.KINDS.get(kind)
    return frozenset() if known is None else frozenset(_structs(inspect.type_info(known.type), ""))


def _structs(found: inspect.Type, prefix: str) -> Iterator[str]:
    if isinstance(found, inspect.UnionType):
        for each in found.types:
            yield from _structs(each, prefix)
    elif isinstance(found, inspect.ListType):
        yield from _structs(found.item_type, prefix)
    elif isinstance(found, inspect.StructType):
        for field in found.fields:
            yield prefix + field.encode_name
            yield from _structs(field.type, f"{prefix}{field.encode_name}.")
