"""Notes on tiers with a large gap that the status does not count, because they were not requested."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kubestow.models.documents.placement import TierResult
from kubestow.solver.objective.domain_evenness import DOMAINS

#: Smaller gaps get no note. The bounds place fractions of pods, so small clusters rarely close them.
_LARGE_GAP_PERCENT: Final = 10


def gap_notes(tiers: Sequence[TierResult], left_out: set[str], *, complete: bool) -> Iterator[str]:
    """Yield a sentence for each tier with a large gap that the status leaves out.

    Args:
        tiers: The tiers of the result.
        left_out: Names of the tiers that the status leaves out.
        complete: True if every pod is placed. Otherwise the bound counts only the running pods.
    """
    for tier in tiers:
        if tier.tier not in left_out or 100 * (tier.bound - tier.value) <= _LARGE_GAP_PERCENT * abs(tier.value):
            continue
        if tier.tier == DOMAINS:
            yield f"evenness of the domains is not proved: unevenness {-tier.value:,}, no placement is below {-tier.bound:,}"
        elif complete:
            reached = f"unevenness {-tier.value:,}, no placement is below {-tier.bound:,}"
            yield f"evenness of the nodes is not proved: {reached}; --strategy spread searches longer"
        else:
            yield "evenness of the nodes is not proved: there is no close bound while pods stay unplaced"
