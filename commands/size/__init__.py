"""``kubestow size``: the cheapest nodes of a catalogue that run all pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, requested


@dataclass(frozen=True)
class SizeChoices:
    """Options of the sizing problem.

    Attributes:
        pool: Label selector of the nodes to replace; None to add nodes.
        survive: Failure domain to survive: node, zone or a label key.
        at_once: Number of domains that fail at once.
        priority: Lowest priority that must be rescheduled after a failure.
        kinds: Maximum number of distinct shapes to buy.
        series: True if each snapshot is the cluster at another time.
        without_buffers: True to ignore CapacityBuffers.
    """

    pool: str | None
    survive: str | None
    at_once: int | None
    priority: int | None
    kinds: int | None
    series: bool
    without_buffers: bool

    def check(self, search: SearchChoices) -> None:
        """Refuse contradictory options."""
        refuse(
            self.pool is not None and search.from_scratch, "--pool and --from-scratch exclude each other: --from-scratch replaces all nodes"
        )
        given = self.at_once is not None or self.priority is not None
        refuse(given and self.survive is None, "--at-once and --priority require --survive")
        refuse(self.series and self.survive is not None, "--survive and --series exclude each other: failures concern one snapshot")
        refuse(self.survive == "", "--survive: expected node, zone or the key of a node label")


@dataclass(frozen=True)
class SizeRequest:
    """The options of ``kubestow size``. ``edits``: what-if edits by field of :class:`kubestow.models.documents.placement.Edits`."""

    streams: Streams
    search: SearchChoices
    choices: PolicyChoices
    problem: SizeChoices
    catalogue: str
    edits: dict[str, Any]

    def check(self) -> None:
        """Refuse contradictory options."""
        self.problem.check(self.search)
        self.streams.check(self.catalogue)
        refuse(self.problem.series and len(self.streams.snapshots) < 2, "--series requires at least two SNAPSHOT arguments")


@click.command(cls=GroupedCommand)
@options.snapshots
@options.table_output("Sizing")
@click.option("--catalogue", required=True, metavar="FILE", type=options.READ, help="Catalogue of node shapes and prices.")
@click.option("--from-scratch", is_flag=True, help="Replace all nodes except the control plane: the cheapest cluster for all movable pods.")
@click.option("--pool", metavar="SELECTOR", help="Replace the nodes with these labels.")
@click.option(
    "--survive", metavar="node|zone|KEY", help="All pods must be rescheduled after the failure of any node, zone or domain of a label."
)
@click.option("--at-once", type=click.IntRange(1), metavar="K", help="With --survive: number of simultaneous failures.  [default: 1]")
@click.option("--priority", type=int, metavar="N", help="With --survive: lowest priority that must be rescheduled.  [default: all]")
@click.option("--series", is_flag=True, help="Each SNAPSHOT is the cluster at another time: find nodes that suffice at all times.")
@click.option("--without-buffers", is_flag=True, help="Ignore the headroom of CapacityBuffers.")
@click.option("--kinds", type=click.IntRange(1), metavar="K", help="Maximum number of distinct shapes to buy.")
@options.search
@options.manifests("-w", "--manifests", "--workload")
@options.namespace
@options.requests
@options.scoped
@requested(SizeRequest, streams=Streams, search=SearchChoices, choices=PolicyChoices, problem=SizeChoices, edits=dict)
def size(request: SizeRequest) -> None:
    """Find the cheapest nodes of a catalogue that run all pods.

    By default, add nodes for pending pods and for manifests given with -w. With --pool, replace the nodes of a pool; with --from-scratch,
    replace all nodes. The snapshot may have no nodes.

    Exit codes: 0 if a purchase places all pods, 3 if none does or none was found, 130 if interrupted (the best result so far is written).
    """
    request.check()
    from kubestow.commands.size.run import run

    run(request)
