"""Amounts of money in whole millionths of the catalogue's currency, so that sums are never rounded."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final

from kubestow.models.documents.catalogue import Price
from kubestow.models.kube.lenient_decode import shorten

#: Millionths in one unit of the currency.
MILLIONTHS_PER_UNIT: Final = 1_000_000
#: Largest valid price, in units of the currency. Larger ones are likely errors, and their sums could exceed 64 bits.
MAX_PRICE: Final = 1_000_000
_MAX_DECIMAL_PLACES: Final = 6
_DECIMAL: Final = re.compile(r"\+?[0-9]{1,40}(\.[0-9]{1,40})?\Z", re.ASCII)
_EXPECTED: Final = f"a decimal number within 0..{MAX_PRICE} with at most {_MAX_DECIMAL_PLACES} decimal places"


class MoneyError(ValueError):
    """Raised for a value that is not an amount of money."""


def parse(value: Price) -> int:
    """Return an amount in millionths.

    Raises:
        MoneyError: The value is no finite number, is negative, is above a million, or has more than six decimal places.
    """
    exact = _exact(value)
    if exact is None or exact.denominator > 1:
        raise MoneyError(f"got {shorten(value)}, expected {_EXPECTED}")
    return int(exact)


def rounded(value: Price) -> int:
    """Return an amount in millionths, rounded to the nearest, for sources that compute prices in floating point.

    Raises:
        MoneyError: As for :func:`parse`, except for decimal places.
    """
    exact = _exact(value)
    if exact is None:
        raise MoneyError(f"got {shorten(value)}, expected a number within 0..{MAX_PRICE}")
    return math.floor(exact + Fraction(1, 2))


def _exact(value: Price) -> Fraction | None:
    """Return an amount in millionths, possibly fractional, or None if the value is invalid."""
    if isinstance(value, bool) or (isinstance(value, str) and not _DECIMAL.match(value)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    exact = Fraction(repr(value) if isinstance(value, float) else value)  # repr restores the decimal number as written
    return exact * MILLIONTHS_PER_UNIT if 0 <= exact <= MAX_PRICE else None


def number(millionths: int) -> int | float:
    """Return an amount as a number whose JSON is exact to six decimal places (up to a billion)."""
    return millionths // MILLIONTHS_PER_UNIT if millionths % MILLIONTHS_PER_UNIT == 0 else millionths / MILLIONTHS_PER_UNIT


def text(millionths: int) -> str:
    """Return an amount as text with at least two decimal places: ``0.38``, ``12.00``, ``1,204.384``."""
    whole, fraction = divmod(abs(millionths), MILLIONTHS_PER_UNIT)
    return f"{'-' if millionths < 0 else ''}{whole:,}.{f'{fraction:06}'.rstrip('0').ljust(2, '0')}"
