"""The status of a result as text. Tiers that the status leaves out are named separately with their gap."""

from __future__ import annotations

from typing import Final

from kubestow.models.documents.placement import Placement, TierResult
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.report.documents.tier_words import gap_text

#: Tiers that may have a gap in a placement with the status `optimal`, because they were not requested explicitly.
_APART: Final = {"topologySpread": "evenness of the domains", "strategy": "evenness of the nodes"}


def open_tiers(result: Placement | RebalancePlan) -> list[TierResult]:
    """Return the tiers with a gap that the status `optimal` leaves out. Empty for any other status."""
    return [tier for tier in result.objective if tier.value != tier.bound] if result.status == "optimal" else []


def tier_apart(name: str) -> str:
    """Return the subject of a tier that the status leaves out."""
    return _APART.get(name, name)


def status_words(result: Placement | RebalancePlan) -> list[str]:
    """Return ``optimal``, or ``placed and preferences: optimal`` followed by one part per tier that the status
    leaves out.

    Such a part is ``evenness of the nodes: gap 66.6 %``.
    """
    left_out = open_tiers(result)
    if not left_out:
        return [result.status]
    proved = "placed and preferences" if any(tier.tier == "soft" for tier in result.objective) else "placed"
    parts = [f"{tier_apart(tier.tier)}: gap {gap_text(tier.value, tier.bound)}" for tier in left_out]
    return [f"{proved}: {result.status}", *parts]
