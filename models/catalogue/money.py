"""Money: counted in whole millionths of the catalogue's currency, so that no sum is ever rounded."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final

from kubestow.models.documents.catalogue import Price
from kubestow.models.kube.lenient_decode import shorten

#: What one unit of the currency is counted in.
UNIT: Final = 1_000_000
#: A price beyond this is a slip of the pen, and sums of such could leave the 64 bits that engines count in.
LARGEST: Final = 1_000_000
_PLACES: Final = 6
_FORM: Final = re.compile(r"\+?[0-9]{1,40}(\.[0-9]{1,40})?\Z", re.ASCII)
_EXPECTED: Final = f"a decimal number within 0..{LARGEST} of at most {_PLACES} decimal places"


class MoneyError(ValueError):
    """What is given is no amount of money."""


def parse(value: Price) -> int:
    """Return an amount in millionths.

    Raises:
        MoneyError: more than six decimal places, negative, not finite, no number at all, or more than a million.
    """
    exact = _exact(value)
    if exact is None or exact.denominator > 1:
        raise MoneyError(f"got {shorten(value)}, expected {_EXPECTED}")
    return int(exact)


def rounded(value: Price) -> int:
    """Return an amount in millionths, rounded to the nearest: of sources that compute prices in
    floating point.

    Raises:
        MoneyError: as :func:`parse`, but for decimal places.
    """
    exact = _exact(value)
    if exact is None:
        raise MoneyError(f"got {shorten(value)}, expected a number within 0..{LARGEST}")
    return math.floor(exact + Fraction(1, 2))


def _exact(value: Price) -> Fraction | None:
    """An amount in millionths, None where it is none."""
    if isinstance(value, bool) or (isinstance(value, str) and not _FORM.match(value)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    exact = Fraction(repr(value) if isinstance(value, float) else value)  # repr is the shortest text of a number: what was written
    return exact * UNIT if 0 <= exact <= LARGEST else None


def number(millionths: int) -> int | float:
    """Return an amount as a number whose JSON is exact to six decimal places (up to a billion)."""
    return millionths // UNIT if millionths % UNIT == 0 else millionths / UNIT


def text(millionths: int) -> str:
    """Return an amount for people, of two decimal places or more: ``0.38``, ``12.00``, ``1,204.384``."""
    whole, rest = divmod(abs(millionths), UNIT)
    return f"{'-' if millionths < 0 else ''}{whole:,}.{f'{rest:06}'.rstrip('0').ljust(2, '0')}"
