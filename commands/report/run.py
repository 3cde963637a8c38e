"""The work of ``kubestow report``."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

from kubestow.audit.run import AuditOptions, audit
from kubestow.commands import VERSION
from kubestow.commands.common.exit_codes import DONE, VIOLATED, fail, say
from kubestow.commands.core.reading import Reading
from kubestow.commands.core.waiting_pods import WaitingPods
from kubestow.commands.report import ReportRequest
from kubestow.commands.running import inputs, judging, raw_output, searching
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.documents.sizing import Sizing
from kubestow.report.page import data, render
from kubestow.report.page.capacity.stand_in import stand_in
from kubestow.report.page.places import with_new_pods


def run(request: ReportRequest) -> NoReturn:
    """Examine the cluster or check the result, and write the page."""
    streams = request.streams
    result = judging.read_result(streams.result, streams, "shown") if streams.result is not None else None
    policy = inputs.read_policy(request.choices)
    run = searching.SearchRun(streams)
    series = judging.judge_series(streams, result) if isinstance(result, Sizing) and result.series is not None else None
    original = series[1] if series is not None else inputs.load(streams, Reading(policy) if result is None else Reading(result=result))
    shown: dict[str, Any] = {"original": original, "version": VERSION}
    drawn = None
    if result is None:
        changes = inputs.what_if(streams, {"partial": False, "namespace": request.namespace})
        snapshot = changes.edit(original).snapshot
        waiting = WaitingPods(snapshot, policy, request.choices.include_gated, request.choices.daemon_namespaces)
        shown["verdicts"] = waiting.judge()
        questions = waiting.questions(shown["verdicts"])
        shown["causes"] = run.search(partial(waiting.causes, questions, request.time_limit, None)) if questions else []
        audit_options = AuditOptions(policy, request.choices.daemon_namespaces, time_limit=request.time_limit)
        shown["audit"] = run.search(partial(audit, snapshot, audit_options))
    else:
        judged = series[0] if series is not None else judging.judge(original, result, streams)
        snapshot, revision, shown["violations"] = judged.snapshot, judged.revision, judged.violations
        theirs, ours = result.snapshot.sha256, snapshot.sha256
        if theirs and theirs != ours:  # a result of another snapshot cannot be shown
            fail([f"the result is of another snapshot: its sha256 is {theirs[:12]}, that of this one {ours[:12]}"])
        if isinstance(result, Placement):
            snapshot = with_new_pods(snapshot, result, revision)
        snapshot, drawn = stand_in(snapshot, result)
        shown["capacity"] = result if not isinstance(result, Placement | RebalancePlan) else None
    raw_output.write(streams, [render.render(data.build(snapshot, drawn, **shown))])
    if result is not None:
        inputs.note_gates(original, result.snapshot, streams)
    broken = len(shown.get("violations", ()))
    if broken and not streams.quiet:
        say(f"warning: the result is not valid: {broken} violations (shown on the page)")
    run.end(VIOLATED if broken else DONE)
