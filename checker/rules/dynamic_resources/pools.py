"""The device pools visible to each node, in the allocator's search order.

Source: staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go and
resourceslice/tracker (v1.36.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Final

from kubestow.checker.reading import matching
from kubestow.checker.rules.dynamic_resources.allocations import Allocations, CounterKey, CounterLedger, DeviceId, Need
from kubestow.checker.rules.dynamic_resources.capacity import CapacityEntry, entry
from kubestow.models.kube import device_objects as api
from kubestow.models.kube import objects, quantity
from kubestow.models.kube.feature_gates import FeatureGates

#: Names of behaviour changes in :mod:`kubestow.models.kube.feature_gates`.
_INCOMPLETE: Final = "incomplete pools yield no devices"
_RULE_GATE: Final = "taint rules have a gate of their own"


class DeviceError(Exception):
    """An error that ends the allocator's search, in one line."""


@dataclass(eq=False)
class Published:
    """A device of a slice, with the taints that rules add.

    Attributes:
        id: Driver, pool and name.
        device: The raw device.
        spec: Spec of its slice.
        shared: True if it allows multiple allocations.
        taints: Its own taints and those of DeviceTaintRules.
        fractions: True if ranges of its capacity may count in thousandths.
    """

    id: DeviceId
    device: api.Device
    spec: api.ResourceSliceSpec
    shared: bool
    taints: Sequence[api.DeviceTaint]
    fractions: bool

    @cached_property
    def capacity(self) -> Mapping[str, CapacityEntry]:
        """The parsed capacities of the device, by name."""
        return {name: entry(raw, self.fractions) for name, raw in (self.device.capacity or {}).items()}

    @cached_property
    def needs(self) -> list[Need]:
        """The counters that the device consumes."""
        return [
            ((consumption.counterSet, name), quantity.parse(counter.value))
            for consumption in self.device.consumesCounters or ()
            for name, counter in (consumption.counters or {}).items()
        ]

    def __str__(self) -> str:
        return "/".join(self.id)


@dataclass(eq=False)
class DevicePool:
    """A pool as one node sees it.

    Attributes:
        driver: The driver.
        name: Name of the pool.
        devices: Devices of the pool.
        ledger: Its counters, or None.
        flaw: Why requests for all devices fail because of the pool, or None.
        usable: True if its devices can be allocated.
    """

    driver: str
    name: str
    devices: list[Published] = field(default_factory=list)
    ledger: CounterLedger | None = None
    flaw: str | None = None
    usable: bool = True

    @property
    def is_last(self) -> bool:
        """True if the pool sorts after all pools without binding conditions."""
        return any(each.device.bindingConditions is not None for each in self.devices)


def node_matches(node: objects.Node, name: str | None, everywhere: bool | None, selector: objects.NodeSelector | None) -> bool:
    """Return True if devices with this node name, for all nodes, or with this selector are available to the node.

    Raises:
        DeviceError: the selector cannot be parsed.
    """
    if name:
        return node.metadata.name == name
    return bool(everywhere) or (selector is not None and selector_holds(selector, node))


def selector_holds(selector: objects.NodeSelector, node: objects.Node) -> bool:
    """Return True if a node selector matches the node.

    Raises:
        DeviceError: the selector cannot be parsed.
    """
    if not matching.is_node_selector(selector):
        raise DeviceError("a nodeSelector cannot be parsed")
    return matching.node_selector_holds(selector, node.metadata.labels or {}, node.metadata.name or "")


class DevicePools:
    """The pools of every node.

    Args:
        slices: All ResourceSlices.
        rules: All DeviceTaintRules.
        gates: The feature gates.
        books: The allocated devices.
    """

    def __init__(
        self, slices: Iterable[api.ResourceSlice], rules: Iterable[api.DeviceTaintRule], gates: FeatureGates, books: Allocations
    ) -> None:
        self._gates, self._books = gates, books
        self._partitions = gates.enabled("DRAPartitionableDevices")
        tainted = gates.enabled("DRADeviceTaints")
        self._tainted = tainted
        self._rules = list(rules) if tainted and (gates.enabled("DRADeviceTaintRules") or not gates.has(_RULE_GATE)) else []
        self._local: dict[str, list[api.ResourceSlice]] = {}
        self._wide: list[api.ResourceSlice] = []
        self._all: dict[tuple[str, str], list[api.ResourceSlice]] = {}
        for each in slices:
            spec = each.spec
            self._all.setdefault((spec.driver, spec.pool.name), []).append(each)
            if self._partitions or (spec.perDeviceNodeSelection is None and not spec.sharedCounters):
                local = spec.nodeName and not spec.sharedCounters
                (self._local.setdefault(spec.nodeName or "", []) if local else self._wide).append(each)
        self._published: dict[int, list[Published]] = {}
        self._ledgers: dict[tuple[object, ...], CounterLedger | str | None] = {}
        self._seen: dict[str, list[DevicePool] | DeviceError] = {}

    def of(self, node: objects.Node) -> list[DevicePool]:
        """Return the pools of a node in search order.

        Raises:
            DeviceError: a slice cannot be judged.
        """
        name = node.metadata.name or ""
        if name not in self._seen:
            try:
                self._seen[name] = self._gather(node)
            except DeviceError as error:
                self._seen[name] = error
        found = self._seen[name]
        if isinstance(found, DeviceError):
            raise found
        return found

    def _gather(self, node: objects.Node) -> list[DevicePool]:
        relevant: dict[tuple[str, str], list[api.ResourceSlice]] = {}
        for each in (*self._local.get(node.metadata.name or "", ()), *self._wide):
            if not self._is_relevant(each.spec, node):
                continue
            listed = relevant.setdefault((each.spec.driver, each.spec.pool.name), [])
            if listed and each.spec.pool.generation > listed[0].spec.pool.generation:
                listed.clear()
            if not listed or each.spec.pool.generation == listed[0].spec.pool.generation:
                listed.append(each)
        pools = [pool for key, listed in relevant.items() if (pool := self._pool(key, listed)) is not None]
        return sorted(pools, key=lambda pool: (pool.is_last, pool.driver, pool.name))

    def _is_relevant(self, spec: api.ResourceSliceSpec, node: objects.Node) -> bool:
        if spec.sharedCounters:
            return True
        if spec.nodeName or spec.allNodes or spec.nodeSelector is not None:
            return node_matches(node, spec.nodeName, spec.allNodes, spec.nodeSelector)
        among = spec.devices or () if spec.perDeviceNodeSelection else ()
        return any(node_matches(node, each.nodeName, each.allNodes, each.nodeSelector) for each in among)

    def _pool(self, key: tuple[str, str], listed: list[api.ResourceSlice]) -> DevicePool | None:
        pool, first = DevicePool(*key), listed[0].spec.pool
        others: list[api.ResourceSlice] | None = None
        if len(listed) != first.resourceSliceCount:
            everywhere = self._all[key]
            if any(each.spec.pool.generation > first.generation for each in everywhere):
                return None
            others = [each for each in everywhere if each.spec.pool.generation == first.generation]
            if len(others) != first.resourceSliceCount:
                pool.flaw = f"pool {key[0]}/{key[1]} is incomplete: {len(others)} of {first.resourceSliceCount} slices"
                pool.usable = not self._gates.has(_INCOMPLETE)
                if not pool.usable:
                    return pool
        slices = sorted(listed, key=lambda each: each.metadata.name or "")
        with_devices = [each for each in slices if not (self._partitions and each.spec.sharedCounters)]
        pool.devices = [each for one in with_devices for each in self._devices(one)]
        why = _duplicate(pool.devices)
        if why is None and self._partitions:
            found = self._ledger(key, slices, others)
            pool.ledger, why = (None, found) if isinstance(found, str) else (found, None)
        if why is not None:
            return DevicePool(*key, flaw=f"pool {key[0]}/{key[1]} is invalid: {why}", usable=False)
        return pool

    def _devices(self, each: api.ResourceSlice) -> list[Published]:
        if id(each) not in self._published:
            sharing, fractions = self._gates.enabled("DRAConsumableCapacity"), self._gates.enabled("DRAFractionalCapacityRange")
            spec = each.spec
            self._published[id(each)] = [
                Published(
                    (spec.driver, spec.pool.name, device.name), device, spec, sharing and bool(device.allowMultipleAllocations),
                    self._taints(spec, device) if self._tainted else (), fractions,
                )
                for device in spec.devices or ()
            ]  # fmt: skip
        return self._published[id(each)]

    def _taints(self, spec: api.ResourceSliceSpec, device: api.Device) -> Sequence[api.DeviceTaint]:
        found = list(device.taints or ())
        for rule in self._rules:
            chosen = rule.spec.deviceSelector or api.DeviceTaintSelector()
            pairs = ((chosen.driver, spec.driver), (chosen.pool, spec.pool.name), (chosen.device, device.name))
            if all(wanted is None or wanted == got for wanted, got in pairs):
                found.append(rule.spec.taint)
        return found

    def _ledger(
        self, key: tuple[str, str], slices: Sequence[api.ResourceSlice], others: Sequence[api.ResourceSlice] | None
    ) -> CounterLedger | str | None:
        """Return the counters of a pool, None if no device consumes any, or an error text."""
        among = slices if others is None else others
        memo = (*key, slices[0].spec.pool.generation, *([each.metadata.name for each in slices] if others is None else ()))
        if memo not in self._ledgers:
            found = self._read(slices, among)
            if isinstance(found, CounterLedger):
                self._books.open(*key, found)
            self._ledgers[memo] = found
        return self._ledgers[memo]

    def _read(self, slices: Sequence[api.ResourceSlice], among: Sequence[api.ResourceSlice]) -> CounterLedger | str | None:
        total: dict[CounterKey, Fraction] = {}
        sets: set[str] = set()
        for one in (each for spec in slices for each in spec.spec.sharedCounters or ()):
            if one.name in sets:
                return f"two counter sets {one.name}"
            sets.add(one.name)
            total |= {(one.name, name): quantity.parse(counter.value) for name, counter in (one.counters or {}).items()}
        needs: dict[DeviceId, list[Need]] = {}
        for each in (published for one in among for published in self._devices(one)):
            for consumption in each.device.consumesCounters or ():
                if consumption.counterSet not in sets:
                    return f"device {each.device.name} names counter set {consumption.counterSet}, which it lacks"
                for name in consumption.counters or ():
                    if (consumption.counterSet, name) not in total:
                        return f"device {each.device.name} names counter {name}, which set {consumption.counterSet} lacks"
            if each.needs:
                needs.setdefault(each.id, []).extend(each.needs)
        return CounterLedger(total, needs) if needs else None


def _duplicate(devices: Sequence[Published]) -> str | None:
    names: set[str] = set()
    for each in devices:
        if each.device.name in names:
            return f"two devices {each.device.name}"
        names.add(each.device.name)
    return None
