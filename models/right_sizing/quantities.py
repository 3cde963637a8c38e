"""Amounts of other tools as exact quantities: cores and bytes, rounded up to what Kubernetes can say."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

from kubestow.models.kube import quantity
from kubestow.models.kube.quantity import QuantityError

#: What is recommended for: the smallest part of each that is kept.
RESOURCES: Final = {"cpu": 1000, "memory": 1}


def text(resource: str, amount: Fraction) -> str:
    """Return an amount as a quantity, rounded up to whole mCPU or bytes.

    Args:
        resource: ``cpu``, in cores, or ``memory``, in bytes.

    Raises:
        ValueError: the amount is negative or too large.
    """
    parts = -(-amount.numerator * RESOURCES[resource] // amount.denominator)
    if not 0 <= parts <= quantity.INT64_MAX:
        raise ValueError("expected an amount of at least 0 within 64 bits")
    return f"{parts}m" if resource == "cpu" else str(parts)


def number(raw: object) -> Fraction:
    """Return a number of JSON, exactly as it is written; of YAML the shortest decimal number that stands for its float.

    Raises:
        ValueError: it is none, or not finite.
    """
    if isinstance(raw, bool) or not isinstance(raw, int | float | Decimal | str):
        raise ValueError("expected a number")
    raw = repr(raw) if isinstance(raw, float) else raw
    if isinstance(raw, str) and ("_" in raw or not raw.isascii()):  # Decimal takes 1_000, and digits of every script
        raise ValueError("expected a number")
    try:
        value = Decimal(raw)
    except ArithmeticError:
        raise ValueError("expected a number") from None
    if not value.is_finite() or abs(value.adjusted()) > 40:
        raise ValueError("expected a finite number")
    return Fraction(value)


def canonical(resource: str, raw: object) -> str:
    """Return a quantity of Kubernetes as :func:`text` writes it.

    Raises:
        ValueError: it is none.
    """
    if isinstance(raw, float | Decimal):
        return text(resource, number(raw))
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        raise ValueError("expected a quantity")
    try:
        return text(resource, quantity.parse(raw))
    except QuantityError as error:
        raise ValueError(str(error)) from None
