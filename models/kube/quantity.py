"""Conversion of Kubernetes quantities to exact numbers.

Grammar and rounding follow k8s.io/apimachinery/pkg/api/resource: a signed decimal number, then a binary suffix (Ki
… Ei), a decimal suffix (n, u, m, k, M, G, T, P, E) or a decimal exponent (e3, E-2). A value is never a float. The
text becomes a :class:`~fractions.Fraction` and is rounded up (away from zero) where the API rounds.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from kubestow.models.kube.objects import RawQuantity

INT64_MAX: Final = 2**63 - 1

_SUFFIX: Final[dict[str, Fraction]] = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{s: Fraction(10 ** (3 * (i + 1))) for i, s in enumerate(["k", "M", "G", "T", "P", "E"])},
    **{s: Fraction(2 ** (10 * (i + 1))) for i, s in enumerate(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])},
}
_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)\Z"
)
#: Largest exponent. No larger one gives a value within 64 bits, so it is rejected before 10**e is computed.
_MAX_EXPONENT: Final = 400
#: Largest length of a quantity in characters.
_MAX_TEXT_CHARACTERS: Final = 1000


class QuantityError(ValueError):
    """A text that is not a Kubernetes quantity, or a value that does not fit 64 bits."""


@lru_cache(maxsize=65536)
def _parse_text(text: str) -> Fraction:
    # Surrounding blanks are allowed, because Quantity.UnmarshalJSON trims them.
    match = _GRAMMAR.match(text.strip()) if len(text) <= _MAX_TEXT_CHARACTERS else None
    if match is None:
        raise QuantityError(f"{text[:60]!r} is not a quantity (expected a number such as 2, 500m, 1.5Gi or 1e3)")
    value = Fraction(match["number"])
    if match["exponent"] is not None:
        exponent = int(match["exponent"])
        if abs(exponent) > _MAX_EXPONENT:
            raise QuantityError(f"{text[:60]!r} has an exponent out of range")
        value *= Fraction(10) ** exponent
    else:
        value *= _SUFFIX[match["suffix"] or ""]
    if 10**9 % value.denominator:
        value = Fraction(-(-value.numerator * 10**9 // value.denominator), 10**9)
    return -value if match["sign"] == "-" else value


def parse(raw: RawQuantity) -> Fraction:
    """Return the exact value of a quantity as written in JSON or YAML: text or a bare number.

    Digits finer than 1n are rounded away from zero, as by ParseQuantity.

    Raises:
        QuantityError: the value is not a quantity.
    """
    if isinstance(raw, bool):
        raise QuantityError(f"{raw!r} is not a quantity")
    if isinstance(raw, int):
        return Fraction(raw)
    if isinstance(raw, float):
        return _parse_text(repr(raw))  # repr is the shortest text of the number, so it is what was written
    return _parse_text(raw)


def ceil(value: Fraction) -> int:
    """Round up, away from zero for both signs, as resource.Quantity.Value() does.

    Raises:
        QuantityError: the result does not fit 64 bits.
    """
    whole = -(-abs(value.numerator) // value.denominator)
    if whole > INT64_MAX:
        raise QuantityError("a quantity does not fit 64 bits")
    return whole if value >= 0 else -whole


def milli_round(value: Fraction) -> Fraction:
    """Round up to thousandths, as the API server does in every ResourceList that it stores
    (pkg/apis/core/v1/defaults.go, SetDefaults_ResourceList).
    """
    return Fraction(-(-abs(value.numerator) * 1000 // value.denominator), 1000) * (1 if value >= 0 else -1)


def units(raw: RawQuantity) -> int:
    """Return whole units (bytes, pods, devices), rounded up."""
    return ceil(parse(raw))


def milli(raw: RawQuantity) -> int:
    """Return thousandths (mCPU), rounded up."""
    return ceil(parse(raw) * 1000)


def canonical(value: Fraction) -> str:
    """Return a computed quantity as text that :func:`parse` reads back exactly: ``3``, ``1500m``, ``300n``.

    Raises:
        QuantityError: the value is finer than 1n, which no sum of parsed quantities is.
    """
    for scale, suffix in ((1, ""), (10**3, "m"), (10**6, "u"), (10**9, "n")):
        if scale % value.denominator == 0:
            return f"{value.numerator * (scale // value.denominator)}{suffix}"
    raise QuantityError(f"{value} is finer than 1n")


def format_cpu(millis: int) -> str:
    """Format mCPU as Kubernetes does: ``250m``, ``4``."""
    return str(millis // 1000) if millis % 1000 == 0 else f"{millis}m"


def format_bytes(value: int) -> str:
    """Format bytes in the largest binary unit that gives a short number: ``512Mi``, ``1.5Gi``."""
    for shift, suffix in ((60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if abs(value) >= 1 << shift:
            return rounded(value, 1 << shift) + suffix
    return str(value)


def rounded(value: int, unit: int) -> str:
    """Format ``value`` in units for people, rounded half away from zero: ``7.25``, ``1,290``.

    It has two decimals below 10, one below 100, and none above.
    """
    digits = 2 if abs(value) < 10 * unit else 1 if abs(value) < 100 * unit else 0
    whole, decimals = divmod((2 * abs(value) * 10**digits + unit) // (2 * unit), 10**digits)
    return "-" * (value < 0) + f"{whole:,}" + (f".{decimals:0{digits}}".rstrip("0") if decimals else "")
