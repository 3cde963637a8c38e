"""Tiers of an objective in words and in numbers that people expect: what costs is a number of things, not a negative value."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubestow.models.documents.placement import TierResult
from kubestow.models.documents.policy import DEFAULT, Policy


class TierWords(NamedTuple):
    """A tier as a table shows it. ``fewer``: whether less is better, so that ``best`` is the least there can be."""

    name: str
    reached: int
    best: int
    fewer: bool


#: Tiers whose values are negative numbers of something.
_COSTS: Final = {
    "topologySpread": "unevenness of the domains",
    "drained": "pods left on drained nodes",
    "rules": "rules that running pods break",
    "evictions": "pods evicted for good",
    "moves": "moves, by what each costs",
}
_GAINS: Final = {
    "placed": "pods placed",
    "soft": "preferences, in points",
    "freed": "nodes free",
    "improve": "preferences and balance",
}
#: Per cent. Larger gaps are not spelt out.
_WIDEST_GAP: Final = 1000
_TIE_BREAKS: Final = {"spread": "unevenness of the nodes", "pack": "nodes in use"}


def tier_words(tier: TierResult, policy: Policy | None) -> TierWords:
    """Return name and numbers of a tier, under the document's policy."""
    policy = policy or DEFAULT
    fewer, name = False, _GAINS.get(tier.tier, tier.tier)
    if tier.tier in _COSTS:
        fewer, name = True, _COSTS[tier.tier]
    elif tier.tier == "strategy" and policy.strategy in _TIE_BREAKS:
        fewer, name = True, _TIE_BREAKS[policy.strategy]
    if policy.priceLabel and (tier.tier == "freed" or (tier.tier == "strategy" and policy.strategy == "pack")):
        fewer, name = True, "price of the nodes in use, in thousandths"
    if tier.priority is not None:
        name += f", priority {tier.priority}"
    sign = -1 if fewer else 1
    return TierWords(name, sign * tier.value, sign * tier.bound, fewer)


def gap_text(value: int, bound: int) -> str:
    """Return the gap |bound - value| / max(1, |value|) of a tier in per cent, ``proved`` where there is none."""
    if value == bound:
        return "proved"
    permille = -(-1000 * abs(bound - value) // max(1, abs(value)))
    if permille > 10 * _WIDEST_GAP:
        return f"> {_WIDEST_GAP} %"  # the value is next to nothing: the number says no more than that
    return f"{permille // 10}.{permille % 10} %" if permille < 1000 else f"{permille // 10} %"
