"""``kubestow nodes``: requests, limits and free capacity of nodes, and the largest pod that still fits."""

from __future__ import annotations

from dataclasses import dataclass

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import Streams, requested

#: Copy of :data:`kubestow.report.documents.node_rows.SORTS`, whose import would slow ``--help`` down.
_SORTS = ("name", "cpu", "memory", "pods", "limits-cpu", "limits-memory", "free-cpu", "free-memory")


@dataclass(frozen=True)
class NodesRequest:
    """The options of ``kubestow nodes``."""

    streams: Streams
    by: str
    sort: str
    selector: str | None
    requests: tuple[str, ...]

    def check(self) -> None:
        """Refuse contradictory options."""
        refuse(self.by == "namespace" and self.sort.startswith("free-"), f"--sort {self.sort}: a namespace has nothing free")
        self.streams.check()


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
@requested(NodesRequest, streams=Streams)
def nodes(request: NodesRequest) -> None:
    """List nodes with requests, limits, free capacity and the largest pod that still fits.

    The largest pod is the CPU and memory that one more pod could request; other rules are not considered. For a zone, it is the largest
    pod that fits on one of its nodes without tolerations.
    """
    request.check()
    from kubestow.commands.nodes.run import run

    run(request)
