"""The summary of a batch for terminals: one row per task, failed ones last with reasons."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.catalogue import money
from kubestow.models.documents.batch import BatchSummary, Row
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import Surface, grid, heading, more, plain
from kubestow.report.terminal.columns import Cell, Name

#: Maximum numbers of listed rows, with and without a result.
_MAX_ROWS: Final = 60
_MAX_FAILED_ROWS: Final = 20


def line(found: BatchSummary) -> str:
    """Return the result of the batch as a phrase."""
    parts = [counted(found.tasks, "task")]
    parts += [f"{found.failed:,} failed"] if found.failed else []
    parts += [f"{found.left:,} left"] if found.left else []
    return ", ".join([*parts, f"share {found.shard}"] if found.shard else parts)


def table(found: BatchSummary, surface: Surface) -> Iterator[RenderableType]:
    """Yield the parts of the report on a batch: counts, results, failed tasks, changes over time, and notes."""
    good = [row for row in found.rows if row.result is not None]
    failed = [row for row in found.rows if row.result is None]
    yield Text(line(found), style="bold red" if failed or found.left else "bold green")
    if good:
        yield Text()
        yield _grid(good[: surface.limit(_MAX_ROWS)])
        yield from more(len(good) - surface.limit(_MAX_ROWS), by=0)
    if failed:
        yield heading(f"Failed ({len(failed):,})")
        rows = grid("snapshot", "task", "exit", "why", right=(2,), prose=(3,))
        for row in failed[: surface.limit(_MAX_FAILED_ROWS)]:
            rows.add_row(
                Name(", ".join(row.snapshot)), plain(_task(row)), "" if row.exit is None else str(row.exit), plain(row.reason or "")
            )
        yield rows
        yield from more(len(failed) - surface.limit(_MAX_FAILED_ROWS), by=0)
    if found.series:
        yield from _over_time(found, surface)
    if found.notes:
        yield heading("Notes")
        for note in found.notes[: surface.limit(_MAX_FAILED_ROWS)]:
            yield plain(note)
        yield from more(len(found.notes) - surface.limit(_MAX_FAILED_ROWS), by=0)


def _over_time(found: BatchSummary, surface: Surface) -> Iterator[RenderableType]:
    """Yield the end of each series, and changes since its first snapshot."""
    yield heading("Over time")
    names = ("cluster", "snapshots", "cpu", "memory", "cpu stranded", "memory stranded", "appeared", "went")
    rows = grid(*names, right=range(1, len(names)))
    for each in found.series[: surface.limit(_MAX_ROWS)]:
        first, last = each.points[0], each.points[-1]
        parts = ((first.utilisation, last.utilisation), (first.fragmentation, last.fragmentation))
        shares = [(before.get(name), after.get(name)) for before, after in parts for name in ("cpu", "memory")]
        changes = sum(len(p.appeared) for p in each.points), sum(len(p.went) for p in each.points)
        rows.add_row(Name(each.cluster), f"{len(each.points):,}", *(_trend(*pair) for pair in shares), *(f"{n:,}" for n in changes))
    yield rows
    yield from more(len(found.series) - surface.limit(_MAX_ROWS), by=0)


def _trend(first: float | None, last: float | None) -> str:
    """Return both shares, rounded down so that 100% means all."""
    if last is None or first is None:
        return ""
    return f"{int(first * 100)}% - {int(last * 100)}%"


def _task(row: Row) -> str:
    return f"{row.command} {row.set}" if row.set else row.command


def _grid(rows: list[Row]) -> RenderableType:
    """Return the table, without columns that are empty in all rows."""
    several = len({(row.command, row.set) for row in rows}) > 1
    every: dict[str, list[Cell]] = {
        "cluster": [Name(row.cluster or _stem(row)) for row in rows],
        "captured": [plain(row.capturedAt or "") for row in rows],
        "task": [plain(_task(row) if several else "") for row in rows],
        "exit": ["" if row.exit is None else str(row.exit) for row in rows],
        "placed": ["" if row.pods is None else f"{row.placed or 0:,} of {row.pods:,}" for row in rows],
        "findings": [plain(", ".join(f"{n:,} {severity}" for severity, n in row.findings.items())) for row in rows],
        "cost": ["" if row.cost is None else money.text(money.rounded(row.cost)) for row in rows],
        "verdict": [plain(row.verdict or "") for row in rows],
        "seconds": ["" if row.seconds is None else f"{row.seconds:.1f}" for row in rows],
    }
    columns = {name: cells for name, cells in every.items() if any(cells) or name in ("exit", "verdict")}
    numbers = [i for i, name in enumerate(columns) if name in ("exit", "placed", "cost", "seconds")]
    found = grid(*columns, right=numbers)
    for cells in zip(*columns.values(), strict=True):
        found.add_row(*cells)
    return found


def _stem(row: Row) -> str:
    """Return the name of a snapshot that does not name its cluster."""
    return os.path.basename(row.snapshot[0].rstrip("/")) if row.snapshot else ""
