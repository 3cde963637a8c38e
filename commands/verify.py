"""``kubestow verify``: the independent check of a Placement or a RebalancePlan."""

from __future__ import annotations

import click

from commands.common import options
from commands.common.exit_codes import DONE, VIOLATED, say
from commands.common.help_text import Command
from commands.common.options import Streams, bundled


@click.command(cls=Command)
@options.snapshots
@options.result_file("The Placement or RebalancePlan to check (JSON or YAML).", required=True)
@options.manifests("-w", "--manifests", "--workload")
@click.option(
    "--expect-policy", metavar="FILE", type=options.READ, help="Refuse a document of another policy (exit 4), exemptions included."
)
@click.option("--expect-no-exemptions", is_flag=True, help="Refuse a document that exempts namespaces from anti-affinity (exit 4).")
@options.output("table", "json", "yaml")
@options.strict
@options.max_input
@options.noise()
@bundled(streams=Streams)
def verify(streams: Streams, expect_policy: str | None, expect_no_exemptions: bool) -> None:
    """Check a Placement or a RebalancePlan against the raw objects, independently of the solver.

    What-if edits that the document names are made again; manifests that were added (or rolled out) are given once more with -w. A plan is
    replayed step by step. Policy, exemptions and edits are those that the document names: they are printed, even with -q, and can be
    refused. Exits with 0 when every assignment or step is valid, 4 when there are violations.
    """
    streams.check()
    from checker.claims.statement import assumptions, exemption_faults, policy_faults
    from commands.common import inputs, judging, output
    from models.documents import policy
    from report.documents.results import violations_document
    from report.terminal import answers

    expected = inputs.checked(lambda: policy.read(expect_policy)) if expect_policy is not None else None
    result = judging.read_result(str(streams.result), streams, "checked")
    says = assumptions(result)
    snapshot = inputs.load(streams)
    judged = judging.judge(snapshot, result, streams)
    found = judged.violations
    found += policy_faults(result, expected) if expected is not None else ()
    found += exemption_faults(result) if expect_no_exemptions else ()
    output.write_document(
        streams,
        lambda _: answers.violations_table(found, result, says, judged.open),
        lambda: violations_document(found, says, judged.open, snapshot.omissions),
        capture=snapshot.capture,
    )
    for clause in says:
        say(f"note: the document says: {clause}")
    if not streams.quiet:
        say(answers.verdict_line(found, result))
    raise click.exceptions.Exit(VIOLATED if found else DONE)
