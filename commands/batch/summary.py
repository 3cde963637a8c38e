"""The summary of a batch: files in its folder, and a form on standard output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from kubestow.commands.batch import series
from kubestow.commands.batch.folder import SUMMARY
from kubestow.commands.common.options import on_terminal
from kubestow.models.documents.batch import BatchSummary, Row
from kubestow.report.documents.csv_rows import batch as as_csv
from kubestow.report.documents.csv_rows import series as series_csv
from kubestow.report.documents.output import write_files, write_stdout
from kubestow.report.documents.results import encode
from kubestow.report.page.fleet import page as fleet
from kubestow.report.terminal import canvas
from kubestow.report.terminal.fleet import summary as terminal


def of(rows: Iterable[Row], *, tasks: int, shard: str | None = None, notes: Iterable[str] = ()) -> BatchSummary:
    """Return the summary of finished rows. ``tasks`` is the total number of tasks."""
    found = list(rows)
    failed = sum(row.result is None for row in found)
    return BatchSummary(found, tasks=tasks, failed=failed, left=tasks - len(found), shard=shard, notes=list(notes))


def add_series(summary: BatchSummary, folder: str) -> None:
    """Add the time series of the rows to a summary."""
    summary.series, notes = series.of(summary.rows, folder)
    unmeasured = sum(not point.utilisation for each in summary.series for point in each.points)
    if unmeasured:
        notes.append(f"the utilisation of {unmeasured:,} snapshots is unknown, because their tasks ran without --series")
    summary.notes += notes


def write(summary: BatchSummary, folder: str) -> None:
    """Write all files of a summary, or none.

    Raises:
        OSError: the files cannot be written.
    """
    document = encode(msgspec.to_builtins(summary), "json")
    files = [(SUMMARY, document), ("summary.csv", as_csv(summary)), ("index.html", fleet.render(summary))]
    files += [("series.csv", series_csv(summary))] if summary.series else []
    write_files([(os.path.join(folder, name), [content]) for name, content in files])


def show(summary: BatchSummary, form: str | None, *, everything: bool) -> None:
    """Write a summary to standard output, by default as a table on a terminal and as JSON elsewhere."""
    forms: dict[str, Callable[[], bytes]] = {
        "table": lambda: _table(summary, everything=everything),
        "csv": lambda: as_csv(summary),
        "json": lambda: encode(msgspec.to_builtins(summary), "json"),
    }
    write_stdout([forms[form or ("table" if on_terminal() else "json")]()])


def _table(summary: BatchSummary, *, everything: bool) -> bytes:
    surface = replace(canvas.standard_output(), everything=everything)
    return canvas.render(list(terminal.table(summary, surface)), surface)
