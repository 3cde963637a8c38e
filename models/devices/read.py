"""The inventory of a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction

import numpy as np

from kubestow.models.devices.inventory import DeviceBooks, Inventory, InventoryDevice, Site, View
from kubestow.models.devices.kinds import KindTable
from kubestow.models.devices.pools import DevicePool, PoolView
from kubestow.models.devices.selecting import Read
from kubestow.models.kube import device_objects, quantity
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import NodeSelector
from kubestow.models.kube.selectors import NodeColumns
from kubestow.models.snapshot.snapshot import Snapshot


def inventory(
    snapshot: Snapshot,
    nodes: NodeColumns,
    *,
    reads: Collection[Read] | None = None,
    constrained: Collection[str] = (),
    released: Collection[str] = (),
) -> Inventory:
    """Return every device that some node can see.

    Args:
        reads: Attributes that selectors read; None: all.
        constrained: Full names of attributes that constraints read.
        released: ``namespace/name`` of claims whose allocation does not count.
    """
    return _InventoryReader(snapshot, nodes, reads, constrained).read(released)


def visible_devices(snapshot: Snapshot) -> Inventory:
    """Return every device that some node of a snapshot can see."""
    return inventory(snapshot, NodeColumns(snapshot.nodes))


class _InventoryReader:
    def __init__(self, snapshot: Snapshot, nodes: NodeColumns, reads: Collection[Read] | None, constrained: Collection[str]) -> None:
        self.snapshot, self.nodes, self.gates = snapshot, nodes, snapshot.gates
        self.kinds = KindTable(snapshot.gates, snapshot.device_taint_rules, reads, constrained)
        self.inventory = Inventory(kinds=self.kinds.kinds)
        self._made: dict[tuple[tuple[int, ...], int], dict[int, int]] = {}
        self._counters: dict[tuple[int, ...], dict[tuple[str, str], int]] = {}
        self._selectors: dict[int, int] = {}

    def read(self, released: Collection[str]) -> Inventory:
        index = {name: n for n, name in enumerate(self.nodes.names)}
        groups: dict[tuple[str, str], list[device_objects.ResourceSlice]] = {}
        for each in self.snapshot.resource_slices.values():
            groups.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
        seen: list[list[int]] = [[] for _ in self.nodes.names]
        views: list[tuple[tuple[bool, str, str], View, PoolView]] = []
        for (driver, name), slices in groups.items():
            pool = DevicePool(driver, name, slices, self.nodes, self.gates)
            self._made, self._counters = {}, {}
            views += [((view.last, driver, name), self._view(pool, view), view) for view in pool.views(index)]
        views.sort(key=lambda item: item[0])
        for v, (_, view, source) in enumerate(views):
            self.inventory.views.append(view)
            for n in source.nodes:
                seen[n].append(v)
        self._sites(seen)
        self._books(released)
        return self.inventory

    def _sites(self, seen: list[list[int]]) -> None:
        places: dict[tuple[int, ...], int] = {}
        inventory, views = self.inventory, self.inventory.views
        for listed in seen:
            key = tuple(listed)
            if key not in places:
                places[key] = len(inventory.sites)
                ids = [views[v].ids for v in key]
                inventory.sites.append(Site(key, ids[0] if len(ids) == 1 else np.concatenate([np.zeros(0, dtype=np.int32), *ids])))
        inventory.site_of = np.array([places[tuple(listed)] for listed in seen], dtype=np.int32)

    def _view(self, pool: DevicePool, view: PoolView) -> View:
        ids: list[int] = []
        elsewhere: set[int] = set()
        counters = self._counters_of(pool, view.considered)
        for k in view.slices:
            made = self._devices(pool, view.considered, k)
            ids += made.values()
            if pool.slices[k].spec.perDeviceNodeSelection:
                elsewhere.update(i for d, i in made.items() if (k, d) not in view.serving)
        return View(np.array(ids, dtype=np.int32), frozenset(elsewhere), view.broken, tuple(counters.values()))

    def _counters_of(self, pool: DevicePool, considered: tuple[int, ...]) -> dict[tuple[str, str], int]:
        """Return the counters of a pool by (set, name), as published by these slices, and record the devices' consumption."""
        known = self._counters.get(considered)
        if known is not None:
            return known
        known = self._counters[considered] = {}
        for each in pool.counter_sets(considered):
            for name, counter in (each.counters or {}).items():
                known[each.name, name] = len(self.inventory.counters)
                self.inventory.counters.append(quantity.parse(counter.value))
        if known:
            for k in considered:
                for device in pool.slices[k].spec.devices or ():
                    if device.consumesCounters:
                        unit = self._unit(pool, device)
                        more = self._consumed(device, known)
                        self.inventory.consumption[unit] = (*self.inventory.consumption.get(unit, ()), *more)
        return known

    def _consumed(self, device: device_objects.Device, known: Mapping[tuple[str, str], int]) -> tuple[tuple[int, Fraction], ...]:
        found: dict[int, Fraction] = {}
        for used in device.consumesCounters or ():
            for name, counter in (used.counters or {}).items():
                at = known.get((used.counterSet, name))
                if at is not None:
                    found[at] = found.get(at, Fraction(0)) + quantity.parse(counter.value)
        return tuple(found.items())

    def _unit(self, pool: DevicePool, device: device_objects.Device) -> int:
        return self.inventory.units.setdefault((pool.driver, pool.name, device.name), len(self.inventory.units))

    def _devices(self, pool: DevicePool, considered: tuple[int, ...], k: int) -> dict[int, int]:
        """Return the ids of a slice's devices by index, except for devices that no request can get."""
        made = self._made.get((considered, k))
        if made is None:
            made = self._made[considered, k] = {}
            devices, spec = self.inventory.devices, pool.slices[k].spec
            counters = self._counters[considered]
            conditions = self.gates.enabled("DRADeviceBindingConditions") and self.gates.enabled("DRAResourceClaimDeviceStatus")
            for d, device in enumerate(spec.devices or ()):
                if device.bindingConditions and not conditions:
                    continue
                chooser = device if spec.perDeviceNodeSelection else spec
                made[d] = len(devices)
                devices.append(
                    InventoryDevice(
                        len(devices),
                        self._unit(pool, device),
                        self.kinds.of(pool.driver, pool.name, device),
                        pool.driver,
                        pool.name,
                        device.name,
                        self._consumed(device, counters) if device.consumesCounters else (),
                        bool(chooser.nodeName or device.bindsToNode),
                        None if chooser.nodeSelector is None else self._selector(chooser.nodeSelector),
                    )
                )
        return made

    def _selector(self, selector: NodeSelector) -> int:
        number = self._selectors.get(id(selector))
        if number is None:
            number = self._selectors[id(selector)] = len(self.inventory.selectors)
            self.inventory.selectors.append(self.nodes.selector(selector))
        return number

    def _books(self, released: Collection[str]) -> None:
        inventory = self.inventory
        size = len(inventory.units)
        inventory.books = DeviceBooks(np.zeros(size, dtype=bool), np.zeros(size, dtype=np.int32), list(inventory.counters))
        for key, claim in self.snapshot.resource_claims.items():
            if key not in released:
                for unit, share in allocated(inventory, claim, self.gates):
                    inventory.book_unit(inventory.books, unit, share)


def allocated(
    inventory: Inventory, claim: device_objects.ResourceClaim, gates: FeatureGates
) -> Iterable[tuple[int, tuple[tuple[str, Fraction], ...] | None]]:
    """Yield the allocations of a claim in published units, without admin access: (unit, consumed amounts; None: whole)."""
    status = claim.status.allocation if claim.status is not None else None
    for result in (status.devices.results if status is not None and status.devices is not None else None) or ():
        unit = inventory.units.get((result.driver, result.pool, result.device))
        if unit is None or result.adminAccess:
            continue
        if result.shareID is not None and gates.enabled("DRAConsumableCapacity"):
            yield unit, tuple((name, quantity.parse(raw)) for name, raw in (result.consumedCapacity or {}).items())
        else:
            yield unit, None
