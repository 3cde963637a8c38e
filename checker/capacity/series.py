"""The checker of a Sizing for several snapshots of a cluster: the same nodes, with one placement per snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

import msgspec

from kubestow.checker.capacity.checked import CheckedDocument
from kubestow.checker.capacity.sizing import RULE, check_sizing
from kubestow.checker.capacity.usage_and_cost import millionths
from kubestow.checker.violation import Violation
from kubestow.models.documents.sizing import Moment, Purchase, Sizing
from kubestow.models.snapshot.capture_info import instant
from kubestow.models.snapshot.snapshot import Snapshot

#: The claim of a series that is not checked, in addition to those of any Sizing.
UNCHECKED: Final = "which snapshots decide, and the needs of each alone: that takes a search"


def check_series(clusters: Mapping[str, tuple[Snapshot, Snapshot]], sizing: Sizing) -> CheckedDocument:
    """Check a Sizing for several snapshots.

    Args:
        clusters: Two snapshots by capture time: as it was read, and with the document's edits and manifests for it.
        sizing: The document.

    Raises:
        KeyError: a snapshot is missing.
        QuantityError, InputError: as for :func:`kubestow.checker.placement.verify`.
    """
    series = sizing.series or []
    found = [Violation("", "", RULE, why) for why in (*_faults(sizing, series), *_money_faults(sizing, series))]
    left_open: dict[str, None] = {UNCHECKED: None}
    for part in parts(sizing):
        time = part.snapshot.capturedAt or ""
        judged = check_sizing(*clusters[time], part)
        found += [Violation(each.pod, each.node, each.rule, f"in the snapshot of {time}: {each.why}") for each in judged.violations]
        left_open |= dict.fromkeys(judged.open)
    return CheckedDocument(found, list(left_open))


def parts(sizing: Sizing) -> list[Sizing]:
    """Split a series into one document per snapshot. A document without a placement yields only that of its own snapshot."""
    whole = msgspec.structs.replace(sizing, series=None)
    if sizing.placement is None:
        return [whole]
    return [_part(whole, moment) for moment in sizing.series or ()]


def _part(whole: Sizing, moment: Moment) -> Sizing:
    """Return the document of one snapshot of the series."""
    if moment.placement is None:
        return whole
    return msgspec.structs.replace(
        whole,
        snapshot=moment.snapshot,
        buy=moment.buy,
        placement=moment.placement,
        removed=moment.removed,
        replaced=moment.replaced,
        utilisation=moment.utilisation,
        workloads=[],
    )


def _faults(sizing: Sizing, series: list[Moment]) -> Iterator[str]:
    if len(series) < 2:
        yield f"a series needs at least two snapshots, this one has {len(series)}"
    times = [instant(moment.snapshot.capturedAt) for moment in series]
    if not all(a is not None and b is not None and a < b for a, b in pairwise(times)):
        yield "the snapshots are not in the order of their times"
    if len({moment.snapshot.cluster for moment in series}) > 1:
        yield "the snapshots are of several clusters"
    if sizing.placement is None:
        if any(moment.placement is not None or moment.buy for moment in series):
            yield "there is no placement, and something is bought for a snapshot"
        return
    own = [moment for moment in series if moment.placement is None]
    if len(own) != 1:
        yield f"{len(own)} snapshots have no placement of their own, expected exactly one, the document's own"
    for moment in own:
        if any(getattr(moment, field) != getattr(sizing, field) for field in ("snapshot", "buy", "removed", "replaced", "utilisation")):
            yield f"the snapshot of {moment.snapshot.capturedAt} has no placement of its own, and the document is of another"
    for moment in series:
        if _bought(moment.buy) != _bought(sizing.buy):
            yield f"for the snapshot of {moment.snapshot.capturedAt} other nodes are bought"


def _bought(buy: list[Purchase]) -> list[tuple[str, str, int, float]]:
    """Return the purchases in a comparable form."""
    return sorted((purchase.shape, purchase.zone, purchase.count, purchase.price) for purchase in buy)


def _money_faults(sizing: Sizing, series: list[Moment]) -> Iterator[str]:
    if sizing.placement is None:
        return
    value, bound = millionths(sizing.cost.value), millionths(sizing.cost.bound)
    needs = [(moment, millionths(moment.alone.value), millionths(moment.alone.bound)) for moment in series if moment.alone is not None]
    for moment, cost, least in needs:
        if not 0 <= least <= cost <= value:
            yield f"the snapshot of {moment.snapshot.capturedAt} is said to need from {least} to {cost} millionths alone, all cost {value}"
        if least > bound:
            yield f"the snapshot of {moment.snapshot.capturedAt} needs {least} millionths alone, all are said to need {bound}"
        if least >= bound and not moment.decides:
            yield f"the snapshot of {moment.snapshot.capturedAt} needs as much as all, and is said not to decide"
        if moment.decides and least < bound <= max(other for _, _, other in needs):
            yield f"the snapshot of {moment.snapshot.capturedAt} needs less than all, another as much, and it is said to decide"
    for moment in series:
        if moment.placement is None and not moment.decides and any(other.decides for other in series):
            yield f"the document is of the snapshot of {moment.snapshot.capturedAt}, which is said not to decide, unlike others"
