"""What there is: the devices of complete pools, which nodes each serves, and what of them is allocated."""

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

#: (type, values) of an attribute: "int", "bool", "string" or "version"; versions compare as text. One value, but for lists.
Attribute = tuple[str, tuple[int | bool | str, ...]]


@dataclass(frozen=True, slots=True)
class Capacity:
    """One entry of a device's capacity, in the resource's own units. ``default``, ``least``, ``most``, ``step``, ``values``: the request
    policy, None or empty where it has none. ``parts``: steps of a range are counted in that part of a unit, 1 or 1000 (milli)."""

    value: Fraction
    default: Fraction | None = None
    least: Fraction | None = None
    most: Fraction | None = None
    step: Fraction | None = None
    values: tuple[Fraction, ...] = ()
    parts: int = 1

    def amount(self, requested: Fraction | None) -> Fraction | None:
        """Return what a request takes of it, rounded up as the policy says, or None where the policy refuses that. ``requested``: None if
        it names no amount."""
        amount = self._rounded(requested)
        if amount == self.default:
            return amount
        if (self.most is not None and amount > self.most) or (self.values and amount not in self.values):
            return None
        if self.step is not None and self.least is not None and (self._count(amount) - self._count(self.least)) % self._count(self.step):
            return None
        return amount

    def _count(self, value: Fraction) -> int:
        return ceil(value * self.parts)

    def _rounded(self, requested: Fraction | None) -> Fraction:
        if requested is None:
            return self.value if self.default is None else self.default
        if self.least is not None:
            if requested < self.least or self.step is None:
                return max(requested, self.least)
            least, step = self._count(self.least), self._count(self.step)
            return Fraction(least + -((least - self._count(requested)) // step) * step, self.parts)
        return next((value for value in self.values if value >= requested), requested)


@dataclass(frozen=True, eq=False, slots=True)
class Kind:
    """Devices that no request of the instance can tell apart, but for counters and for what is allocated of them.

    ``attributes``: those that constraints read, by full name (``domain/name``). ``capacity``: by name as the slice writes it. ``taints``:
    those that block, (key, value, effect). ``shared``: may be allocated several times. ``example``: one of its devices as published, which
    selectors are evaluated on. ``usable``: False where a feature gate that is off keeps it from everybody.
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
        """Return whether no feature gate and no taint keeps a request with these tolerations from devices of the kind."""
        return self.usable and all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in self.taints)

    def amounts(self, requested: Iterable[tuple[str, Fraction]]) -> tuple[tuple[str, Fraction], ...] | None:
        """Return what a request for these amounts takes of each capacity of a device, by name; None where the device lacks one, has too
        little, or refuses the amount."""
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
class Device:
    """One device of a pool. ``id``: its position in ``Inventory.devices``. ``unit``: what is allocated; devices of the same driver, pool
    and name are one unit, though slices for different nodes may publish it twice. ``kind``: position in ``Inventory.kinds``. ``counters``:
    what it consumes, (position in ``Inventory.counters``, amount). ``node``: an allocation of it is tied to the node where it is made; else
    to those that ``selector`` (position in ``Inventory.selectors``, None for all nodes) matches."""

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
    """What some nodes see of one pool. ``ids``: of devices, in the order in which the allocator looks at them. ``elsewhere``: those of them
    that serve other nodes only (they are looked at, and never taken). ``broken``: why a request for all devices is an error, None if it is
    not. ``counters``: ids of all counters of the pool."""

    ids: Ids
    elsewhere: frozenset[int] = frozenset()
    broken: str | None = None
    counters: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Site:
    """What some nodes see: views (positions in ``Inventory.views``) in the order in which the allocator looks at them. ``visible``: the ids
    of all their devices, those that serve other nodes included."""

    views: tuple[int, ...]
    visible: Ids


@dataclass
class Books:
    """What is allocated. ``in_use``: bool[units], allocated as a whole. ``shares``: int32[units], number of shares. ``consumed``: (unit,
    capacity) -> what shares take of it. ``left``: per counter what is left of it, which may be negative."""

    in_use: Bools
    shares: Ids
    left: list[Fraction]
    consumed: dict[tuple[int, str], Fraction] = field(default_factory=dict)

    def copy(self) -> Books:
        return Books(self.in_use.copy(), self.shares.copy(), list(self.left), dict(self.consumed))


@dataclass
class Inventory:
    """Every device of the snapshot that some node can see.

    ``site_of``: int32[N], per node its position in ``sites``. ``units``: (driver, pool, name) -> unit. ``counters``: totals.
    ``consumption``: unit -> what it takes of counters as long as any of it is allocated. ``selectors``: masks of nodes, bool[N], that
    devices refer to. ``books``: what the claims of the snapshot have allocated (copy them to change them).
    """

    devices: list[Device] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    site_of: Ids = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    units: dict[tuple[str, str, str], int] = field(default_factory=dict)
    counters: list[Fraction] = field(default_factory=list)
    consumption: dict[int, tuple[tuple[int, Fraction], ...]] = field(default_factory=dict)
    selectors: list[Bools] = field(default_factory=list)
    books: Books = field(default_factory=lambda: Books(np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int32), []))

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
        """Return why a request for all devices is an error at a site, None if it is not."""
        return next((self.views[v].broken for v in site.views if self.views[v].broken is not None), None)

    def usable(self, picks: Iterable[Pick], n: int) -> Bools | None:
        """bool[N]: where devices that were allocated on node n can be used; None for everywhere."""
        devices = [self.devices[pick.device] for pick in picks]
        if any(device.node for device in devices):
            return np.asarray(np.arange(len(self.site_of)) == n)
        masks = [self.selectors[device.selector] for device in devices if device.selector is not None]
        return np.asarray(np.logical_and.reduce(masks), dtype=bool) if masks else None

    def kind(self, device: int) -> Kind:
        return self.kinds[self.devices[device].kind]

    def book(self, books: Books, picks: Iterable[Pick], times: int = 1) -> None:
        """Add allocated devices to the books, or with ``times`` -1 take them out again. Admin access is not booked."""
        for pick in picks:
            if not pick.admin:
                self.book_unit(books, self.devices[pick.device].unit, pick.consumed if pick.share else None, times)

    def book_unit(self, books: Books, unit: int, share: Iterable[tuple[str, Fraction]] | None, times: int = 1) -> None:
        """Add a unit, as a whole or what a ``share`` consumes of it, or with ``times`` -1 take it out again."""
        before = bool(books.in_use[unit] or books.shares[unit])
        if share is None:
            books.in_use[unit] = times > 0
        else:
            books.shares[unit] += times
            for name, amount in share:
                taken = books.consumed.pop((unit, name), Fraction(0)) + times * amount
                if books.shares[unit]:
                    books.consumed[unit, name] = taken
        if before != bool(books.in_use[unit] or books.shares[unit]):
            for counter, amount in self.consumption.get(unit, ()):
                books.left[counter] -= times * amount


@dataclass(frozen=True, slots=True)
class Pick:
    """A device that a request gets. ``claim``: position among the claims that were asked for. ``request``: its name. ``share``: the device
    is shared, and the request takes ``consumed`` of it, by name of the capacity."""

    claim: int
    request: str
    device: int
    admin: bool = False
    share: bool = False
    consumed: tuple[tuple[str, Fraction], ...] = ()
