"""The work of ``kubestow nodes``."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

import click

from kubestow.commands.common.exit_codes import DONE, fail, refuse, say
from kubestow.commands.core.reading import Reading
from kubestow.commands.nodes import NodesRequest
from kubestow.commands.running import inputs, output
from kubestow.models.disruption.node_selection import selected
from kubestow.report.documents import node_rows, results
from kubestow.report.terminal import nodes as terminal
from kubestow.report.writers import WrittenResult


def run(request: NodesRequest) -> NoReturn:
    """Read the snapshot and write the list."""
    streams, selector = request.streams, request.selector
    changes = inputs.what_if(streams, {"requests": request.requests})
    snapshot = changes.edit(inputs.load(streams, Reading())).snapshot
    names = None if selector is None else selected(snapshot, selector)
    refuse(
        selector is not None and names is None, f"--selector: {selector!r} is not a label selector (expected one such as pool=old,zone!=a)"
    )
    if names == []:
        fail([f"--selector {selector}: no node of the snapshot has such labels"])
    # click returns the chosen words as plain str
    found = node_rows.table(snapshot, names, by=request.by, sort=request.sort)  # type: ignore[arg-type]
    found.notes += snapshot.notes
    result = WrittenResult(found, snapshot)
    output.write_document(streams, partial(terminal.nodes_table, found), partial(results.plain, found), result)
    if not streams.quiet:
        say(terminal.nodes_line(found))
    raise click.exceptions.Exit(DONE)
