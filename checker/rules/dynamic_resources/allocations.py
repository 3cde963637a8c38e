"""The devices that allocated claims hold, and the counters that remain.

Source: pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go (v1.36.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from kubestow.checker.rules.dynamic_resources.capacity import Amounts, amounts
from kubestow.models.kube import device_objects as api

DeviceId = tuple[str, str, str]  # driver, pool, name
CounterKey = tuple[str, str]  # counter set, counter
Need = tuple[CounterKey, Fraction]
_NONE: Final[Amounts] = {}


class CounterLedger:
    """The remaining counters of a pool.

    Args:
        total: All counters of the pool.
        needs: Counters that each device consumes while it is in use.
    """

    def __init__(self, total: dict[CounterKey, Fraction], needs: dict[DeviceId, list[Need]]) -> None:
        self.remaining = total
        self._needs = needs

    def devices(self) -> Iterable[DeviceId]:
        """Return the devices that consume counters."""
        return self._needs

    def charge(self, device: DeviceId, by: int) -> None:
        """Subtract a device's counters (``by`` 1), or return them (-1)."""
        for key, amount in self._needs.get(device, ()):
            if key in self.remaining:
                self.remaining[key] -= by * amount


class Allocations:
    """The devices that claims hold, whole or in shares.

    Args:
        sharing: True if shares are supported (feature gate DRAConsumableCapacity).
    """

    def __init__(self, *, sharing: bool) -> None:
        self._sharing = sharing
        self._whole: dict[DeviceId, int] = {}
        self._shares: dict[DeviceId, int] = {}
        self._consumed: dict[DeviceId, Amounts] = {}
        self._ledgers: dict[tuple[str, str], list[CounterLedger]] = {}

    def is_held(self, device: DeviceId) -> bool:
        """Return True if a claim holds the whole device."""
        return device in self._whole

    def is_shared(self, device: DeviceId) -> bool:
        """Return True if a claim holds a share of the device."""
        return device in self._shares

    def consumed(self, device: DeviceId) -> Amounts:
        """Return the consumed capacity of a device."""
        return self._consumed.get(device, _NONE)

    def open(self, driver: str, pool: str, ledger: CounterLedger) -> None:
        """Register a ledger and charge it for the pool's allocated devices."""
        self._ledgers.setdefault((driver, pool), []).append(ledger)
        for device in ledger.devices():
            if device in self._whole or device in self._shares:
                ledger.charge(device, 1)

    def record(self, results: Iterable[api.DeviceRequestAllocationResult], by: int = 1) -> None:
        """Add an allocation (``by`` 1), or remove it (-1). Admin access occupies nothing.

        Raises:
            QuantityError: a quantity is malformed.
        """
        for result in results:
            if result.adminAccess:
                continue
            device = result.driver, result.pool, result.device
            before = device in self._whole or device in self._shares
            share = self._sharing and result.shareID is not None
            book = self._shares if share else self._whole
            book[device] = book.get(device, 0) + by
            if not book[device]:
                del book[device]
            if share:
                consumed = self._consumed.setdefault(device, {})
                for name, amount in amounts(result.consumedCapacity).items():
                    consumed[name] = consumed.get(name, Fraction(0)) + by * amount
            after = device in self._whole or device in self._shares
            for ledger in self._ledgers.get(device[:2], ()) if before != after else ():
                ledger.charge(device, 1 if after else -1)
