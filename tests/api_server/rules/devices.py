"""Allocation of devices: the devices that a node can reach, their users, and first-fit results for claims.

Only plain requests are supported: a number of whole devices or of capacity shares, with classes that select at most a driver. Other
requests get no devices.

Source: staging/src/k8s.io/dynamic-resource-allocation/structured (v1.36.2).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.api_server.resources import DEVICE_CLAIMS, DEVICE_CLASSES, SLICES
from tests.api_server.rules.quantities import amount
from tests.api_server.rules.selectors import node_selector_matches
from tests.api_server.store import Store

Object = dict[str, Any]
Id = tuple[str, str, str]  # driver, pool, name
_DRIVER = re.compile(r'device\.driver == "([^"]+)"')
_PLAIN = {"deviceClassName", "allocationMode", "count", "capacity"}


class _Slot(NamedTuple):
    """One device of a request."""

    claim: str
    request: str
    asked: Object


@dataclass
class _Books:
    """The whole devices in use, and the used capacity of shared ones."""

    whole: set[Id]
    shares: Counter[tuple[Id, str]]

    def record(self, result: Object, sign: int = 1) -> None:
        """Record an allocation result (``sign`` 1), or release it (-1)."""
        device = result["driver"], result["pool"], result["device"]
        if "shareID" not in result:
            if sign > 0:
                self.whole.add(device)
            else:
                self.whole.discard(device)
        for name, text in (result.get("consumedCapacity") or {}).items():
            self.shares[device, name] += sign * amount(name, text)


def results_of(claim: Object) -> list[Object]:
    """Return the devices that a claim has."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or ())


class Devices:
    """The devices of a cluster."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, keys: Sequence[str], node: Object) -> dict[str, list[Object]] | None:
        """Return the devices for each claim on a node, or None if not all claims fit. Shares have no id yet."""
        slots: list[_Slot] = []
        for key in keys:
            for request in ((self._store.all(DEVICE_CLAIMS)[key].get("spec") or {}).get("devices") or {}).get("requests") or ():
                asked = request.get("exactly") or {}
                if not asked or asked.keys() - _PLAIN or asked.get("allocationMode", "ExactCount") != "ExactCount":
                    return None
                slots += [_Slot(key, request["name"], asked)] * asked.get("count", 1)
        books = _Books(set(), Counter())
        for claim in self._store.all(DEVICE_CLAIMS).values():
            for result in results_of(claim):
                books.record(result)
        chosen = self._choose(slots, list(self._seen(node)), books)
        if chosen is None:
            return None
        return {key: [result for slot, result in zip(slots, chosen, strict=True) if slot.claim == key] for key in keys}

    def _choose(self, slots: Sequence[_Slot], devices: Sequence[tuple[Id, Object]], books: _Books) -> list[Object] | None:
        """Return the first solution: a device for each slot."""
        if not slots:
            return []
        for device, raw in devices:
            result = self._result(slots[0], device, raw, books)
            if result is not None:
                books.record(result)
                rest = self._choose(slots[1:], devices, books)
                if rest is not None:
                    return [result, *rest]
                books.record(result, -1)
        return None

    def _result(self, slot: _Slot, device: Id, raw: Object, books: _Books) -> Object | None:
        if device in books.whole or raw.get("taints") or not self._of_class(slot.asked["deviceClassName"], device[0]):
            return None
        wanted = (slot.asked.get("capacity") or {}).get("requests") or {}
        capacity = {name: each["value"] for name, each in (raw.get("capacity") or {}).items()}
        if not wanted.keys() <= capacity.keys():
            return None
        result = {"request": slot.request, "driver": device[0], "pool": device[1], "device": device[2]}
        if not raw.get("allowMultipleAllocations"):
            return result if all(amount(name, text) <= amount(name, capacity[name]) for name, text in wanted.items()) else None
        consumed = {name: wanted.get(name, text) for name, text in capacity.items()}
        if any(books.shares[device, name] + amount(name, text) > amount(name, capacity[name]) for name, text in consumed.items()):
            return None
        return {**result, "shareID": "", "consumedCapacity": consumed}

    def _of_class(self, name: str, driver: str) -> bool:
        """Return True if the class exists and includes the devices of a driver."""
        found = self._store.get(DEVICE_CLASSES, name)
        if found is None:
            return False
        expressions = (each["cel"]["expression"] for each in (found.get("spec") or {}).get("selectors") or ())
        return all((match := _DRIVER.fullmatch(each)) is not None and match[1] == driver for each in expressions)

    def _seen(self, node: Object) -> Iterator[tuple[Id, Object]]:
        """Yield the devices of a node in search order: pools by driver and name, slices by name."""
        pools: dict[tuple[str, str], list[Object]] = {}
        for one in self._store.all(SLICES).values():
            pools.setdefault((one["spec"]["driver"], one["spec"]["pool"]["name"]), []).append(one)
        for (driver, pool), slices in sorted(pools.items()):
            newest = max(one["spec"]["pool"]["generation"] for one in slices)
            current = [one for one in slices if one["spec"]["pool"]["generation"] == newest]
            if len(current) != current[0]["spec"]["pool"]["resourceSliceCount"]:
                continue
            for one in sorted(current, key=lambda one: str(one["metadata"]["name"])):
                if _is_for(one["spec"], node):
                    yield from (((driver, pool, raw["name"]), raw) for raw in one["spec"].get("devices") or ())


def _is_for(spec: Object, node: Object) -> bool:
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node["metadata"]["name"])
    return bool(spec.get("allNodes")) or ("nodeSelector" in spec and node_selector_matches(spec["nodeSelector"], node))
