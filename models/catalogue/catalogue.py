"""Catalogue files and their offers. An offer is one shape in one zone."""

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
    """Nodes of a shape in a zone.

    Attributes:
        price: Price of a node per hour in the zone, in millionths.
        fixed: Fixed price of a node per hour, in millionths.
    """

    shape: Shape
    zone: str
    price: int
    fixed: int

    @property
    def cost(self) -> int:
        """The total cost of a node per hour, in millionths."""
        return self.price + self.fixed


@dataclass(frozen=True)
class Catalogue:
    """The node shapes that can be bought.

    Attributes:
        shapes: The shapes by name.
        most_spot: Maximum share of spot nodes in the purchased CPU, in per cent.
        notes: Remarks on how the file was read.
        path: The file.
    """

    shapes: dict[str, Shape]
    most_spot: int = 100
    notes: tuple[str, ...] = ()
    path: str = ""

    @cached_property
    def offers(self) -> list[Offer]:
        """Every shape in every zone that offers it, in the order of the file."""
        return [offer for shape in self.shapes.values() for offer in offers(shape)]

    @property
    def most(self) -> dict[str, int]:
        """The maximum number of nodes over all zones, for the shapes that set one."""
        return {name: shape.most for name, shape in self.shapes.items() if shape.most is not None}

    def used(self, buy: Iterable[str]) -> list[Shape]:
        """Return the shapes of purchases ``N:SHAPE@ZONE``, or all shapes if a purchase names an unknown shape."""
        names = {text.partition(":")[2].rpartition("@")[0] for text in buy}
        return [shape for name, shape in self.shapes.items() if name in names or not names <= self.shapes.keys()]

    def without(self, buy: Iterable[str]) -> Catalogue:
        """Return the catalogue with its limits reduced by purchases ``N:SHAPE@ZONE``."""
        gone: Counter[str] = Counter()
        for text in buy:
            count, _, offer = text.partition(":")
            gone[offer.rpartition("@")[0]] += int(count)
        shapes = {
            name: shape if shape.most is None or not gone[name] else msgspec.structs.replace(shape, most=shape.most - gone[name])
            for name, shape in self.shapes.items()
        }
        return replace(self, shapes=shapes)

    @property
    def spot(self) -> frozenset[str]:
        """The names of the spot shapes."""
        return frozenset(name for name, shape in self.shapes.items() if shape.spot)

    @cached_property
    def excess(self) -> dict[str, int]:
        """The weight of one node in the limit on spot CPU, by shape.

        It is the spot CPU of the node minus the part ``most_spot`` of its CPU, in a common unit that makes all weights whole
        numbers. It is at most 0 for nodes that are not spot. A purchase is allowed if the sum over its nodes is at most 0.
        """
        excess = {
            name: quantity.milli(shape.allocatable.get("cpu", 0)) * ((100 if shape.spot else 0) - self.most_spot)
            for name, shape in self.shapes.items()
        }
        unit = gcd(*excess.values()) or 1
        return {name: value // unit for name, value in excess.items()}

    def within_spot(self, counts: Mapping[str, int]) -> bool:
        """Return True if nodes in these numbers by shape have at most the spot CPU that ``most_spot`` allows."""
        return sum(self.excess[name] * count for name, count in counts.items()) <= 0


def offers(shape: Shape) -> Iterator[Offer]:
    """Yield the offers of a valid shape, one for each of its zones."""
    fixed = money.parse(shape.fixedPrice)
    for zone in shape.zones:
        price = shape.price[zone] if isinstance(shape.price, dict) else shape.price
        yield Offer(shape, zone, money.parse(price), fixed)


def read(path: str) -> Catalogue:
    """Read a catalogue in YAML or JSON: kubestow's own format, or instance types of Karpenter's kwok provider.

    Raises:
        InputError: One line for each problem, with file, shape and field.
    """
    label = sources.label(path)
    try:
        parsed = _documents(sources.read(path))
    except (yaml_reader.YamlError, ValueError) as error:
        raise InputError([f"{label}: {error}"]) from error
    if len(parsed) != 1:
        raise InputError([f"{label}: {len(parsed) or 'no'} documents, expected one Catalogue"])
    problems: list[str] = []
    if isinstance(parsed[0], list):
        shapes, notes = karpenter.shapes(parsed[0], problems)
        result = Catalogue(of_shapes(shapes, problems), notes=tuple(notes))
    else:
        result = _of_document(parsed[0], problems)
    if problems:
        raise InputError([plain(f"{label}: {problem}") for problem in problems])
    return replace(result, path=path)


def _documents(data: bytes) -> list[Any]:
    """Return the documents of a file that are not empty."""
    if data.lstrip()[:1] == b"[":  # lists of instance types are long, and YAML is slow to parse
        try:
            return [msgspec.json.decode(data)]
        except msgspec.DecodeError:
            pass
    return [document for document in yaml_reader.documents(data) if document is not None]


def of_shapes(shapes: Iterable[Shape], problems: list[str]) -> dict[str, Shape]:
    """Return shapes by name. Their problems are appended to ``problems``, each with the shape's name."""
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
    """Return the fields of an object, converted one by one to report every problem. ``others`` are fields read elsewhere."""
    hints, fields = _HINTS[kind], {}
    for key, value in data.items():
        if key not in hints:
            problems.append(f"{plain(key)}: no such field{did_you_mean(key, hints)}")
            continue
        try:
            fields[key] = msgspec.convert(value, hints[key])
        except msgspec.ValidationError as error:
            what, _, place = str(error).rpartition(" - at `$")
            problems.append(f"{key}{place.rstrip('`')}: {what}" if what else f"{key}: {error}")
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in (*others, *data):
            expected = {"price": "the price of a node per hour", "zones": "the zones that offer it"}
            problems.append(f"{field.name}: missing, expected {expected.get(field.name, 'it of each shape')}")
    return fields
