"""``kubestow survive``: check that all pods can be rescheduled after failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, WorkerChoices, requested


@dataclass(frozen=True)
class SurviveRequest:
    """The options of ``kubestow survive``. ``edits``: what-if edits by field of :class:`kubestow.models.documents.placement.Edits`."""

    streams: Streams
    search: SearchChoices
    choices: PolicyChoices
    sharing: WorkerChoices
    fail: str
    at_once: int
    priority: int | None
    preemption: bool
    catalogue: str | None
    no_remedy: bool
    edits: dict[str, Any]

    def check(self) -> None:
        """Refuse contradictory options."""
        refuse(self.preemption and self.priority is None, "--preemption requires --priority: only pods of lower priority are preempted")
        refuse(not self.fail, "--fail: expected node, zone or the key of a node label")
        self.streams.check()


@click.command(cls=GroupedCommand)
@options.snapshots
@options.table_output("Survival")
@click.option(
    "--fail",
    required=True,
    metavar="node|zone|KEY",
    help="Failure domain: each node, each zone, or all nodes with the same value of a label.",
)
@click.option("--at-once", type=click.IntRange(1), default=1, metavar="K", help="Number of simultaneous failures, in every combination.")
@click.option("--priority", type=int, metavar="N", help="Lowest priority that must be rescheduled.  [default: all]")
@click.option("--preemption", is_flag=True, help="Allow preemption of pods with a lower priority than --priority.")
@click.option("--no-remedy", is_flag=True, help="Do not search for additional nodes that would help.")
@options.catalogue("for --buy and for remedies that buy nodes")
@options.search
@options.workers
@options.manifests("-w", "--manifests", "--workload")
@options.edits
@options.exempting
@requested(SurviveRequest, streams=Streams, search=SearchChoices, choices=PolicyChoices, sharing=WorkerChoices, edits=dict)
def survive(request: SurviveRequest) -> None:
    """Check that every pod can be rescheduled after any single node, zone or domain failure.

    The answer is a proof or a counterexample. With --at-once, several domains fail together.

    Exit codes: 0 if every failure is survived, 3 if one is not or was not decided in time (the result is written), 130 if interrupted (what
    is proved so far is written).
    """
    request.check()
    from kubestow.commands.survive.run import run

    run(request)
