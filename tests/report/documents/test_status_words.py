"""The status in words: a tier with a gap that nobody asked for is set apart."""

from __future__ import annotations

import pytest

from kubestow.models.documents.placement import Placement, SnapshotRef, Status, TierResult
from kubestow.report.documents.status_words import open_tiers, status_words

PLACED, SOFT = TierResult("placed", 30, 30, 0), TierResult("soft", 0, 0)
DOMAINS, NODES = TierResult("topologySpread", -60, -50), TierResult("strategy", -1_879_400, -629_213)


def result(status: Status, *tiers: TierResult) -> Placement:
    return Placement(SnapshotRef("", 6, 30, 30), "greedy", status, list(tiers), [])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (result("optimal", PLACED, SOFT), ["optimal"]),
        (result("optimal", PLACED, TierResult("strategy", -5, -5)), ["optimal"]),
        (result("optimal", PLACED, NODES), ["placed: optimal", "evenness of the nodes: gap 66.6 %"]),
        (result("optimal", PLACED, SOFT, NODES), ["placed and preferences: optimal", "evenness of the nodes: gap 66.6 %"]),
        (
            result("optimal", PLACED, SOFT, DOMAINS, NODES),
            ["placed and preferences: optimal", "evenness of the domains: gap 16.7 %", "evenness of the nodes: gap 66.6 %"],
        ),
        (result("feasible", PLACED, TierResult("soft", 0, 9), NODES), ["feasible"]),
        (result("infeasible", PLACED), ["infeasible"]),
    ],
)
def test_words(given: Placement, words: list[str]) -> None:
    assert status_words(given) == words
    assert [tier.tier for tier in open_tiers(given)] == [
        tier.tier for tier in given.objective if len(words) > 1 and tier.value != tier.bound
    ]
