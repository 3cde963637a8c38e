"""The snapshots of a time series for which a Sizing holds: the needs of each, and the deciding ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.catalogue import money
from kubestow.models.documents.sizing import Moment, Sizing, Utilisation
from kubestow.report.documents.numbers import percent
from kubestow.report.documents.output import some
from kubestow.report.terminal.canvas import Surface, bar, grid, inset, more, plain

#: Maximum number of listed snapshots.
_MAX_SNAPSHOTS: Final = 31
_SHOWN: Final = ("cpu", "memory")


def decided_by(sizing: Sizing) -> str:
    """Return the deciding snapshots: ``decided by the snapshot of 2026-11-03T20:00:00Z, which alone needs as much``."""
    series = sizing.series or []
    deciding = [moment for moment in series if moment.decides]
    names = _names([moment.snapshot.capturedAt or "" for moment in deciding])
    if sizing.placement is None:
        return f"it fails for the snapshot of {names}" if deciding else ""
    dearest = max((money.parse(moment.alone.value) for moment in series if moment.alone is not None), default=0)
    if not deciding:
        return f"the deciding snapshots were not found; no single snapshot needs more than {money.text(dearest)} per hour"
    alone = any(moment.alone is not None and moment.alone.bound >= sizing.cost.bound for moment in deciding)
    if len(deciding) == 1:
        return f"decided by the snapshot of {names}, which alone needs as much"
    if alone:
        return f"decided by the snapshots of {names}, each of which alone needs as much"
    return f"decided by the snapshots of {names} together; no single snapshot needs more than {money.text(dearest)} per hour"


def moments(sizing: Sizing, surface: Surface) -> Iterator[RenderableType]:
    """Yield a row per snapshot, with marks for deciding ones."""
    series = sizing.series or []
    shown = sorted(sorted(range(len(series)), key=lambda i: (not series[i].decides, i))[: surface.limit(_MAX_SNAPSHOTS)])
    table = grid("snapshot", "pods", "alone, per hour", *_SHOWN, "the fullest", "", right=(1, 2), title="Over time")
    for moment in (series[i] for i in shown):
        use = {row.resource: row for row in moment.utilisation if not row.shape}
        table.add_row(
            plain(moment.snapshot.capturedAt or ""),
            f"{moment.snapshot.pending:,}",
            _alone(moment) if moment.decides or sizing.placement is not None else "",
            *(bar(use[name].requested, use[name].allocatable, name, surface) if name in use else "" for name in _SHOWN),
            _fullest(list(use.values())),
            Text("decides" if sizing.placement is not None else "fails", style="bold yellow") if moment.decides else "",
        )
    yield inset(table)
    yield from more(len(series) - len(shown), "... and {:,} more (--all lists them)")


def _alone(moment: Moment) -> str:
    if moment.alone is None:
        return "none"
    value, bound = money.parse(moment.alone.value), money.parse(moment.alone.bound)
    return money.text(value) if value == bound else f"{money.text(bound)} to {money.text(value)}"


def _fullest(use: Sequence[Utilisation]) -> str:
    """Return the resource with the highest utilisation."""
    if not any(row.requested for row in use):
        return ""
    fullest = max(use, key=lambda row: Fraction(row.requested, max(1, row.allocatable)))
    return f"{fullest.resource}, {percent(fullest.requested, fullest.allocatable)} %"


def _names(times: Sequence[str]) -> str:
    """Return the times, shortened if there are many."""
    if len(times) > 3:
        return some(times, 3)
    return " and ".join([", ".join(times[:-1]), times[-1]]) if len(times) > 1 else "".join(times)
