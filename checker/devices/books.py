"""What allocated claims hold of devices, and what that leaves of counters.

Source: pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go (v1.36.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from kubestow.checker.devices.capacity import Amounts, amounts
from kubestow.models.kube import device_objects as api

DeviceId = tuple[str, str, str]  # driver, pool, name
CounterKey = tuple[str, str]  # counter set, counter
Need = tuple[CounterKey, Fraction]
_NONE: Final[Amounts] = {}


class Ledger:
    """What is left of the counters of a pool. ``needs``: what each of its devices consumes once it is in use."""

    def __init__(self, total: dict[CounterKey, Fraction], needs: dict[DeviceId, list[Need]]) -> None:
        self.left = total
        self._needs = needs

    def devices(self) -> Iterable[DeviceId]:
        """Return the devices that consume counters."""
        return self._needs

    def charge(self, device: DeviceId, by: int) -> None:
        """The device is in use from now on (``by`` 1), or no more (-1)."""
        for key, amount in self._needs.get(device, ()):
            if key in self.left:
                self.left[key] -= by * amount


class Books:
    """Devices that claims hold, wholly or in shares. ``sharing``: whether shares are known (gate DRAConsumableCapacity)."""

    def __init__(self, *, sharing: bool) -> None:
        self._sharing = sharing
        self._whole: dict[DeviceId, int] = {}
        self._shares: dict[DeviceId, int] = {}
        self._consumed: dict[DeviceId, Amounts] = {}
        self._ledgers: dict[tuple[str, str], list[Ledger]] = {}

    def is_held(self, device: DeviceId) -> bool:
        """Return whether a claim holds the whole device."""
        return device in self._whole

    def is_shared(self, device: DeviceId) -> bool:
        """Return whether a claim holds a share of the device."""
        return device in self._shares

    def consumed(self, device: DeviceId) -> Amounts:
        """Return what claims hold of its capacity."""
        return self._consumed.get(device, _NONE)

    def open(self, driver: str, pool: str, ledger: Ledger) -> None:
        """Keep a ledger of the pool from now on."""
        self._ledgers.setdefault((driver, pool), []).append(ledger)
        for device in ledger.devices():
            if device in self._whole or device in self._shares:
                ledger.charge(device, 1)

    def record(self, results: Iterable[api.DeviceRequestAllocationResult], by: int = 1) -> None:
        """A claim is allocated (``by`` 1), or given back (-1). Admin access occupies nothing.

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
