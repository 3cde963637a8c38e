"""Devices in groups that nothing tells apart: neither a request of the instance, nor where they are, nor what they consume.

A shared device is a group of its own, for what shares take of it is counted for each, and so is one that several slices publish.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

import numpy as np

from kubestow.models.cel.selectors import CelError
from kubestow.models.devices.demand import Request, Toleration
from kubestow.models.devices.inventory import Books, Kind
from kubestow.models.devices.table import DeviceTable


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request asks of every single device."""

    selectors: tuple[str, ...]
    tolerations: tuple[Toleration, ...]
    capacity: tuple[tuple[str, Fraction], ...]


@dataclass(eq=False, slots=True)
class Group:
    """``sites``: those that see the devices, by position in ``Inventory.sites``. ``pool``: where several do, else empty. ``units``: the
    devices, as the books name them. ``row``: what the room for them is counted under; the same for groups of one device that several slices
    publish. ``node``, ``selector``: which nodes an allocation serves, see :class:`kubestow.models.devices.inventory.Device`."""

    id: int
    kind: Kind
    pool: str
    sites: tuple[int, ...]
    counters: tuple[tuple[int, Fraction], ...]
    node: bool
    selector: int | None
    row: Hashable
    units: list[int] = field(default_factory=list)

    def free(self, books: Books) -> int:
        """Return how many of the devices are not allocated as a whole."""
        return len(self.units) - int(np.count_nonzero(books.in_use[self.units]))


class DeviceGroups:
    """The devices of a cluster in groups. ``of_site``: per site the groups that it sees."""

    def __init__(self, table: DeviceTable) -> None:
        self._table = table
        inventory = self.inventory = table.inventory
        seen: dict[int, list[int]] = {}
        for s, site in enumerate(inventory.sites):
            for device in inventory.serving(site).tolist():
                seen.setdefault(device, []).append(s)
        published: dict[int, int] = {}
        for device in seen:
            unit = inventory.devices[device].unit
            published[unit] = published.get(unit, 0) + 1
        self.groups: list[Group] = []
        self.of_site: list[list[Group]] = [[] for _ in inventory.sites]
        found: dict[tuple[object, ...], Group] = {}
        for i in sorted(seen):
            device = inventory.devices[i]
            kind, sites = inventory.kinds[device.kind], tuple(seen[i])
            alone = kind.shared or published[device.unit] > 1
            pool = device.pool if len(sites) > 1 else ""
            key = (device.kind, sites, device.counters, device.node, device.selector, pool, device.unit if alone else None)
            group = found.get(key)
            if group is None:
                row: Hashable = ("unit", device.unit) if alone else ("group", len(found))
                group = found[key] = Group(len(found), kind, pool, sites, device.counters, device.node, device.selector, row)
                self.groups.append(group)
                for s in sites:
                    self.of_site[s].append(group)
            group.units.append(device.unit)
        self._serving: dict[tuple[Wish, int], tuple[Group, ...]] = {}
        self._matching: dict[tuple[Wish, int], tuple[Group, ...]] = {}
        self._fits = cache(self._matches)

    def matching(self, wish: Wish, site: int) -> tuple[Group, ...]:
        """Return the groups at a site whose devices all selectors match, and that are large enough, whether or not they can be had."""
        key = (wish, site)
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = tuple(g for g in self.of_site[site] if self._fits(wish, g.kind.id))
        return found

    def serving(self, wish: Wish, site: int) -> tuple[Group, ...]:
        """Return the groups at a site whose devices serve a request as long as they are not allocated."""
        key = (wish, site)
        found = self._serving.get(key)
        if found is None:
            found = self._serving[key] = tuple(g for g in self.matching(wish, site) if g.kind.open_to(wish.tolerations))
        return found

    def _matches(self, wish: Wish, kind: int) -> bool:
        """A device on which an expression fails is of no use to anybody; that the failure may end a search depends on the order."""
        try:
            return self.inventory.kinds[kind].amounts(wish.capacity) is not None and self._table.matches(wish.selectors, kind)
        except CelError:
            return False


def groups_of(table: DeviceTable) -> DeviceGroups:
    """Return the groups of a table, which all its models share."""
    return table.cached("groups", lambda: DeviceGroups(table))


def wish(request: Request) -> Wish:
    """Return what a request asks of every single device."""
    return Wish(request.selectors, request.tolerations, request.capacity)
