"""The work of ``kubestow audit``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn

from kubestow.audit.catalogue import CODES
from kubestow.audit.run import AuditOptions, examine
from kubestow.commands import VERSION
from kubestow.commands.audit import AuditRequest, OtherControllers
from kubestow.commands.common.exit_codes import DONE, VIOLATED
from kubestow.commands.core.given import WhatIf
from kubestow.commands.core.reading import Reading, stamp
from kubestow.commands.running import findings, inputs, output, searching
from kubestow.commands.running.worker_pool import workers
from kubestow.models.documents.findings.audit import to_builtins
from kubestow.models.positions import find
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.findings import outcomes
from kubestow.report.terminal.findings import audit as terminal
from kubestow.report.writers import WrittenResult


def run(request: AuditRequest) -> NoReturn:
    """Find the problems and write them."""
    streams = request.streams
    picked = findings.chosen(request.chosen, CODES)
    pool = workers(request.sharing)
    policy = inputs.read_policy(request.choices)
    run = searching.SearchRun(streams)
    given = run.read(policy, WhatIf(inputs.manifests(streams)), Reading(of=policy, gangs=False))
    snapshot = given.after
    known = inputs.history(snapshot, request.since, request.execution_grace, policy, streams)
    audit_options = AuditOptions(
        policy,
        request.choices.daemon_namespaces,
        chosen=picked,
        history=known,
        time_limit=request.time_limit,
        machine_labels=request.machine_labels,
        stage_labels=request.stage_labels,
    )
    judging = _judging(request.others, snapshot)
    found, reported = run.search(partial(examine, snapshot, audit_options, pool=pool))
    if judging is not None:
        run.search(partial(judging, found, audit_options))
    found.notes += snapshot.notes
    stamp(found.snapshot, snapshot)
    rules = {code: rule for code, rule in CODES.items() if picked.has(code)}
    titles = {code: rule.title for code, rule in rules.items()}
    output.write_document(
        streams,
        lambda surface: terminal.audit_table(found, titles, surface),
        partial(to_builtins, found),
        WrittenResult(
            found,
            snapshot,
            VERSION,
            run.seconds,
            lambda: outcomes.of_audit(found, rules, request.fail_on, streams.snapshots, find.read(streams.manifests, given.files).of),
        ),
    )
    findings.end(run, request.chosen, reported, VIOLATED if terminal.failing(found, request.fail_on) else DONE, terminal.audit_line(found))


def _judging(controllers: OtherControllers, snapshot: Snapshot) -> Callable[..., None] | None:
    """Read the files and return a function that adds their judgement to an audit. None without files."""
    if controllers.descheduler_policy is None and not controllers.karpenter:
        return None
    from kubestow.audit import other_controllers as others  # slow to import: the engines of plans and of capacity

    catalogue = inputs.read_catalogue(controllers.catalogue)
    given = others.read(snapshot, controllers.descheduler_policy, controllers.karpenter, catalogue)
    return partial(others.judge_others, snapshot, given)
