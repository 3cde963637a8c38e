"""``kubestow simulate``: the placement that kube-scheduler itself would choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from kubestow.commands.common import options
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, Streams, requested


@dataclass(frozen=True)
class SimulateRequest:
    """The options of ``kubestow simulate``. ``edits``: what-if edits by field of :class:`kubestow.models.documents.placement.Edits`."""

    streams: Streams
    choices: PolicyChoices
    scheduler_config: str | None
    seed: int
    runs: int
    catalogue: str | None
    edits: dict[str, Any]


@click.command(cls=GroupedCommand)
@options.snapshots
@options.table_output("Placement")
@options.scheduler_config
@click.option("--seed", type=options.SEED, default=0, metavar="N", help="Seed of the choice among nodes with equal points.")
@click.option(
    "--runs", type=click.IntRange(1, 10_000), default=1, metavar="N", help="Simulate N times, with one seed after the other.  [default: 1]"
)
@options.manifests("-w", "--manifests")
@options.edits
@options.catalogue("for --buy")
@options.scoped
@requested(SimulateRequest, streams=Streams, choices=PolicyChoices, edits=dict)
def simulate(request: SimulateRequest) -> None:
    """Show what kube-scheduler would do with the pending pods, one at a time.

    Pods come by priority, then by age. Each goes to a node with the most points; among equal ones the seed decides. A pod that would
    preempt others is listed with the pods to evict, and stays unplaced. Pods that stay have the scheduler's own message.

    Exit codes: 0 if all pods are placed, 3 if some are not (the result is written).
    """
    request.streams.check(request.scheduler_config)
    from kubestow.commands.simulate.run import run

    run(request)
