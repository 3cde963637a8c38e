"""Writing of results in the requested forms, to standard output or files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from kubestow.commands.common.options import Streams, on_terminal
from kubestow.commands.running.raw_output import write
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.origin import origin
from kubestow.report.documents.output import write_files, write_stdout
from kubestow.report.documents.results import encode
from kubestow.report.terminal import canvas
from kubestow.report.writers import WrittenResult, writers_of


def write_document(
    streams: Streams,
    table: Callable[[Any], Iterable[Any]],
    document: Callable[[], object],
    result: WrittenResult,
    **others: Callable[[], bytes],
) -> None:
    """Write a result in each form of -f. Without -f, write a table on a terminal and JSON elsewhere. Write all files or none.

    Args:
        streams: The destinations and forms.
        table: Draws the table on a surface, also for the format wide.
        document: Returns the document for JSON and YAML.
        result: The result, for the writers of its kind, and for the header of tables.
        others: Other writers by format.
    """
    writers = writers_of(result.kind)
    made = []
    for target in streams.targets:
        form = target.form or ("table" if target.printed and on_terminal() else "json")
        if form in ("table", "wide"):
            data = _drawn(table, form, streams, printed=target.printed, header=origin(result.snapshot))
        elif form in others:
            data = others[form]()
        elif form in writers:
            data = writers[form].write(result)
        else:
            with no_gc():  # garbage collection would walk the whole plain document
                data = encode(document(), "yaml" if form == "yaml" else "json")
        made.append((target, data))
    for target, data in made:
        if target.printed:
            write_stdout([data])
    write_files([(str(target.file), [data]) for target, data in made if not target.printed])


def write_table(streams: Streams, table: Callable[[Any], Iterable[Any]], snapshot: Snapshot) -> None:
    """Write a table to the file of -o or to standard output."""
    printed = streams.output in (None, "-")
    write(streams, [_drawn(table, "wide" if streams.wants("wide") else "table", streams, printed=printed, header=origin(snapshot))])


def _drawn(table: Callable[[Any], Iterable[Any]], form: str, streams: Streams, *, printed: bool, header: str) -> bytes:
    surface = canvas.standard_output() if printed else canvas.a_file()
    surface = replace(surface, wide=form == "wide", everything=streams.everything)
    return canvas.render([*canvas.header(header), *table(surface)], surface)
