"""How much of a device's capacity a request takes, and whether that much is left.

Source: staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go (v1.36.2), KEP-5075.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from models.kube import device_objects as api
from models.kube import quantity

Amounts = dict[str, Fraction]


def amounts(raw: Mapping[str, str | int | float] | None) -> Amounts:
    """Return quantities as exact numbers.

    Raises:
        QuantityError: one is malformed.
    """
    return {name: quantity.parse(value) for name, value in (raw or {}).items()}


@dataclass(frozen=True)
class Entry:
    """One capacity of a device. ``values``: those that a request may take, None if any; ``least``, ``most``, ``step``: of its range."""

    value: Fraction
    default: Fraction | None = None
    ranged: bool = False
    least: Fraction | None = None
    most: Fraction | None = None
    step: Fraction | None = None
    values: tuple[Fraction, ...] | None = None

    def amount(self, requested: Fraction | None) -> Fraction:
        """Return what a request takes: rounded up by the policy; of what it does not name the default, or else all."""
        if requested is None:
            return self.value if self.default is None else self.default
        if self.ranged and self.least is not None:
            if requested < self.least:
                return self.least
            if self.step is None:
                return requested
            least, step = quantity.ceil(self.least), quantity.ceil(self.step)
            return Fraction(least + step * -(-(quantity.ceil(requested) - least) // step) if step > 0 else least)
        return next((value for value in self.values or () if requested <= value), requested)

    def allows(self, amount: Fraction) -> bool:
        """Return whether the policy lets a request take so much."""
        if amount == self.default:
            return True
        if not self.ranged:
            return not self.values or amount in self.values
        if self.most is not None and amount > self.most:
            return False
        if self.step is None:
            return True
        step = quantity.ceil(self.step)
        return step > 0 and (quantity.ceil(amount) - quantity.ceil(self.least or Fraction(0))) % step == 0


def _optional(raw: str | float | None) -> Fraction | None:
    return None if raw is None else quantity.parse(raw)


def entry(raw: api.DeviceCapacity) -> Entry:
    """Read a capacity of a device.

    Raises:
        QuantityError: a quantity is malformed.
    """
    value, policy = quantity.parse(raw.value), raw.requestPolicy
    if policy is None:
        return Entry(value)
    span = policy.validRange
    return Entry(
        value, _optional(policy.default), span is not None,
        *((_optional(span.min), _optional(span.max), _optional(span.step)) if span is not None else (None, None, None)),
        None if policy.validValues is None else tuple(map(quantity.parse, policy.validValues)),
    )  # fmt: skip


def taken(entries: Mapping[str, Entry], requested: Amounts | None) -> Amounts:
    """Return what a request takes of each capacity of a device."""
    return {name: each.amount((requested or {}).get(name)) for name, each in entries.items()}


def lacks(entries: Mapping[str, Entry], requested: Amounts | None, *held: Mapping[str, Fraction]) -> str | None:
    """Return why a device cannot serve what a request takes beside what others hold of it; None if it can."""
    for name in requested or ():
        if name not in entries:
            return f"it has no capacity {name}"
    for name, amount in taken(entries, requested).items():
        each = entries[name]
        if not each.allows(amount):
            return f"its policy does not allow {quantity.canonical(amount)} of capacity {name}"
        used = sum((other.get(name, Fraction(0)) for other in held), Fraction(0))
        if used + amount > each.value:
            free = quantity.canonical(each.value - used)
            return f"{quantity.canonical(amount)} of capacity {name} are wanted, {free} of {quantity.canonical(each.value)} are free"
    return None
