"""The check of a Sizing for several snapshots of a cluster: the same nodes, and a placement on them for each snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

import msgspec

from kubestow.checker.capacity.accounts import millionths
from kubestow.checker.capacity.checked import Checked
from kubestow.checker.capacity.sizing import RULE, check_sizing
from kubestow.checker.violation import Violation
from kubestow.models.documents.sizing import Moment, Purchase, Sizing
from kubestow.models.snapshot.capture_info import instant
from kubestow.models.snapshot.snapshot import Snapshot

#: What is not checked beside what is not of any Sizing.
OPEN: Final = "which snapshots decide, and what each of them needs alone: that takes a search"


def check_series(clusters: Mapping[str, tuple[Snapshot, Snapshot]], sizing: Sizing) -> Checked:
    """Return everything that is wrong with a document of a series. ``clusters``: by the time of each snapshot that it names, as it was
    read, and with the edits and manifests that the document names of it.

    Raises:
        KeyError: a snapshot is missing.
        QuantityError, InputError: as for :func:`kubestow.checker.placement.verify`.
    """
    series = sizing.series or []
    found = [Violation("", "", RULE, why) for why in (*_faults(sizing, series), *_money_faults(sizing, series))]
    left_open: dict[str, None] = {OPEN: None}
    for part in parts(sizing):
        time = part.snapshot.capturedAt or ""
        judged = check_sizing(*clusters[time], part)
        found += [Violation(each.pod, each.node, each.rule, f"in the snapshot of {time}: {each.why}") for each in judged.violations]
        left_open |= dict.fromkeys(judged.open)
    return Checked(found, list(left_open))


def parts(sizing: Sizing) -> list[Sizing]:
    """Return what a document says of each of its snapshots, as a document of it alone; of a document without a placement the one that it
    is of."""
    whole = msgspec.structs.replace(sizing, series=None)
    if sizing.placement is None:
        return [whole]
    return [_part(whole, moment) for moment in sizing.series or ()]


def _part(whole: Sizing, moment: Moment) -> Sizing:
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
        yield f"a series is of two snapshots at least, and this one of {len(series)}"
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
        yield f"{len(own)} snapshots have no placement of their own, expected one, of which the document is"
    for moment in own:
        if any(getattr(moment, field) != getattr(sizing, field) for field in ("snapshot", "buy", "removed", "replaced", "utilisation")):
            yield f"the snapshot of {moment.snapshot.capturedAt} has no placement of its own, and the document is of another"
    for moment in series:
        if _bought(moment.buy) != _bought(sizing.buy):
            yield f"for the snapshot of {moment.snapshot.capturedAt} other nodes are bought"


def _bought(buy: list[Purchase]) -> list[tuple[str, str, int, float]]:
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
