"""``kubestow report``: write an HTML page about a cluster or a result."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from kubestow.commands import VERSION
from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, VIOLATED, fail, refuse, say
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, Streams, bundled


@click.command(cls=GroupedCommand)
@options.snapshots
@options.result_file("Result to show: of solve, rebalance, fit, size, survive or upgrade.  [default: show the cluster]")
@options.manifests("-w", "--manifests", "--workload")
@options.namespace
@options.output_file("Write the page to FILE")
@options.time_limit(10.0, "Time limit for causes, without --result.")
@options.scoped
@bundled(streams=Streams, choices=PolicyChoices)
def report(streams: Streams, choices: PolicyChoices, time_limit: float, namespace: str | None) -> None:
    """Write a self-contained HTML page about a cluster, or about a result for it.

    Without --result, the page shows the cluster, why pods are pending, and the findings of the audit. With --result, give the manifests
    that the result was made with again with -w. The result is checked first, and the page shows violations.

    Exit codes: 0 if the page is written, 4 if the result has violations (the page is written).
    """
    streams.check()
    _check_usage(streams, choices)
    refuse(namespace is not None and streams.result is not None, "-n and --result exclude each other: the result records its namespace")
    from kubestow.audit.run import AuditOptions, audit
    from kubestow.commands.common import inputs, judging, output, searching
    from kubestow.models.documents.placement import Placement
    from kubestow.models.documents.rebalance_plan import RebalancePlan
    from kubestow.models.documents.sizing import Sizing
    from kubestow.report.page import data, render
    from kubestow.report.page.capacity.stand_in import stand_in
    from kubestow.report.page.places import with_new_pods

    result = judging.read_result(streams.result, streams, "shown") if streams.result is not None else None
    policy = inputs.read_policy(choices)
    run = searching.SearchRun(streams)
    series = judging.judge_series(streams, result) if isinstance(result, Sizing) and result.series is not None else None
    original = (
        series[1]
        if series is not None
        else inputs.load(
            streams,
            policy if result is None else None,
            result=result.snapshot if result is not None else None,
            of=result.policy if result is not None else None,
            empty=isinstance(result, Sizing),
        )
    )
    shown: dict[str, Any] = {"original": original, "version": VERSION}
    drawn = None
    if result is None:
        snapshot = inputs.edit(original, streams, inputs.what_if({"partial": False, "namespace": namespace}, streams)).snapshot
        pending = judging.Pending(run, snapshot, policy, choices)
        shown["verdicts"] = pending.judge()
        shown["causes"] = pending.causes(shown["verdicts"], time_limit)
        shown["audit"] = run.search(partial(audit, snapshot, AuditOptions(policy, choices.daemon_namespaces, time_limit=time_limit)))
    else:
        judged = series[0] if series is not None else judging.judge(original, result, streams)
        snapshot, revision, shown["violations"] = judged.snapshot, judged.revision, judged.violations
        theirs, ours = result.snapshot.sha256, snapshot.sha256
        if theirs and theirs != ours:  # a result of another snapshot cannot be shown
            fail([f"the result is of another snapshot: its sha256 is {theirs[:12]}, that of this one {ours[:12]}"])
        if isinstance(result, Placement):
            snapshot = inputs.checked(partial(with_new_pods, snapshot, result, revision))
        snapshot, drawn = stand_in(snapshot, result)
        shown["capacity"] = result if not isinstance(result, Placement | RebalancePlan) else None
    output.write(streams, [render.render(inputs.checked(lambda: data.build(snapshot, drawn, **shown)))])
    if result is not None:
        inputs.note_gates(original, result.snapshot, streams)
    broken = len(shown.get("violations", ()))
    if broken and not streams.quiet:
        say(f"warning: the result is not valid: {broken} violations (shown on the page)")
    run.end(VIOLATED if broken else DONE)


def _check_usage(streams: Streams, choices: PolicyChoices) -> None:
    """Refuse to write a page to a terminal, and options that the result records itself."""
    refuse(streams.output is None and options.on_terminal(), "an HTML page cannot be shown on a terminal: give -o FILE")
    text = "--policy, --shorthand, --daemon-namespaces and --include-gated cannot be combined with --result, which records them"
    refuse(streams.result is not None and choices != PolicyChoices(), text)
