"""The work of ``kubestow explain``."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, partial
from typing import NoReturn

import click

from kubestow.commands.common.exit_codes import DONE, fail, say
from kubestow.commands.common.options import Streams
from kubestow.commands.core.reading import Reading
from kubestow.commands.core.waiting_pods import WaitingPods
from kubestow.commands.explain import ExplainRequest, ExplainSubject
from kubestow.commands.explain import subject as subjects
from kubestow.commands.running import inputs, output, searching
from kubestow.models.admission.deprecated_labels import idle_terms
from kubestow.models.cluster.storage.attachments import held_elsewhere
from kubestow.models.documents.placement import Cause
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import pod_key
from kubestow.models.scheduler.profiles import DEFAULT_SCHEDULER, default_rules, unmodelled
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents import csv_rows, results
from kubestow.report.terminal import answers
from kubestow.report.terminal.causes import causes as causes_text
from kubestow.report.terminal.workloads import owners
from kubestow.report.writers import WrittenResult
from kubestow.solver.explain.affinity_matrix import matrix
from kubestow.solver.explain.per_node import PodVerdict, UnknownPod
from kubestow.solver.kube_scheduler.score_tables import Scorer


def run(request: ExplainRequest) -> NoReturn:
    """Judge the pods and write the explanation."""
    streams, choices = request.streams, request.choices
    changes = inputs.what_if(streams, request.edits, inputs.read_catalogue(request.catalogue))
    policy = inputs.read_policy(choices)
    run = searching.SearchRun(streams)
    whole = request.subject.affinity is None
    given = run.read(policy, changes, Reading(policy if whole else None, whole=whole, empty=changes.buys))
    snapshot = given.after
    subject = subjects.found(request.subject, snapshot, streams)
    if subject.affinity is not None:
        _explain_affinity(streams, snapshot, policy, subject.affinity)
    pod, workload, node, per_node = subject.pod, subject.workload, subject.node, subject.per_node
    waiting = WaitingPods(snapshot, policy, choices.include_gated, choices.daemon_namespaces)
    verdicts = waiting.judge(pod=pod, workload=workload, node=node)
    schedulers = inputs.read_schedulers(request.scheduler_config)
    unread = [*unmodelled(schedulers), *default_rules(schedulers)]
    inputs.note_omissions(unread, streams)
    if subject.scores:
        verdicts = _scored(Scorer(schedulers, policy, choices.daemon_namespaces), snapshot, verdicts)
    if (namespace := subjects.only_namespace(subject, streams)) is not None:
        verdicts = [verdict for verdict in verdicts if verdict.pod.partition("/")[0] == namespace]
        inputs.note([] if verdicts else [f"no pending pods in namespace {namespace}"])
    _warn_of_gates(streams, snapshot, pod)
    claim_notes = held_elsewhere(snapshot, {verdict.pod: verdict.feasible for verdict in verdicts})
    inputs.note(claim_notes)
    idle = _idle(streams, snapshot, {verdict.pod for verdict in verdicts})
    asking = node is None and not per_node and not subject.scores
    questions = waiting.questions(verdicts, whole=workload is not None) if asking else []
    causes = run.search(partial(waiting.causes, questions, request.time_limit, given.catalogue)) if questions else []
    owned = cache(lambda: owners(snapshot, (verdict.pod for verdict in verdicts)))
    output.write_document(
        streams,
        lambda surface: [
            *answers.explanation(verdicts, surface, per_node=per_node, owned=owned()),
            *causes_text(causes, owned()),
        ],
        lambda: results.explain_document(
            verdicts, per_node=per_node, causes=causes, notes=[*snapshot.notes, *claim_notes, *idle, *unread], gates=snapshot.gates
        ),
        csv=lambda: _rows(subject, verdicts, causes, snapshot),
        result=WrittenResult(None, snapshot),
    )
    run.end(DONE)


def _rows(subject: ExplainSubject, verdicts: list[PodVerdict], causes: list[Cause], snapshot: Snapshot) -> bytes:
    """Return the explanation as comma-separated values."""
    if subject.scores:
        return csv_rows.explanation_scores(verdicts)
    return csv_rows.explanation_per_node(verdicts) if subject.per_node else csv_rows.explanation(verdicts, causes, snapshot)


def _scored(scorer: Scorer, snapshot: Snapshot, verdicts: list[PodVerdict]) -> list[PodVerdict]:
    """Return the verdicts with the points of kube-scheduler, and print the pods that no profile schedules."""
    scored = scorer.scored(snapshot, verdicts)
    names = {pod_key(pod): pod.spec.schedulerName or DEFAULT_SCHEDULER for pod in snapshot.pods}
    inputs.note([f"{each.pod}: no profile has its schedulerName {names[each.pod]}: no points" for each in scored if each.scores is None])
    return scored


def _explain_affinity(streams: Streams, snapshot: Snapshot, policy: Policy, name: str) -> NoReturn:
    """Write the container affinity of a pod or workload and exit."""

    try:
        found = matrix(snapshot, name, policy)
    except UnknownPod as error:
        fail([f"--affinity: {error}"])
    for warning in () if streams.quiet else found.warnings:
        say(f"warning: {warning}")
    output.write_document(
        streams,
        lambda _: answers.affinity_table(found),
        lambda: results.affinity_document(found),
        csv=lambda: csv_rows.affinity(found),
        result=WrittenResult(None, snapshot),
    )
    raise click.exceptions.Exit(DONE)


def _idle(streams: Streams, snapshot: Snapshot, pods: Collection[str]) -> list[str]:
    """Print and return notes on rules that have no effect because of deprecated labels."""
    notes = idle_terms((pod for pod in snapshot.pods if pod_key(pod) in pods), snapshot.nodes)
    for note in notes if not streams.quiet else ():
        say(f"note: {note}")
    return notes


def _warn_of_gates(streams: Streams, snapshot: Snapshot, name: str | None) -> None:
    """Warn that a gated pod is judged as if it had no scheduling gates."""
    for pod in snapshot.pods if name is not None and not streams.quiet else ():
        if pod.spec.schedulingGates and f"{pod.metadata.namespace}/{pod.metadata.name}" == name:
            gates = ", ".join(gate.name for gate in pod.spec.schedulingGates)
            say(f"warning: {name} has scheduling gates ({gates}) and is judged as if they were removed")
