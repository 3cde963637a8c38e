from __future__ import annotations

from decimal import ROUND_UP, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.models.kube import quantity
from kubestow.models.kube.quantity import INT64_MAX, QuantityError

SUFFIXES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "k": Fraction(10**3), "M": Fraction(10**6),
    "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
    "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("0", Fraction(0)),
        ("500m", Fraction(1, 2)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("+2", Fraction(2)),
        ("-3k", Fraction(-3000)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("1E", Fraction(10**18)),
        ("12e-1", Fraction(6, 5)),
        ("1.25E+2", Fraction(125)),
        ("100n", Fraction(1, 10**7)),
        (" 1 ", Fraction(1)),
        (2, Fraction(2)),
        (0.1, Fraction(1, 10)),
        (1e22, Fraction(10**22)),
        (10**30, Fraction(10**30)),
    ],
)
def test_reads_the_grammar_exactly(raw: str | int | float, value: Fraction) -> None:
    assert quantity.parse(raw) == value


@pytest.mark.parametrize("raw", ["0.1n", "0.0000000001", "1e-12"])
def test_digits_finer_than_a_nano_round_away_from_zero(raw: str) -> None:
    assert quantity.parse(raw) == Fraction(1, 10**9)
    assert quantity.parse("-" + raw) == Fraction(-1, 10**9)


NOT_QUANTITIES = ["", " ", "Gi", "12Q", "1 Gi", "1ki", "1K", "0x10", "1_000", "1e", "1e3Ki", "--1", "1.2.3", "٣", "1e999", "1e-999"]


@pytest.mark.parametrize("raw", [*NOT_QUANTITIES, "inf", "nan", "1" * 2000])
def test_refuses_what_is_no_quantity(raw: str) -> None:
    with pytest.raises(QuantityError):
        quantity.parse(raw)


@pytest.mark.parametrize("raw", [True, False, float("inf"), float("nan")])
def test_refuses_values_that_json_writers_mistake_for_numbers(raw: float) -> None:
    with pytest.raises(QuantityError):
        quantity.parse(raw)


@given(
    whole=st.integers(0, 10**12),
    fraction=st.text("0123456789", max_size=6),
    suffix=st.sampled_from(sorted(SUFFIXES)),
    sign=st.sampled_from(["", "+", "-"]),
)
def test_agrees_with_the_number_times_its_suffix(whole: int, fraction: str, suffix: str, sign: str) -> None:
    exact = (Fraction(whole) + Fraction(int(fraction or "0"), 10 ** len(fraction))) * SUFFIXES[suffix]
    nano = Fraction(-(-exact.numerator * 10**9 // exact.denominator), 10**9)
    assert quantity.parse(f"{sign}{whole}.{fraction}{suffix}") == (-nano if sign == "-" else nano)


@given(number=st.decimals(-(10**15), 10**15, places=6))
def test_units_and_milli_round_away_from_zero(number: Decimal) -> None:
    with localcontext() as context:
        context.prec = 60
        text = f"{number:f}"
        assert quantity.units(text) == int(number.to_integral_value(ROUND_UP))
        assert quantity.milli(text) == int((number * 1000).to_integral_value(ROUND_UP))


@given(value=st.fractions(-(10**9), 10**9, max_denominator=10**7))
def test_milli_round_gives_the_next_thousandth(value: Fraction) -> None:
    rounded = quantity.milli_round(value)
    assert 1000 % rounded.denominator == 0
    assert abs(rounded) >= abs(value)
    assert abs(rounded - value) < Fraction(1, 1000)
    assert quantity.milli_round(rounded) == rounded


def test_64_bits_are_the_limit() -> None:
    assert quantity.units(str(INT64_MAX)) == INT64_MAX
    assert quantity.units(f"-{INT64_MAX}") == -INT64_MAX
    assert quantity.milli("9223372036854775.807") == INT64_MAX
    for raw in (str(INT64_MAX + 1), "8Ei", "9223372036854775807.000001", "1e399"):
        with pytest.raises(QuantityError, match="64 bits"):
            quantity.units(raw)
    with pytest.raises(QuantityError, match="64 bits"):
        quantity.milli("9223372036854775.8071")


@given(value=st.integers(-(10**18), 10**18), scale=st.sampled_from([1, 10**3, 10**6, 10**9]))
def test_canonical_text_reads_back_exactly(value: int, scale: int) -> None:
    exact = Fraction(value, scale)
    assert quantity.parse(quantity.canonical(exact)) == exact


def test_canonical_refuses_what_no_suffix_holds() -> None:
    with pytest.raises(QuantityError):
        quantity.canonical(Fraction(1, 3))


@given(millis=st.integers(-(10**12), 10**12))
def test_formatted_cpu_reads_back(millis: int) -> None:
    assert quantity.milli(quantity.format_cpu(millis)) == millis


@given(value=st.integers(-(2**62), 2**62))
def test_formatted_bytes_are_short_and_near(value: int) -> None:
    text = quantity.format_bytes(value)
    assert len(text) <= 9
    assert abs(quantity.parse(text.replace(",", "")) - value) <= Fraction(abs(value), 20)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1023, "1023"), (1024, "1Ki"), (1536 * 2**20, "1.5Gi"), (2**60, "1Ei"), (-(2**20), "-1Mi")]
)
def test_formats_bytes(value: int, text: str) -> None:
    assert quantity.format_bytes(value) == text
