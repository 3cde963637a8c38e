"""Money in millionths: accepted amounts, refused ones, and their form in documents and tables."""

from __future__ import annotations

import json
import random

import pytest

from kubestow.models.catalogue import money


@pytest.mark.parametrize(
    ("value", "millionths"),
    [
        (0, 0),
        (2, 2_000_000),
        (0.38, 380_000),
        ("0.38", 380_000),
        (0.000001, 1),
        (1e-05, 10),
        ("12.000000", 12_000_000),
        (1_000_000, 10**12),
    ],
)
def test_a_price_is_read_exactly(value: float | str, millionths: int) -> None:
    assert money.parse(value) == millionths


@pytest.mark.parametrize(
    "value",
    [-1, -0.01, "-0.01", float("nan"), float("inf"), float("-inf"), 0.0000001, "0.1234567", "0." + "1" * 6 + "0" * 32 + "1", "", "free",
     "1e3",
     "$1", "1,5", "1_000", True, 1_000_001, "1000000.000001", 10**50],
)  # fmt: skip
def test_what_is_no_price_is_refused(value: float | str) -> None:
    with pytest.raises(money.MoneyError, match=r"expected a decimal number within 0\.\.1000000 with at most 6 decimal places"):
        money.parse(value)


def test_computed_prices_are_rounded_to_the_nearest_millionth() -> None:
    assert money.rounded(0.029664000000000003) == 29_664
    assert money.rounded(0.0000005) == 1
    with pytest.raises(money.MoneyError):
        money.rounded(float("inf"))


def test_json_of_an_amount_reads_back_as_the_same_amount() -> None:
    draw = random.Random(0)
    for _ in range(2000):
        amount = draw.randrange(10 ** draw.randrange(1, 13))
        assert money.parse(json.loads(json.dumps(money.number(amount)))) == amount


def test_people_see_two_decimal_places_or_more() -> None:
    assert [money.text(each) for each in (0, 380_000, 12_000_000, 1_204_384_000, 1, -500_000)] == [
        "0.00", "0.38", "12.00", "1,204.384", "0.000001", "-0.50",
    ]  # fmt: skip
