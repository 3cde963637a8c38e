"""Amounts of other tools as exact quantities: cores and bytes, rounded up to Kubernetes' precision."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

from kubestow.models.kube import quantity
from kubestow.models.kube.quantity import QuantityError

#: Resources with recommendations, and the parts per unit that are kept.
RESOURCES: Final = {"cpu": 1000, "memory": 1}


def text(resource: str, amount: Fraction) -> str:
    """Return an amount as a quantity, rounded up to whole mCPU or bytes.

    Args:
        resource: ``cpu``, in cores, or ``memory``, in bytes.

    Raises:
        ValueError: The amount is negative or too large.
    """
    parts = -(-amount.numerator * RESOURCES[resource] // amount.denominator)
    if not 0 <= parts <= quantity.INT64_MAX:
        raise ValueError("expected an amount of at least 0 within 64 bits")
    return f"{parts}m" if resource == "cpu" else str(parts)


def number(raw: object) -> Fraction:
    """Return a JSON number exactly as written, or the shortest decimal number for a YAML float.

    Raises:
        ValueError: Not a number, or not finite.
    """
    if isinstance(raw, bool) or not isinstance(raw, int | float | Decimal | str):
        raise ValueError("expected a number")
    raw = repr(raw) if isinstance(raw, float) else raw
    if isinstance(raw, str) and ("_" in raw or not raw.isascii()):  # Decimal accepts 1_000 and digits of any script
        raise ValueError("expected a number")
    try:
        value = Decimal(raw)
    except ArithmeticError:
        raise ValueError("expected a number") from None
    if not value.is_finite() or abs(value.adjusted()) > 40:
        raise ValueError("expected a finite number")
    return Fraction(value)


def canonical(resource: str, raw: object) -> str:
    """Return a quantity of Kubernetes in the form of :func:`text`.

    Raises:
        ValueError: Not a quantity.
    """
    if isinstance(raw, float | Decimal):
        return text(resource, number(raw))
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        raise ValueError("expected a quantity")
    try:
        return text(resource, quantity.parse(raw))
    except QuantityError as error:
        raise ValueError(str(error)) from None
