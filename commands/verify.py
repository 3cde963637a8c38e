"""``kubestow verify``: check a result independently of the solver."""

from __future__ import annotations

import click

from kubestow.commands.common import options
from kubestow.commands.common.execution_grace import since
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, VIOLATED, refuse, say
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import Streams, bundled


@click.command(cls=GroupedCommand)
@options.snapshot_files
@options.result_file("Result to check (JSON or YAML): of solve, rebalance, fit, size, survive or upgrade.", required=True)
@options.manifests("-w", "--manifests", "--workload")
@click.option(
    "--expect-policy", metavar="FILE", type=options.READ, help="Refuse a document made under another policy or other exemptions (exit 4)."
)
@click.option(
    "--expect-no-exemptions", is_flag=True, help="Refuse a document that exempts namespaces from required anti-affinity (exit 4)."
)
@click.option("--journal", metavar="FILE", type=click.Path(), help="Also check this journal of a run of `kubestow apply`.")
@click.option(
    "--end",
    multiple=True,
    metavar="SNAPSHOT",
    type=click.Path(),
    help="Snapshot of the cluster after that run; repeatable.",
)
@since
@options.output("table", "json", "yaml")
@options.judged
@bundled(streams=Streams)
def verify(streams: Streams, expect_policy: str | None, expect_no_exemptions: bool, journal: str | None, **more: tuple[str, ...]) -> None:
    """Check a result against the raw objects, independently of the solver.

    The result is a Placement, RebalancePlan, Fit, Sizing, Survival or Upgrade. Give manifests that were added or rolled out again with -w;
    what-if edits are repeated from the document. A plan is replayed step by step, an upgrade wave by wave, a survival failure by failure.
    Policy, exemptions and edits are the document's own: they are always printed, and options below refuse unexpected ones.

    With --journal, compare the requests of a run of apply with the document: steps done, steps remaining, and requests that belong to no
    step (violations). With --end, compare the cluster after the run with the document.

    Exit codes: 0 if the result is valid, 3 if steps remain or the cluster ended in another state, 4 if there are violations.
    """
    streams.check(*(end := more["end"]), *more["since"])
    refuse(end and journal is None, "--end requires --journal, which maps the document's pods to their replacements")
    from kubestow.checker.claims.statement import assumptions, exemption_faults, policy_faults
    from kubestow.commands.common import inputs, judging, output
    from kubestow.models.documents import policy
    from kubestow.models.documents.placement import Placement
    from kubestow.models.documents.rebalance_plan import RebalancePlan
    from kubestow.models.documents.sizing import Sizing
    from kubestow.report.documents.results import violations_document
    from kubestow.report.terminal import answers, carried_out
    from kubestow.report.writers import WrittenResult

    expected = inputs.checked(lambda: policy.read(expect_policy)) if expect_policy is not None else None
    result, digest = judging.read_with_digest(str(streams.result), streams, "checked")
    runs = isinstance(result, Placement | RebalancePlan)
    refuse(journal is not None and not runs, f"--journal requires a Placement or a RebalancePlan, not a {result.kind}")
    says = assumptions(result)
    if isinstance(result, Sizing) and result.series is not None:
        judged, snapshot = judging.judge_series(streams, result)
    else:
        snapshot = inputs.load(streams, result=result.snapshot, of=result.policy, empty=isinstance(result, Sizing))
        judged = judging.judge(snapshot, result, streams, since=more["since"])
    found = judged.violations
    found += policy_faults(result, expected) if expected is not None else ()
    found += exemption_faults(result) if expect_no_exemptions else ()
    summary = None
    if journal is not None and isinstance(result, Placement | RebalancePlan):
        from kubestow.checker.journal.judge import ReleaseClusters

        clusters = ReleaseClusters(judged.snapshot, snapshot, inputs.load_later(end, streams) if end else None)
        of_run = judging.judge_run(journal, clusters, result, digest)
        summary, found = of_run.summary, [*found, *of_run.violations]
    output.write_document(
        streams,
        lambda surface: [
            *answers.violations_table(found, result, says, judged.open),
            *(carried_out.carried_out(summary, surface) if summary is not None else ()),
        ],
        lambda: violations_document(found, says, judged.open, snapshot.notes, summary),
        WrittenResult(found, snapshot),
    )
    for clause in says:
        say(f"note: the document says: {clause}")
    if not streams.quiet:
        say(answers.verdict_line(found, result))
        if summary is not None:
            say(carried_out.summary_line(summary))
    undone = summary is not None and (summary.left or (summary.end is not None and summary.end.missed))
    raise click.exceptions.Exit(VIOLATED if found else INCOMPLETE if undone else DONE)
