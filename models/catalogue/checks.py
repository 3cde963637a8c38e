"""Checks of a shape. Each problem names the field, the value found and the value expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kubestow.models.catalogue import money
from kubestow.models.documents.catalogue import Price, Quantity, Shape
from kubestow.models.kube import pod_requests, quantity
from kubestow.models.kube.lenient_decode import did_you_mean, shorten
from kubestow.models.kube.selectors import is_label_key, is_label_value

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
#: Labels that every node gets from its name and zone, for any shape.
_NODE_LABELS: Final = (HOSTNAME, ZONE)
#: Required resources. Without them, a node accepts no pods, or only pods without requests.
_REQUIRED: Final = ("cpu", "memory", "pods")
#: All resources without a domain prefix that a shape may have.
_PLAIN: Final = (*_REQUIRED, "ephemeral-storage")
_MAX_INT32: Final = 2**31 - 1
_VALUE: Final = "a label value: at most 63 letters, digits, '-', '_' and '.', letters or digits at both ends"
_KEY: Final = "a label key such as example.com/pool"


def problems(shape: Shape) -> list[str]:
    """Return all problems of a shape whose fields have valid types."""
    return [
        *_name(shape.name),
        *_allocatable(shape),
        *_zones(shape.zones),
        *_prices(shape),
        *_labels(shape),
        *_taints(shape),
        *(
            f"volumes[{plain_key(driver)}]: got {shorten(count)}, expected a whole number within 0..{_MAX_INT32}"
            for driver, count in shape.volumes.items()
            if not 0 <= count <= _MAX_INT32
        ),
    ]


def plain_key(key: str) -> str:
    """Return a key in the form for messages, to appear between brackets."""
    return shorten(key)[1:-1]


def _name(name: str) -> Iterator[str]:
    if not name or not is_label_value(name):
        yield f"name: got {shorten(name)}, expected {_VALUE}"


def _allocatable(shape: Shape) -> Iterator[str]:
    for name in _REQUIRED:
        if name not in shape.allocatable:
            without = {"pods": "the number of pods that a node takes, such as 110: without it a node takes none"}
            yield f"allocatable.{name}: missing, expected {without.get(name, f'the {name} of a node for pods')}"
    yield from _quantities(shape.allocatable, "allocatable")
    yield from _quantities(shape.capacity, "capacity")
    for name in shape.allocatable.keys() & shape.capacity.keys():
        try:
            more = quantity.parse(shape.allocatable[name]) > quantity.parse(shape.capacity[name])
        except quantity.QuantityError:
            continue
        if more:
            least = shorten(shape.allocatable[name])
            yield f"capacity[{plain_key(name)}]: got {shorten(shape.capacity[name])}, expected at least the allocatable amount {least}"


def _quantities(given: Mapping[str, Quantity], field: str) -> Iterator[str]:
    for name, raw in given.items():
        where = f"{field}[{plain_key(name)}]"
        if not (name in _PLAIN or (pod_requests.counts_as_resource(name) and is_label_key(name))):
            yield f"{where}: no such resource, expected {', '.join(_PLAIN)}, hugepages-SIZE or DOMAIN/NAME{did_you_mean(name, _PLAIN)}"
        try:
            if quantity.parse(raw) < 0:
                yield f"{where}: got {shorten(raw)}, expected no negative amount"
            quantity.milli(raw)
        except quantity.QuantityError as error:
            yield f"{where}: {error}"


def _zones(zones: tuple[str, ...]) -> Iterator[str]:
    if not zones:
        yield "zones: empty, expected at least one zone that offers it"
    for zone in dict.fromkeys(zones):
        if not zone or not is_label_value(zone):
            yield f"zones: got {shorten(zone)}, expected {_VALUE}"
        elif zones.count(zone) > 1:
            yield f"zones: {shorten(zone)} is given twice, expected each zone once"


def _prices(shape: Shape) -> Iterator[str]:
    if isinstance(shape.price, dict):
        for zone, price in shape.price.items():
            if zone not in shape.zones:
                yield f"price[{plain_key(zone)}]: no such zone in zones{did_you_mean(zone, shape.zones)}"
            yield from _price(price, f"price[{plain_key(zone)}]")
        for zone in dict.fromkeys(shape.zones):
            if zone not in shape.price:
                yield f"price[{plain_key(zone)}]: missing, expected the price in each of zones"
    else:
        yield from _price(shape.price, "price")
    yield from _price(shape.fixedPrice, "fixedPrice")


def _price(price: Price, field: str) -> Iterator[str]:
    try:
        money.parse(price)
    except money.MoneyError as error:
        yield f"{field}: {error}"


def _labels(shape: Shape) -> Iterator[str]:
    for key, value in shape.labels.items():
        if not is_label_key(key):
            yield f"labels: got the key {shorten(key)}, expected {_KEY}"
        elif key in _NODE_LABELS:
            yield f"labels[{key}]: set for each node automatically, expected it to be left out"
        if not is_label_value(value):
            yield f"labels[{plain_key(key)}]: got {shorten(value)}, expected {_VALUE}"


def _taints(shape: Shape) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(shape.taints):
        if not is_label_key(taint.key):
            yield f"taints[{index}].key: got {shorten(taint.key)}, expected {_KEY}"
        if not is_label_value(taint.value):
            yield f"taints[{index}].value: got {shorten(taint.value)}, expected {_VALUE}"
        if (taint.key, taint.effect) in seen:
            yield f"taints[{index}]: {taint.key}:{taint.effect} is given twice, expected each key and effect once"
        seen.add((taint.key, taint.effect))
