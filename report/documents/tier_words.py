"""Names and numbers of objective tiers for readers: costs are shown as positive numbers, not as negative values."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubestow.models.documents.placement import TierResult
from kubestow.models.documents.policy import DEFAULT, Policy


class TierWords(NamedTuple):
    """A tier in a table. If ``fewer`` is True, smaller is better and ``best`` is the minimum."""

    name: str
    reached: int
    best: int
    fewer: bool


#: Tiers with negative values that count something.
_COSTS: Final = {
    "topologySpread": "unevenness of the domains",
    "drained": "pods left on drained nodes",
    "rules": "rules that running pods break",
    "evictions": "pods evicted for good",
    "moves": "moves, by their costs",
}
_GAINS: Final = {
    "placed": "pods placed",
    "soft": "preferences, in points",
    "freed": "nodes free",
    "improve": "preferences and balance",
}
#: Per cent. Larger gaps are not shown exactly.
_MAX_GAP_PERCENT: Final = 1000
_TIE_BREAKS: Final = {"spread": "unevenness of the nodes", "pack": "nodes in use"}


def tier_words(tier: TierResult, policy: Policy | None) -> TierWords:
    """Return the name and numbers of a tier under the document's policy."""
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
    """Return the gap |bound - value| / max(1, |value|) of a tier in per cent, or ``proved`` if there is none."""
    if value == bound:
        return "proved"
    permille = -(-1000 * abs(bound - value) // max(1, abs(value)))
    if permille > 10 * _MAX_GAP_PERCENT:
        return f"> {_MAX_GAP_PERCENT} %"  # the value is close to 0, so an exact percentage is not informative
    return f"{permille // 10}.{permille % 10} %" if permille < 1000 else f"{permille // 10} %"
