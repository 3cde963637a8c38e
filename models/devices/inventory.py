"""The supply: the devices of complete pools, the nodes that each serves, and existing allocations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from kubestow.models.devices.demand import Toleration
from kubestow.models.kube import device_objects
from kubestow.models.kube.selectors import Bools

Ids = NDArray[np.int32]

#: (type, values) of an attribute: "int", "bool", "string" or "version" (compared as text). Lists have several
#: values.
Attribute = tuple[str, tuple[int | bool | str, ...]]


@dataclass(frozen=True, slots=True)
class Capacity:
    """One entry of a device's capacity, in the resource's own units.

    Attributes:
        default, minimum, maximum, step, values: The request policy; None or empty if it has none.
        parts: Denominator in which steps of a range are counted, 1 or 1000 (milli).
    """

    value: Fraction
    default: Fraction | None = None
    minimum: Fraction | None = None
    maximum: Fraction | None = None
    step: Fraction | None = None
    values: tuple[Fraction, ...] = ()
    parts: int = 1

    def amount(self, requested: Fraction | None) -> Fraction | None:
        """Return the amount that a request consumes, rounded up by the policy; None if the policy refuses it.

        Args:
            requested: None if the request names no amount.
        """
        amount = self._rounded(requested)
        if amount == self.default:
            return amount
        if (self.maximum is not None and amount > self.maximum) or (self.values and amount not in self.values):
            return None
        if (
            self.step is not None
            and self.minimum is not None
            and (self._count(amount) - self._count(self.minimum)) % self._count(self.step)
        ):
            return None
        return amount

    def _count(self, value: Fraction) -> int:
        return ceil(value * self.parts)

    def _rounded(self, requested: Fraction | None) -> Fraction:
        if requested is None:
            return self.value if self.default is None else self.default
        if self.minimum is not None:
            if requested < self.minimum or self.step is None:
                return max(requested, self.minimum)
            least, step = self._count(self.minimum), self._count(self.step)
            return Fraction(least + -((least - self._count(requested)) // step) * step, self.parts)
        return next((value for value in self.values if value >= requested), requested)


@dataclass(frozen=True, eq=False, slots=True)
class DeviceKind:
    """Devices that no request of the instance distinguishes, except for counters and existing allocations.

    Attributes:
        example: One of its devices as published, on which selectors are evaluated.
        attributes: The attributes that constraints read, by full name (``domain/name``).
        capacity: The capacities by name, as in the slice.
        taints: Blocking taints: (key, value, effect).
        shared: True if devices may be allocated several times.
        usable: False if a disabled feature gate makes the devices unusable.
    """

    id: int
    driver: str
    example: device_objects.Device
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, Capacity]
    taints: tuple[tuple[str, str, str], ...] = ()
    shared: bool = False
    usable: bool = True

    def open_to(self, tolerations: Iterable[Toleration]) -> bool:
        """Return True if no feature gate and no taint keeps a request with these tolerations from the kind's devices."""
        return self.usable and all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in self.taints)

    def amounts(self, requested: Iterable[tuple[str, Fraction]]) -> tuple[tuple[str, Fraction], ...] | None:
        """Return the amounts that a request consumes of each capacity of a device, by name.

        None if the device lacks a capacity, has too little, or refuses the amount.
        """
        wanted = dict(requested)
        if not wanted.keys() <= self.capacity.keys():
            return None
        found = []
        for name, entry in sorted(self.capacity.items()):
            amount = entry.amount(wanted.get(name))
            if amount is None or amount > entry.value:
                return None
            found.append((name, amount))
        return tuple(found)


def _tolerates(toleration: Toleration, taint: tuple[str, str, str]) -> bool:
    key, operator, value, effect = toleration
    if effect not in ("", taint[2]) or key not in ("", taint[0]):
        return False
    return operator == "Exists" or (operator == "Equal" and value == taint[1])


@dataclass(frozen=True, eq=False, slots=True)
class InventoryDevice:
    """One device of a pool.

    Attributes:
        id: Index in ``Inventory.devices``.
        unit: The unit of allocation. Devices of one driver, pool and name are one unit, even if slices for
            different nodes publish it twice.
        kind: Index in ``Inventory.kinds``.
        counters: Consumption: (index in ``Inventory.counters``, amount).
        node: True if an allocation is tied to the node where it is made.
        selector: Otherwise, index in ``Inventory.selectors`` of the allowed nodes; None: all.
    """

    id: int
    unit: int
    kind: int
    driver: str
    pool: str
    name: str
    counters: tuple[tuple[int, Fraction], ...] = ()
    node: bool = True
    selector: int | None = None


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """The view that some nodes have of one pool.

    Attributes:
        ids: Ids of devices, in the allocator's order.
        elsewhere: Ids of devices that serve other nodes only. The allocator visits them but never takes them.
        broken: Reason why a request for all devices is an error; None if it is none.
        counters: Ids of all counters of the pool.
    """

    ids: Ids
    elsewhere: frozenset[int] = frozenset()
    broken: str | None = None
    counters: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Site:
    """The views that some nodes have of all pools.

    Attributes:
        views: Indices in ``Inventory.views``, in the allocator's order.
        visible: Ids of all their devices, including those that serve other nodes.
    """

    views: tuple[int, ...]
    visible: Ids


@dataclass
class DeviceBooks:
    """The existing allocations.

    Attributes:
        in_use: Units allocated as a whole, bool[units].
        shares: Number of shares per unit, int32[units].
        consumed: (unit, capacity) -> amount that shares consume.
        left: Remaining amount per counter, which may be negative.
    """

    in_use: Bools
    shares: Ids
    left: list[Fraction]
    consumed: dict[tuple[int, str], Fraction] = field(default_factory=dict)

    def copy(self) -> DeviceBooks:
        return DeviceBooks(self.in_use.copy(), self.shares.copy(), list(self.left), dict(self.consumed))


@dataclass
class Inventory:
    """Every device of the snapshot that some node can see.

    Attributes:
        site_of: Index in ``sites`` of each node, int32[N].
        units: (driver, pool, name) -> unit.
        counters: Totals.
        consumption: Unit -> counters that it consumes while any part is allocated.
        selectors: Masks of nodes that devices refer to, bool[N].
        books: Allocations of the snapshot's claims; copy them before changing them.
    """

    devices: list[InventoryDevice] = field(default_factory=list)
    kinds: list[DeviceKind] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    site_of: Ids = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    units: dict[tuple[str, str, str], int] = field(default_factory=dict)
    counters: list[Fraction] = field(default_factory=list)
    consumption: dict[int, tuple[tuple[int, Fraction], ...]] = field(default_factory=dict)
    selectors: list[Bools] = field(default_factory=list)
    books: DeviceBooks = field(default_factory=lambda: DeviceBooks(np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int32), []))

    def site(self, n: int) -> Site:
        return self.sites[int(self.site_of[n])]

    def visible(self, n: int) -> Ids:
        """Return the ids of the devices that pods on node n may get, in the order of the search."""
        return self.serving(self.site(n))

    def serving(self, site: Site) -> Ids:
        """Return the ids of the devices that pods on the nodes of a site may get, in the order of the search."""
        barred = {i for v in site.views for i in self.views[v].elsewhere}
        return np.array([i for i in site.visible.tolist() if i not in barred], dtype=np.int32) if barred else site.visible

    def broken(self, site: Site) -> str | None:
        """Return the reason why a request for all devices is an error at a site; None if it is none."""
        return next((self.views[v].broken for v in site.views if self.views[v].broken is not None), None)

    def usable(self, picks: Iterable[Pick], n: int) -> Bools | None:
        """Return the nodes where devices that were allocated on node n can be used, bool[N]; None: all."""
        devices = [self.devices[pick.device] for pick in picks]
        if any(device.node for device in devices):
            return np.asarray(np.arange(len(self.site_of)) == n)
        masks = [self.selectors[device.selector] for device in devices if device.selector is not None]
        return np.asarray(np.logical_and.reduce(masks), dtype=bool) if masks else None

    def kind(self, device: int) -> DeviceKind:
        return self.kinds[self.devices[device].kind]

    def book(self, books: DeviceBooks, picks: Iterable[Pick], times: int = 1) -> None:
        """Add allocated devices to the books; with ``times`` -1, remove them. Admin access is not booked."""
        for pick in picks:
            if not pick.admin:
                self.book_unit(books, self.devices[pick.device].unit, pick.consumed if pick.share else None, times)

    def book_unit(self, books: DeviceBooks, unit: int, share: Iterable[tuple[str, Fraction]] | None, times: int = 1) -> None:
        """Add a unit as a whole, or the amounts that a ``share`` consumes; with ``times`` -1, remove it."""
        before = bool(books.in_use[unit] or books.shares[unit])
        if share is None:
            books.in_use[unit] = times > 0
        else:
            books.shares[unit] += times
            for name, amount in share:
                consumed = books.consumed.pop((unit, name), Fraction(0)) + times * amount
                if books.shares[unit]:
                    books.consumed[unit, name] = consumed
        if before != bool(books.in_use[unit] or books.shares[unit]):
            for counter, amount in self.consumption.get(unit, ()):
                books.left[counter] -= times * amount


@dataclass(frozen=True, slots=True)
class Pick:
    """A device that a request gets.

    Attributes:
        claim: Index among the requested claims.
        request: Name of the request.
        share: True if the device is shared.
        consumed: Amounts that a share consumes, by name of the capacity.
    """

    claim: int
    request: str
    device: int
    admin: bool = False
    share: bool = False
    consumed: tuple[tuple[str, Fraction], ...] = ()
