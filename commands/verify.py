"""``kubestow verify``: the independent check of a Placement or a RebalancePlan."""

from __future__ import annotations

import click

from commands.common import options
from commands.common.exit_codes import DONE, VIOLATED, say
from commands.common.options import Streams, bundled


@click.command()
@options.snapshots
@options.result_file("The Placement or RebalancePlan to check (JSON or YAML).", required=True)
@options.manifests("-w", "--workload")
@options.output("table", "json", "yaml")
@options.strict
@options.noise()
@bundled(streams=Streams)
def verify(streams: Streams) -> None:
    """Check a Placement or a RebalancePlan against the raw objects, independently of the solver.

    What-if edits that the document names are made again; manifests that were added (or rolled out) are given once more with -w. A plan is
    replayed step by step. Exits with 0 when every assignment or step is valid, 4 when there are violations.
    """
    streams.check()
    from commands.common import inputs, judging, output
    from report.documents.results import violations_document
    from report.terminal import answers

    result = judging.read_result(str(streams.result), streams, "checked")
    found = judging.judge(inputs.load(streams), result, streams).violations
    output.write_document(streams, lambda _: answers.violations_table(found, result), lambda: violations_document(found))
    if not streams.quiet:
        say(answers.verdict_line(found, result))
    raise click.exceptions.Exit(VIOLATED if found else DONE)
