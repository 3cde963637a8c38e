"""Changes of the devices that a Placement names, each of which contradicts the allocation."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

Document = dict[str, Any]
#: Changes a document in place, and returns the statement that is false now; None if there is nothing to change.
DeviceMutation = Callable[[Random, Document, "list[Document]"], str | None]
MUTATIONS: Final[list[DeviceMutation]] = []


def _mutation(function: DeviceMutation) -> DeviceMutation:
    MUTATIONS.append(function)
    return function


def _named(rng: Random, doc: Document) -> tuple[list[Document], Document] | None:
    """A device, and the list that names it."""
    holders = [each["devices"] for each in doc["assignments"] if each.get("devices")]
    if not holders:
        return None
    among = rng.choice(holders)
    return among, rng.choice(among)


def _set(rng: Random, doc: Document, field: str, value: Callable[[Document], Any]) -> str | None:
    found = _named(rng, doc)
    if found is None:
        return None
    _, device = found
    before = device.get(field)
    device[field] = value(device)
    return f"{field} {before!r}"


@_mutation
def dropped(rng: Random, doc: Document, _: list[Document]) -> str | None:
    found = _named(rng, doc)
    if found is None:
        return None
    among, device = found
    among.remove(device)
    return f"{device['device']} is allocated"


@_mutation
def duplicated(rng: Random, doc: Document, _: list[Document]) -> str | None:
    found = _named(rng, doc)
    if found is None:
        return None
    among, device = found
    among.append(dict(device))
    return f"{device['device']} is allocated once"


@_mutation
def another(rng: Random, doc: Document, published: list[Document]) -> str | None:
    """Any other device of the cluster, of the pod's node or not."""
    found = _named(rng, doc)
    if found is None:
        return None
    _, device = found
    others = [each for each in published if any(device[key] != each[key] for key in each)]
    device |= rng.choice(others)
    return "the device is another one"


@_mutation
def swapped(rng: Random, doc: Document, _: list[Document]) -> str | None:
    """Two pods, or two requests, have each other's."""
    one, two = _named(rng, doc), _named(rng, doc)
    if one is None or two is None:
        return None
    a, b = one[1], two[1]
    keys = ("driver", "pool", "device")
    if (a["claim"], a["request"]) == (b["claim"], b["request"]) or all(a[key] == b[key] for key in keys):
        return None
    for key in keys:
        a[key], b[key] = b[key], a[key]
    return "the devices are the other way round"


@_mutation
def claim(rng: Random, doc: Document, _: list[Document]) -> str | None:
    return _set(rng, doc, "claim", lambda device: rng.choice((device["claim"] + "x", "", device["claim"].rpartition("/")[2])))


@_mutation
def request(rng: Random, doc: Document, _: list[Document]) -> str | None:
    return _set(rng, doc, "request", lambda device: rng.choice((device["request"] + "/x", "", device["request"] + "0")))


@_mutation
def admin(rng: Random, doc: Document, _: list[Document]) -> str | None:
    return _set(rng, doc, "adminAccess", lambda device: not device.get("adminAccess", False))


@_mutation
def share(rng: Random, doc: Document, _: list[Document]) -> str | None:
    new = "00000000-0000-5000-8000-000000000000"
    return _set(rng, doc, "shareID", lambda device: rng.choice((new, None)) if device.get("shareID") else new)


@_mutation
def consumed(rng: Random, doc: Document, _: list[Document]) -> str | None:
    def other(device: Document) -> Document:
        amounts = dict(device.get("consumedCapacity") or {})
        name = rng.choice(sorted(amounts) or ["memory"])
        if name in amounts and rng.random() < 0.3:
            del amounts[name]
        else:
            amounts[name] = "12345"
        return amounts

    return _set(rng, doc, "consumedCapacity", other)


@_mutation
def elsewhere(rng: Random, doc: Document, _: list[Document]) -> str | None:
    """A pod without devices is said to have those of another one."""
    found = _named(rng, doc)
    empty = [each for each in doc["assignments"] if not each.get("devices")]
    if found is None or not empty:
        return None
    rng.choice(empty)["devices"] = [dict(found[1])]
    return "the pod gets no devices"
