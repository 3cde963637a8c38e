"""Catalogue files: read, checked, and as offers of one shape in one zone each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any, Final, get_type_hints

import msgspec

from kubestow.models.catalogue import checks, karpenter, money
from kubestow.models.documents import catalogue as documents
from kubestow.models.documents.catalogue import Shape
from kubestow.models.kube import quantity
from kubestow.models.kube.lenient_decode import did_you_mean, plain, shorten
from kubestow.models.snapshot import sources, yaml_reader
from kubestow.models.snapshot.snapshot import InputError

_HINTS: Final[dict[type[msgspec.Struct], dict[str, Any]]] = {
    kind: get_type_hints(kind, include_extras=True) for kind in (documents.Catalogue, Shape)
}


@dataclass(frozen=True)
class Offer:
    """Nodes of a shape in a zone. ``price``, ``fixed``: millionths per node and hour."""

    shape: Shape
    zone: str
    price: int
    fixed: int

    @property
    def cost(self) -> int:
        """Return what a node costs per hour in all, in millionths."""
        return self.price + self.fixed


@dataclass(frozen=True)
class Catalogue:
    """The nodes that can be had. ``most_spot``: per cent of the CPU bought; ``path``: the file; ``notes``: what a reader must know of how
    it was read."""

    shapes: dict[str, Shape]
    most_spot: int = 100
    notes: tuple[str, ...] = ()
    path: str = ""

    @cached_property
    def offers(self) -> list[Offer]:
        """Return every shape in every zone in which it can be had, in the order of the file."""
        return [offer for shape in self.shapes.values() for offer in offers(shape)]

    @property
    def most(self) -> dict[str, int]:
        """Return how many nodes of a shape there are at most, over all zones, of the shapes that say it."""
        return {name: shape.most for name, shape in self.shapes.items() if shape.most is not None}

    def used(self, buy: Iterable[str]) -> list[Shape]:
        """Return the shapes of purchases, each ``N:SHAPE@ZONE``; all of them where one names a shape that is not there."""
        names = {text.partition(":")[2].rpartition("@")[0] for text in buy}
        return [shape for name, shape in self.shapes.items() if name in names or not names <= self.shapes.keys()]

    def without(self, buy: Iterable[str]) -> Catalogue:
        """Return what is left of the catalogue after purchases, each ``N:SHAPE@ZONE`` of its offers."""
        gone: Counter[str] = Counter()
        for text in buy:
            count, _, offer = text.partition(":")
            gone[offer.rpartition("@")[0]] += int(count)
        left = {
            name: shape if shape.most is None or not gone[name] else msgspec.structs.replace(shape, most=shape.most - gone[name])
            for name, shape in self.shapes.items()
        }
        return replace(self, shapes=left)

    @property
    def spot(self) -> frozenset[str]:
        """Return the names of the shapes whose nodes may be taken away at any time."""
        return frozenset(name for name, shape in self.shapes.items() if shape.spot)

    @cached_property
    def excess(self) -> dict[str, int]:
        """Return by shape how much spot CPU beyond ``most_spot`` a node brings, below zero where it may not be taken away: a purchase is
        allowed where the sum over its nodes is not above zero."""
        found = {
            name: quantity.milli(shape.allocatable.get("cpu", 0)) * ((100 if shape.spot else 0) - self.most_spot)
            for name, shape in self.shapes.items()
        }
        unit = gcd(*found.values()) or 1
        return {name: value // unit for name, value in found.items()}

    def within_spot(self, held: Mapping[str, int]) -> bool:
        """Return whether so many nodes by shape have no more spot CPU than ``most_spot`` allows."""
        return sum(self.excess[name] * count for name, count in held.items()) <= 0


def offers(shape: Shape) -> Iterator[Offer]:
    """Return a shape, which has no problems, in each of its zones."""
    fixed = money.parse(shape.fixedPrice)
    for zone in shape.zones:
        price = shape.price[zone] if isinstance(shape.price, dict) else shape.price
        yield Offer(shape, zone, money.parse(price), fixed)


def read(path: str) -> Catalogue:
    """Read a catalogue, YAML or JSON: one of kubestow's, or the instance types of Karpenter's kwok provider.

    Raises:
        InputError: one line per problem, each naming file, shape and field.
    """
    label = sources.label(path)
    try:
        found = _documents(sources.read(path))
    except (yaml_reader.YamlError, ValueError) as error:
        raise InputError([f"{label}: {error}"]) from error
    if len(found) != 1:
        raise InputError([f"{label}: {len(found) or 'no'} documents, expected one Catalogue"])
    problems: list[str] = []
    if isinstance(found[0], list):
        shapes, notes = karpenter.shapes(found[0], problems)
        result = Catalogue(of_shapes(shapes, problems), notes=tuple(notes))
    else:
        result = _of_document(found[0], problems)
    if problems:
        raise InputError([plain(f"{label}: {problem}") for problem in problems])
    return replace(result, path=path)


def _documents(data: bytes) -> list[Any]:
    """The documents of a file that are not empty."""
    if data.lstrip()[:1] == b"[":  # lists of instance types are long, and YAML takes long to read
        try:
            return [msgspec.json.decode(data)]
        except msgspec.DecodeError:
            pass
    return [document for document in yaml_reader.documents(data) if document is not None]


def of_shapes(shapes: Iterable[Shape], problems: list[str]) -> dict[str, Shape]:
    """Return shapes by name. ``problems`` takes what is wrong with them, each with the shape's name."""
    found: dict[str, Shape] = {}
    for shape in shapes:
        problems += [f"shape {shorten(shape.name)}: {problem}" for problem in checks.problems(shape)]
        if shape.name in found:
            problems.append(f"shape {shorten(shape.name)}: is given twice, expected each name once")
        found[shape.name] = shape
    return found


def _read_shapes(listed: Iterable[Any], problems: list[str]) -> Iterator[Shape]:
    for index, each in enumerate(listed):
        if not isinstance(each, Mapping):
            problems.append(f"shapes[{index}]: got {shorten(each)}, expected an object")
            continue
        name = each.get("name")
        odd: list[str] = []
        values = _fields(Shape, each, odd)
        where = f"shape {shorten(name)}" if isinstance(name, str) and name else f"shapes[{index}]"
        problems += [f"{where}: {problem}" for problem in odd]
        if not odd:
            yield Shape(**values)


def _of_document(data: Any, problems: list[str]) -> Catalogue:
    if not isinstance(data, Mapping):
        problems.append(f"got {shorten(data)}, expected a Catalogue")
        return Catalogue({})
    listed = data.get("shapes")
    fields = _fields(documents.Catalogue, {key: value for key, value in data.items() if key != "shapes"}, problems, "shapes")
    if not isinstance(listed, list):
        problems.append(f"shapes: {'missing' if listed is None else f'got {shorten(listed)}'}, expected a list of shapes")
    elif not listed:
        problems.append("shapes: empty, expected at least one shape")
    shapes = of_shapes(_read_shapes(listed if isinstance(listed, list) else (), problems), problems)
    return Catalogue(shapes, fields.get("mostSpot", 100))


def _fields(kind: type[msgspec.Struct], data: Mapping[str, Any], problems: list[str], *others: str) -> dict[str, Any]:
    """The fields of an object, each read for itself, so that each gets a line of its own; ``others``: fields that are read elsewhere."""
    hints, found = _HINTS[kind], {}
    for key, value in data.items():
        if key not in hints:
            problems.append(f"{plain(key)}: no such field{did_you_mean(key, hints)}")
            continue
        try:
            found[key] = msgspec.convert(value, hints[key])
        except msgspec.ValidationError as error:
            what, _, place = str(error).rpartition(" - at `$")
            problems.append(f"{key}{place.rstrip('`')}: {what}" if what else f"{key}: {error}")
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in (*others, *data):
            expected = {"price": "what a node costs per hour", "zones": "the zones in which it can be had"}
            problems.append(f"{field.name}: missing, expected {expected.get(field.name, 'it of each shape')}")
    return found
