"""The grouping of devices that no request of an instance distinguishes into kinds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from kubestow.models.devices.inventory import Attribute, Capacity, DeviceKind
from kubestow.models.devices.selecting import Read
from kubestow.models.kube import device_objects, quantity
from kubestow.models.kube.feature_gates import FeatureGates

_encoder = msgspec.json.Encoder(order="deterministic")
_BLOCKING: Final = frozenset(("NoSchedule", "NoExecute"))
_TYPES: Final = ("int", "bool", "string", "version")


class KindTable:
    """The kinds of an instance.

    Args:
        reads: Attributes that selectors read; None: all.
        constrained: Full names of attributes that constraints read.
    """

    def __init__(
        self,
        gates: FeatureGates,
        rules: Mapping[str, device_objects.DeviceTaintRule],
        reads: Collection[Read] | None,
        constrained: Collection[str],
    ) -> None:
        self.kinds: list[DeviceKind] = []
        self._found: dict[bytes, int] = {}
        self._taints = gates.enabled("DRADeviceTaints")
        self._rules = [r.spec for _, r in sorted(rules.items())] if self._taints and gates.enabled("DRADeviceTaintRules") else []
        self._partitions = gates.enabled("DRAPartitionableDevices")
        self._consumable = gates.enabled("DRAConsumableCapacity")
        self._milli = gates.enabled("DRAFractionalCapacityRange")
        self._lists = gates.enabled("DRAListTypeAttributes")
        self._constrained = frozenset(constrained)
        self._reads = None if reads is None else {f"{d}/{n}" for field, d, n in reads if field == "attributes"} | self._constrained

    def of(self, driver: str, pool: str, device: device_objects.Device) -> int:
        """Return the kind of a device as an index into ``kinds``. A kind that is not in the table yet is appended."""
        attributes = device.attributes or {}
        if self._reads is not None:
            attributes = {name: each for name, each in attributes.items() if _full(driver, name) in self._reads}
        taints = self._blocking(driver, pool, device)
        shared = self._consumable and bool(device.allowMultipleAllocations)
        usable = self._partitions or not device.consumesCounters
        key = _encoder.encode((driver, attributes, device.capacity, taints, device.allowMultipleAllocations, usable))
        number = self._found.get(key)
        if number is None:
            number = self._found[key] = len(self.kinds)
            self.kinds.append(
                DeviceKind(number, driver, device, self._attributes(driver, attributes), self._capacity(device), taints, shared, usable)
            )
        return number

    def _blocking(self, driver: str, pool: str, device: device_objects.Device) -> tuple[tuple[str, str, str], ...]:
        if not self._taints:
            return ()
        found = [(t.key, t.value or "", t.effect) for t in device.taints or () if t.effect in _BLOCKING]
        for rule in self._rules:
            chosen, taint = rule.deviceSelector, rule.taint
            if (
                chosen is not None
                and taint.effect in _BLOCKING
                and (chosen.driver is None or chosen.driver == driver)
                and (chosen.pool is None or chosen.pool == pool)
                and (chosen.device is None or chosen.device == device.name)
            ):
                found.append((taint.key, taint.value or "", taint.effect))
        return tuple(found)

    def _attributes(self, driver: str, attributes: Mapping[str, device_objects.DeviceAttribute]) -> dict[str, Attribute]:
        """Return the attributes that constraints read, by full name. A full name overrides a bare one."""
        found: dict[str, Attribute] = {}
        for name, value in sorted(attributes.items(), key=lambda item: "/" in item[0]):
            full = _full(driver, name)
            read = self._value(value) if full in self._constrained else None
            if read is not None:
                found[full] = read
        return found

    def _value(self, value: device_objects.DeviceAttribute) -> Attribute | None:
        for kind in _TYPES:
            listed = getattr(value, kind + "s") if self._lists else None
            if listed:
                return kind, tuple(dict.fromkeys(listed))
        for kind in _TYPES:
            single = getattr(value, kind)
            if single is not None:
                return kind, (single,)
        return None

    def _capacity(self, device: device_objects.Device) -> dict[str, Capacity]:
        if not self._consumable:
            return {}
        return {name: _entry(each, self._milli) for name, each in (device.capacity or {}).items()}


def _full(driver: str, name: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _entry(entry: device_objects.DeviceCapacity, milli: bool) -> Capacity:
    """Return a capacity. ``milli``: a range with a fraction of a unit counts in thousandths (KEP-5075)."""
    value, policy = quantity.parse(entry.value), entry.requestPolicy
    if policy is None:
        return Capacity(value)
    span = policy.validRange or device_objects.CapacityRequestPolicyRange()
    minimum, maximum, step = (None if raw is None else quantity.parse(raw) for raw in (span.min, span.max, span.step))
    default = None if policy.default is None else quantity.parse(policy.default)
    parts = 1000 if milli and any(each is not None and each.denominator > 1 for each in (minimum, maximum, step)) else 1
    return Capacity(value, default, minimum, maximum, step, tuple(quantity.parse(each) for each in policy.validValues or ()), parts)
