"""The capacity that a request takes from a device, and whether the device has enough left.

Source: staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go (v1.36.2), KEP-5075.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from kubestow.models.kube import device_objects as api
from kubestow.models.kube import quantity

Amounts = dict[str, Fraction]


def amounts(raw: Mapping[str, str | int | float] | None) -> Amounts:
    """Convert quantities to exact numbers.

    Raises:
        QuantityError: a quantity is malformed.
    """
    return {name: quantity.parse(value) for name, value in (raw or {}).items()}


@dataclass(frozen=True)
class CapacityEntry:
    """One capacity of a device and its request policy.

    Attributes:
        value: Total capacity.
        default: Amount taken by a request that does not name the capacity; None for the total.
        ranged: True if the policy has a range.
        least: Smallest amount of the range.
        upper_limit: Largest amount of the range.
        step: Step of the range.
        values: Valid amounts; None if any amount is valid.
        fine: True if the range is counted in thousandths instead of whole units.
    """

    value: Fraction
    default: Fraction | None = None
    ranged: bool = False
    least: Fraction | None = None
    upper_limit: Fraction | None = None
    step: Fraction | None = None
    values: tuple[Fraction, ...] | None = None
    fine: bool = False

    def amount(self, requested: Fraction | None) -> Fraction:
        """Return the amount that a request takes.

        A requested amount is rounded up by the policy. A request that does not name the capacity takes the default, or else everything.
        """
        if requested is None:
            return self.value if self.default is None else self.default
        if self.ranged and self.least is not None:
            if requested < self.least:
                return self.least
            if self.step is None:
                return requested
            least, step = self._whole(self.least), self._whole(self.step)
            if step <= 0:
                return least
            return least + step * -(-(self._whole(requested) - least) // step)
        return next((value for value in self.values or () if requested <= value), requested)

    def allows(self, amount: Fraction) -> bool:
        """Return True if the policy allows a request to take the amount."""
        if amount == self.default:
            return True
        if not self.ranged:
            return not self.values or amount in self.values
        if self.upper_limit is not None and amount > self.upper_limit:
            return False
        if self.step is None:
            return True
        step = self._whole(self.step)
        return step > 0 and (self._whole(amount) - self._whole(self.least or Fraction(0))) % step == 0

    def _whole(self, value: Fraction) -> Fraction:
        """Round a value up to a unit, or to a thousandth, as the arithmetic of ranges does."""
        return Fraction(quantity.ceil(value * 1000), 1000) if self.fine else Fraction(quantity.ceil(value))


def _optional(raw: str | float | None) -> Fraction | None:
    return None if raw is None else quantity.parse(raw)


def entry(raw: api.DeviceCapacity, fractions: bool) -> CapacityEntry:
    """Parse a capacity of a device.

    Args:
        raw: The capacity.
        fractions: True if the feature gate DRAFractionalCapacityRange is on.

    Raises:
        QuantityError: a quantity is malformed.
    """
    value, policy = quantity.parse(raw.value), raw.requestPolicy
    if policy is None:
        return CapacityEntry(value)
    span = policy.validRange
    bounds = (_optional(span.min), _optional(span.max), _optional(span.step)) if span is not None else (None, None, None)
    return CapacityEntry(
        value, _optional(policy.default), span is not None, *bounds,
        None if policy.validValues is None else tuple(map(quantity.parse, policy.validValues)),
        fractions and any(bound is not None and bound != int(bound) for bound in bounds),
    )  # fmt: skip


def consumed_amounts(entries: Mapping[str, CapacityEntry], requested: Amounts | None) -> Amounts:
    """Return the amount of each capacity that a request takes from a device."""
    return {name: each.amount((requested or {}).get(name)) for name, each in entries.items()}


def lacks(entries: Mapping[str, CapacityEntry], requested: Amounts | None, *consumed: Mapping[str, Fraction]) -> str | None:
    """Return why a device cannot serve a request in addition to its other holders, or None if it can."""
    for name in requested or ():
        if name not in entries:
            return f"it has no capacity {name}"
    for name, amount in consumed_amounts(entries, requested).items():
        each = entries[name]
        if not each.allows(amount):
            return f"its policy does not allow {quantity.canonical(amount)} of capacity {name}"
        used = sum((other.get(name, Fraction(0)) for other in consumed), Fraction(0))
        if used + amount > each.value:
            free = quantity.canonical(each.value - used)
            return f"{quantity.canonical(amount)} of capacity {name} are wanted, {free} of {quantity.canonical(each.value)} are free"
    return None
