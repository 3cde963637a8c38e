"""Groups of indistinguishable devices: equal for every request of the instance, in visibility and in consumption.

A shared device is a group of its own, because its shares are counted separately. So is a device that several
slices publish.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

import numpy as np

from kubestow.models.cel.selectors import CelError
from kubestow.models.devices.demand import DemandedRequest, Toleration
from kubestow.models.devices.inventory import DeviceBooks, DeviceKind
from kubestow.models.devices.table import DeviceTable


@dataclass(frozen=True, slots=True)
class Wish:
    """The requirements of a request on every single device."""

    selectors: tuple[str, ...]
    tolerations: tuple[Toleration, ...]
    capacity: tuple[tuple[str, Fraction], ...]


@dataclass(eq=False, slots=True)
class DeviceGroup:
    """A group of devices.

    Attributes:
        sites: Positions in ``Inventory.sites`` of the sites that see the devices.
        pool: Name of the pool if several sites see it; empty otherwise.
        counters: Counters that each device consumes, with amounts.
        node: True if an allocation serves only its node, see
            :class:`kubestow.models.devices.inventory.InventoryDevice`.
        selector: The selector of nodes that an allocation serves, see the same class.
        row: Key under which the room is counted; equal for groups of one device that several slices publish.
        units: The devices, as the books name them.
    """

    id: int
    kind: DeviceKind
    pool: str
    sites: tuple[int, ...]
    counters: tuple[tuple[int, Fraction], ...]
    node: bool
    selector: int | None
    row: Hashable
    units: list[int] = field(default_factory=list)

    def free(self, books: DeviceBooks) -> int:
        """Return the number of devices that are not allocated as a whole."""
        return len(self.units) - int(np.count_nonzero(books.in_use[self.units]))


class DeviceGroups:
    """The devices of a cluster in groups.

    Attributes:
        of_site: By site, the groups that it sees.
    """

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
        self.groups: list[DeviceGroup] = []
        self.of_site: list[list[DeviceGroup]] = [[] for _ in inventory.sites]
        by_key: dict[tuple[object, ...], DeviceGroup] = {}
        for i in sorted(seen):
            device = inventory.devices[i]
            kind, sites = inventory.kinds[device.kind], tuple(seen[i])
            alone = kind.shared or published[device.unit] > 1
            pool = device.pool if len(sites) > 1 else ""
            key = (device.kind, sites, device.counters, device.node, device.selector, pool, device.unit if alone else None)
            group = by_key.get(key)
            if group is None:
                row: Hashable = ("unit", device.unit) if alone else ("group", len(by_key))
                group = by_key[key] = DeviceGroup(len(by_key), kind, pool, sites, device.counters, device.node, device.selector, row)
                self.groups.append(group)
                for s in sites:
                    self.of_site[s].append(group)
            group.units.append(device.unit)
        self._serving: dict[tuple[Wish, int], tuple[DeviceGroup, ...]] = {}
        self._matching: dict[tuple[Wish, int], tuple[DeviceGroup, ...]] = {}
        self._fits = cache(self._matches)

    def matching(self, wish: Wish, site: int) -> tuple[DeviceGroup, ...]:
        """Return the groups at a site that all selectors match and that are large enough, available or not."""
        key = (wish, site)
        groups = self._matching.get(key)
        if groups is None:
            groups = self._matching[key] = tuple(g for g in self.of_site[site] if self._fits(wish, g.kind.id))
        return groups

    def serving(self, wish: Wish, site: int) -> tuple[DeviceGroup, ...]:
        """Return the groups at a site whose devices serve a request when they are not allocated."""
        key = (wish, site)
        groups = self._serving.get(key)
        if groups is None:
            groups = self._serving[key] = tuple(g for g in self.matching(wish, site) if g.kind.open_to(wish.tolerations))
        return groups

    def _matches(self, wish: Wish, kind: int) -> bool:
        """Return True if devices of a kind match.

        A device on which an expression fails serves nobody. The order determines if the failure ends a search.
        """
        try:
            return self.inventory.kinds[kind].amounts(wish.capacity) is not None and self._table.matches(wish.selectors, kind)
        except CelError:
            return False


def groups_of(table: DeviceTable) -> DeviceGroups:
    """Return the groups of a table, which all its models share."""
    return table.cached("groups", lambda: DeviceGroups(table))


def wish(request: DemandedRequest) -> Wish:
    """Return the requirements of a request on every single device."""
    return Wish(request.selectors, request.tolerations, request.capacity)
