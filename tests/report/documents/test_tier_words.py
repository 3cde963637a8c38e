"""Tiers in words, with costs as positive numbers."""

from __future__ import annotations

import pytest

from kubestow.models.documents.placement import TierResult
from kubestow.models.documents.policy import Policy
from kubestow.report.documents.tier_words import TierWords, gap_text, tier_words


@pytest.mark.parametrize(
    ("tier", "policy", "expected"),
    [
        (TierResult("placed", 3, 4, 10), None, TierWords("pods placed, priority 10", 3, 4, False)),
        (TierResult("soft", -7, 0), None, TierWords("preferences, in points", -7, 0, False)),
        (TierResult("strategy", -120, -100), None, TierWords("unevenness of the nodes", 120, 100, True)),
        (TierResult("strategy", -5, -5), Policy(strategy="pack"), TierWords("nodes in use", 5, 5, True)),
        (
            TierResult("strategy", -500, -500),
            Policy(strategy="pack", priceLabel="price"),
            TierWords("price of the nodes in use, in thousandths", 500, 500, True),
        ),
        (TierResult("freed", 2, 3), None, TierWords("nodes free", 2, 3, False)),
        (TierResult("freed", -900, -800), Policy(priceLabel="p"), TierWords("price of the nodes in use, in thousandths", 900, 800, True)),
        (TierResult("evictions", -1, 0, 5), None, TierWords("pods evicted for good, priority 5", 1, 0, True)),
        (TierResult("moves", 0, 0), None, TierWords("moves, by their costs", 0, 0, True)),
        (TierResult("luck", 4, 4), None, TierWords("luck", 4, 4, False)),
    ],
)
def test_words(tier: TierResult, policy: Policy | None, expected: TierWords) -> None:
    assert tier_words(tier, policy) == expected


@pytest.mark.parametrize(
    ("value", "bound", "text"),
    [
        (5, 5, "proved"),
        (0, 0, "proved"),
        (0, 3, "300 %"),
        (340, 341, "0.3 %"),
        (1000, 1001, "0.1 %"),
        (100000, 100001, "0.1 %"),
        (-2, 0, "100 %"),
    ],
)
def test_a_gap_is_never_rounded_down_to_nothing(value: int, bound: int, text: str) -> None:
    assert gap_text(value, bound) == text
