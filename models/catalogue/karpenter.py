"""Reader of instance types of Karpenter's kwok provider as shapes.

Source: kubernetes-sigs/karpenter kwok/cloudprovider/helpers.go (InstanceTypeOptions, KWOKOffering, newInstanceType), and the older form
of offerings (capacityType, zone, price) of kwok/examples/instance_types.json. Keys are case-insensitive, as in Go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from kubestow.models.catalogue import money
from kubestow.models.catalogue.checks import ZONE
from kubestow.models.documents.catalogue import Quantity, Shape
from kubestow.models.kube import quantity
from kubestow.models.kube.lenient_decode import plain, shorten

CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
_TYPE: Final = "node.kubernetes.io/instance-type"
_ON_DEMAND: Final = "on-demand"
_SPOT: Final = "spot"
_LINUX: Final = "linux"
#: Resources that the provider reserves on each machine for the kubelet, in CPUs and bytes.
_RESERVED: Final = {"cpu": Fraction(1, 10), "memory": Fraction(10 * 2**20)}
#: Pod slots of machines that do not set them.
_DEFAULT_PODS: Final = 110
_FIELDS: Final = frozenset({"name", "offerings", "architecture", "operatingsystems", "resources"})
_OFFERING: Final = frozenset({"price", "available", "requirements", "capacitytype", "zone", "reservationcapacity"})


@dataclass
class _KarpenterReading:
    problems: list[str]
    unavailable: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # offerings by capacity type other than on-demand and spot
    systems: Counter[str] = field(default_factory=Counter)  # instance types by operating system other than Linux
    dropped: dict[str, None] = field(default_factory=dict)  # fields that are not read

    def notes(self) -> Iterator[str]:
        if self.unavailable:
            yield f"{_left_out(self.unavailable, 'offering', ' not available')} of the catalogue"
        for kind, count in sorted(self.kinds.items()):
            yield f"{_left_out(count, 'offering', f' of capacity type {plain(kind)}')} of the catalogue"
        for system, count in sorted(self.systems.items()):
            yield f"{_left_out(count, 'instance type', f' of {plain(system)}')} of the catalogue, which is of {_LINUX}"
        if self.dropped:
            yield f"not read of the catalogue: {', '.join(map(plain, self.dropped))}"


def shapes(listed: Sequence[Any], problems: list[str]) -> tuple[list[Shape], list[str]]:
    """Convert instance types to shapes. Spot offerings become separate shapes.

    Returns:
        The shapes, and notes on what was left out. Problems are appended to ``problems``.
    """
    reading = _KarpenterReading(problems)
    found = [shape for index, each in enumerate(listed) for shape in _shapes(index, each, reading)]
    if not found and not problems:
        problems.append("no instance type has an available offering, expected at least one")
    return found, list(reading.notes())


def _shapes(index: int, data: Any, reading: _KarpenterReading) -> Iterator[Shape]:
    given = _lower(data)
    name: Any = given.get("name")
    where = f"instance type {shorten(name)}" if isinstance(name, str) else f"[{index}]"
    offerings: Any = given.get("offerings")
    resources: Any = given.get("resources")
    systems: Any = given.get("operatingsystems") or [_LINUX]
    architecture: Any = given.get("architecture")
    wanted = (
        ("name", name, str, "its name"),
        ("offerings", offerings, list, "a list of offerings"),
        ("resources", resources, dict, "the machine's resources"),
        ("architecture", architecture, str, "its architecture, such as amd64"),
        ("operatingSystems", systems, list, "a list of operating systems"),
    )
    odd = [f"{key}: {_found(value)}, expected {what}" for key, value, kind, what in wanted if not isinstance(value, kind)]
    if isinstance(resources, dict):
        refused = {key: raw for key, raw in resources.items() if not isinstance(raw, str | int | float) or isinstance(raw, bool)}
        odd += [f"resources[{plain(key)}]: got {shorten(raw)}, expected a quantity" for key, raw in refused.items()]
    if odd:
        reading.problems += [f"{where}: {text}" for text in odd]
        return
    reading.dropped.update(dict.fromkeys(key for key in data if key.lower() not in _FIELDS))
    if _LINUX not in systems:
        reading.systems.update(str(system) for system in systems[:1])
        return
    prices: dict[str, dict[str, int]] = {}
    for number, each in enumerate(offerings):
        offer = _offering(f"{where}: offerings[{number}]", each, reading)
        if offer is not None:
            kind, zone, price = offer
            known = prices.setdefault(kind, {})
            known[zone] = min(price, known.get(zone, price))
    capacity: dict[str, Quantity] = {"pods": _DEFAULT_PODS, **resources}
    labels = {_TYPE: name, "kubernetes.io/arch": architecture, "kubernetes.io/os": _LINUX}
    for kind, zones in sorted(prices.items()):
        yield Shape(
            name=name if kind == _ON_DEMAND else f"{name}.{kind}",
            allocatable={key: _less(key, raw) for key, raw in capacity.items()},
            zones=tuple(zones),
            price={zone: money.number(price) for zone, price in zones.items()},
            capacity=capacity,
            labels={**labels, CAPACITY_TYPE: kind},
            spot=kind == _SPOT,
        )


def _offering(where: str, data: Any, reading: _KarpenterReading) -> tuple[str, str, int] | None:
    """Return the capacity type, zone and price of an offering, or None if it is unavailable or invalid."""
    if not isinstance(data, Mapping):
        reading.problems.append(f"{where}: got {shorten(data)}, expected an object")
        return None
    given = _lower(data)
    requirements = given.get("requirements") or ()
    if not isinstance(requirements, list | tuple):
        reading.problems.append(f"{where}: Requirements: got {shorten(requirements)}, expected a list")
        return None
    required: dict[str, Any] = {CAPACITY_TYPE: given.get("capacitytype", _ON_DEMAND), ZONE: given.get("zone")}
    for each in requirements:
        key, values = (str(each.get("key")), each.get("values")) if isinstance(each, Mapping) else ("", None)
        if key in required and isinstance(values, list) and len(values) == 1 and each.get("operator") == "In":
            required[key] = values[0]
        elif key in required:
            got = f"{plain(str(each.get('operator')))} {shorten(each.get('values'))}"
            reading.problems.append(f"{where}: requirement {key}: got {got}, expected In and one value")
            return None
        else:
            reading.dropped[f"requirements of {key}"] = None
    reading.dropped.update(dict.fromkeys(key for key in data if key.lower() not in _OFFERING))
    if given.get("available", True) is False:
        reading.unavailable += 1
        return None
    kind, zone = required[CAPACITY_TYPE], required[ZONE]
    if kind not in (_ON_DEMAND, _SPOT):
        reading.kinds[str(kind)] += 1
        return None
    try:
        if not isinstance(zone, str) or not zone:
            raise money.MoneyError(f"zone: {_found(zone)}, expected the zone of the offering")
        if "price" not in given:
            raise money.MoneyError("Price: missing, expected the price of a node per hour")
        price = given["price"]
        if not isinstance(price, int | float | str):
            raise money.MoneyError(f"Price: got {shorten(price)}, expected a number")
        return kind, zone, money.rounded(price)
    except money.MoneyError as error:
        reading.problems.append(f"{where}: {error}")
        return None


def _less(name: str, raw: Quantity) -> Quantity:
    """Return the allocatable amount of a resource: capacity minus the reserved amount.

    Only CPU and memory have a reserved amount. An amount that cannot be read is returned unchanged.

    Args:
        name: Name of the resource.
        raw: Its capacity.
    """
    if name not in _RESERVED:
        return raw
    try:
        residual = max(Fraction(0), quantity.parse(raw) - _RESERVED[name])
    except quantity.QuantityError:
        return raw  # the shape's checks report the problem
    mebi = residual / 2**20
    return f"{mebi}Mi" if name == "memory" and mebi.denominator == 1 else quantity.canonical(residual)


def _lower(data: Any) -> dict[str, Any]:
    return {key.lower(): value for key, value in data.items()} if isinstance(data, Mapping) else {}


def _left_out(count: int, noun: str, which: str) -> str:
    return f"{count} {noun}{which} is left out" if count == 1 else f"{count} {noun}s{which} are left out"


def _found(value: Any) -> str:
    return "missing" if value is None else f"got {shorten(value)}"
