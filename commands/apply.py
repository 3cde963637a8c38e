"""``kubestow apply``: carries a RebalancePlan or a Placement out on a cluster."""

from __future__ import annotations

import click

from commands.common import options
from commands.common.exit_codes import DONE, VIOLATED, fail, refuse, say
from commands.common.help_text import Command
from commands.common.options import Streams, bundled


@click.command(cls=Command)
@options.snapshots
@options.result_file("The RebalancePlan or Placement to carry out (JSON or YAML).", required=True)
@options.everything
@options.strict
@options.max_input
@options.noise()
@bundled(streams=Streams)
def apply(streams: Streams) -> None:
    """Carry a RebalancePlan or a Placement out: exactly what the document says, never a new search.

    Prints what would be done, wave by wave, and touches nothing.
    """
    streams.check()
    from commands.common import inputs, judging, output
    from models.documents.placement import Placement
    from report.terminal import carrying_out

    result = judging.read_result(str(streams.result), streams, "carried out")
    snapshot = inputs.load(streams)
    if result.snapshot.sha256 != snapshot.sha256:
        fail([f"the result is of another snapshot: its sha256 is {result.snapshot.sha256[:12]}, that of this one {snapshot.sha256[:12]}"])
    if isinstance(result, Placement):
        refuse(result.snapshot.fromScratch, "a placement from scratch moves running pods: that needs `kubestow rebalance`")
    faults = judging.judge(snapshot, result, streams).violations
    if faults:
        fail([f"{fault.pod or result.kind}: {fault.why} ({fault.rule})" for fault in faults], VIOLATED)
    output.write_table(streams, lambda surface: carrying_out.steps(result, snapshot, surface), snapshot.capture)
    if not streams.quiet:
        say(carrying_out.line(result))
    raise click.exceptions.Exit(DONE)
