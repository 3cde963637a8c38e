"""``kubestow nodes``: requests, limits and free capacity of nodes, and the largest pod that still fits."""

from __future__ import annotations

from functools import partial

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, fail, refuse, say
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import Streams, bundled

#: Copy of :data:`kubestow.report.documents.node_rows.SORTS`, whose import would slow ``--help`` down.
_SORTS = ("name", "cpu", "memory", "pods", "limits-cpu", "limits-memory", "free-cpu", "free-memory")


@click.command(cls=GroupedCommand)
@options.snapshots
@click.option(
    "--by", type=click.Choice(["node", "zone", "namespace"]), default="node", help="Show one row for each node, zone or namespace."
)
@click.option(
    "--sort",
    type=click.Choice(_SORTS),
    default="name",
    help="Sort rows: by name, the highest use first, or (free-*) the most free capacity first.",
)
@click.option("-l", "--selector", metavar="SELECTOR", help="Only nodes with these labels, and the pods on them: pool=old,zone!=a.")
@options.output_of("NodeTable")
@options.requests
@options.judged
@bundled(streams=Streams)
def nodes(streams: Streams, by: str, sort: str, selector: str | None, requests: tuple[str, ...]) -> None:
    """List nodes with requests, limits, free capacity and the largest pod that still fits.

    The largest pod is the CPU and memory that one more pod could request; other rules are not considered. For a zone, it is the largest
    pod that fits on one of its nodes without tolerations.
    """
    refuse(by == "namespace" and sort.startswith("free-"), f"--sort {sort}: a namespace has nothing free")
    streams.check()
    from kubestow.commands.common import inputs, output
    from kubestow.models.disruption.node_selection import selected
    from kubestow.report.documents import node_rows, results
    from kubestow.report.terminal import nodes as terminal
    from kubestow.report.writers import WrittenResult

    changes = inputs.what_if({"requests": requests}, streams)
    snapshot = inputs.edit(inputs.load(streams), streams, changes).snapshot
    names = None if selector is None else selected(snapshot, selector)
    refuse(
        selector is not None and names is None, f"--selector: {selector!r} is not a label selector (expected one such as pool=old,zone!=a)"
    )
    if names == []:
        fail([f"--selector {selector}: no node of the snapshot has such labels"])
    # click returns the chosen words as plain str
    found = inputs.checked(lambda: node_rows.table(snapshot, names, by=by, sort=sort))  # type: ignore[arg-type]
    found.notes += snapshot.notes
    output.write_document(streams, partial(terminal.nodes_table, found), partial(results.plain, found), WrittenResult(found, snapshot))
    if not streams.quiet:
        say(terminal.nodes_line(found))
    raise click.exceptions.Exit(DONE)
