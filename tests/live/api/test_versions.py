"""Resource versions are compared as unsigned integers of any length (KEP-5504), and those of another form not at all."""

from __future__ import annotations

import pytest

from kubestow.live.api.versions import compare, is_well_formed, later


@pytest.mark.parametrize(
    ("one", "other", "result"),
    [
        ("9", "10", -1),
        ("10", "9", 1),
        ("7", "7", 0),
        ("18446744073709551616", "18446744073709551615", 1),
        ("9" * 5000, "1" + "0" * 5000, -1),  # longer than what int() takes
        ("a", "a", 0),
        ("", "", 0),
        ("a", "b", None),
        ("9", "", None),
        ("0", "1", None),
        ("007", "8", None),
        ("-1", "8", None),
        ("1.5", "8", None),
        ("٣", "8", None),  # a digit of another script
        ("3\n", "8", None),
    ],
)
def test_versions_are_compared_as_numbers_or_not_at_all(one: str, other: str, result: int | None) -> None:
    assert compare(one, other) == result
    assert compare(other, one) == (None if result is None else -result)


def test_what_is_well_formed() -> None:
    assert [text for text in ("1", "10", "0", "01", "", "x", "1 ", "+1") if is_well_formed(text)] == ["1", "10"]


@pytest.mark.parametrize(
    ("kept", "arrived", "wins"), [("9", "10", "10"), ("10", "9", "10"), ("b", "a", "a"), ("9", "a", "a"), ("", "3", "3")]
)
def test_the_later_reading_counts_and_without_versions_the_one_that_arrived_last(kept: str, arrived: str, wins: str) -> None:
    one, other = ({"metadata": {"resourceVersion": version}} for version in (kept, arrived))
    found = later(one, other)
    assert found is not None
    assert found["metadata"]["resourceVersion"] == wins
    assert later(None, other) is later(other, None) is other
