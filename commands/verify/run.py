"""The work of ``kubestow verify``."""

from __future__ import annotations

from typing import NoReturn

import click

from kubestow.checker.claims.statement import assumptions, exemption_faults, policy_faults
from kubestow.checker.journal.judge import Judgement, ReleaseClusters, judge_gated, judge_journal
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, VIOLATED, refuse, say
from kubestow.commands.core.reading import Reading
from kubestow.commands.running import inputs, judging, output
from kubestow.commands.verify import VerifyRequest
from kubestow.models.documents import journal as journals
from kubestow.models.documents import policy
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.documents.sizing import Sizing
from kubestow.report.documents.results import violations_document
from kubestow.report.terminal import answers, carried_out
from kubestow.report.writers import WrittenResult


def run(request: VerifyRequest) -> NoReturn:
    """Check the result and write the violations."""
    streams, journal = request.streams, request.journal
    expected = policy.read(path) if (path := request.expect_policy) is not None else None
    result, digest = judging.read_with_digest(str(streams.result), streams, "checked")
    runs = isinstance(result, Placement | RebalancePlan)
    refuse(journal is not None and not runs, f"--journal requires a Placement or a RebalancePlan, not a {result.kind}")
    says = assumptions(result)
    if isinstance(result, Sizing) and result.series is not None:
        judged, snapshot = judging.judge_series(streams, result)
    else:
        snapshot = inputs.load(streams, Reading(result=result))
        judged = judging.judge(snapshot, result, streams, since=request.since)
    found = judged.violations
    found += policy_faults(result, expected) if expected is not None else ()
    found += exemption_faults(result) if request.expect_no_exemptions else ()
    summary = None
    if journal is not None and isinstance(result, Placement | RebalancePlan):
        clusters = ReleaseClusters(judged.snapshot, snapshot, inputs.load_later(request.end, streams) if request.end else None)
        of_run = _judge_run(journal, clusters, result, digest)
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


def _judge_run(path: str, clusters: ReleaseClusters, result: Placement | RebalancePlan, digest: str) -> Judgement:
    """Check the journal of a run against its document. If the document is of another snapshot, check nothing.

    ``digest``: as returned by :func:`kubestow.commands.running.judging.read_with_digest`.
    """
    record = journals.read(path)
    if result.snapshot.sha256 != clusters.snapshot.sha256:
        return Judgement([], None)
    if isinstance(result, Placement) and result.snapshot.workloads:
        return judge_gated(record, result, clusters, digest=digest)
    return judge_journal(record, result, clusters.snapshot, digest=digest, end=clusters.end)
