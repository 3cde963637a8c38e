"""``kubestow explain``: which nodes accept a pod, which rules reject the others, and why no node fits."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, fail, refuse, say
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, Streams, bundled

if TYPE_CHECKING:
    from kubestow.models.documents.policy import Policy
    from kubestow.models.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class ExplainSubject:
    """The subject of the explanation.

    Attributes:
        pod: NAMESPACE/NAME of one pod.
        workload: [KIND/][NAMESPACE/]NAME of one workload.
        node: Name of one node.
        per_node: True to list the rejecting rules of every node.
        affinity: NAMESPACE/NAME of the pod or workload whose container affinity is printed instead.
    """

    pod: str | None
    workload: str | None
    node: str | None
    per_node: bool
    affinity: str | None

    def check(self) -> None:
        """Refuse contradictory options."""
        others = (self.pod, self.workload, self.node, self.per_node or None)
        text = "--affinity goes with neither --pod, --workload, --node nor --per-node"
        refuse(self.affinity is not None and any(other is not None for other in others), text)
        refuse(self.pod is not None and self.workload is not None, "--pod and --workload do not go together")


def _pod_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch("[^/]+/[^/]+", value):
        raise click.BadParameter(f"{value!r} is not of the form NAMESPACE/NAME")
    return value


@click.command(cls=GroupedCommand)
@options.snapshots
@click.option("--pod", callback=_pod_name, metavar="NS/NAME", help="Only this pod, pending or bound.")
@click.option("--workload", metavar="WORKLOAD", help="Only the pods of this workload, [KIND/][NAMESPACE/]NAME, each and all together.")
@click.option("--node", metavar="NODE", help="Only this node.")
@click.option("--per-node", is_flag=True, help="List all rejecting rules of every node.")
@click.option(
    "--affinity", callback=_pod_name, metavar="NS/NAME", help="Print the container affinity matrix of this pod or workload instead."
)
@options.time_limit(10.0, "Time limit for causes and remedies.")
@options.manifests("-w", "--manifests")
@options.edits
@options.catalogue("for --buy and for remedies that buy nodes")
@options.table_output()
@options.scoped
@bundled(streams=Streams, subject=ExplainSubject, choices=PolicyChoices)
def explain(
    streams: Streams, subject: ExplainSubject, choices: PolicyChoices, time_limit: float, catalogue: str | None, **edits: Any
) -> None:
    """Show which nodes accept each pending pod, and which rules reject the others.

    Each pod is judged alone against the bound pods, as kube-scheduler would judge it now. Pods that fit on no node, gangs, and the pods of
    --workload together also get a minimal cause and the cheapest remedies.

    Exit code: always 0.
    """
    streams.check()
    subject.check()
    from kubestow.commands.common import inputs, judging, output, searching
    from kubestow.models.cluster.storage.attachments import held_elsewhere
    from kubestow.report.documents import csv_rows, results
    from kubestow.report.terminal import answers
    from kubestow.report.terminal.causes import causes as causes_text
    from kubestow.report.terminal.workloads import owners
    from kubestow.report.writers import WrittenResult

    nodes = inputs.read_catalogue(catalogue)
    changes = inputs.what_if(edits, streams, catalogue=nodes)
    policy = inputs.read_policy(choices)
    run = searching.SearchRun(streams)
    snapshot = inputs.load(streams, policy if subject.affinity is None else None, whole=subject.affinity is None, empty=bool(edits["buy"]))
    snapshot = inputs.edit(snapshot, streams, changes).snapshot
    remaining_catalogue = nodes.without(edits["buy"]) if nodes is not None else None
    if subject.affinity is not None:
        _explain_affinity(streams, snapshot, policy, subject.affinity)
    pod, workload, node, per_node = subject.pod, subject.workload, subject.node, subject.per_node
    pending = judging.Pending(run, snapshot, policy, choices)
    verdicts = pending.judge(pod=pod, workload=workload, node=node)
    _warn_of_gates(streams, snapshot, pod)
    claim_notes = held_elsewhere(snapshot, {verdict.pod: verdict.feasible for verdict in verdicts})
    inputs.note(claim_notes)
    idle = _idle(streams, snapshot, {verdict.pod for verdict in verdicts})
    causes = (
        pending.causes(verdicts, time_limit, whole=workload is not None, catalogue=remaining_catalogue)
        if node is None and not per_node
        else []
    )
    owned = cache(lambda: owners(snapshot, (verdict.pod for verdict in verdicts)))
    output.write_document(
        streams,
        lambda surface: [
            *answers.explanation(verdicts, surface, per_node=per_node, owned=owned()),
            *causes_text(causes, owned()),
        ],
        lambda: results.explain_document(
            verdicts, per_node=per_node, causes=causes, notes=[*snapshot.notes, *claim_notes, *idle], gates=snapshot.gates
        ),
        csv=lambda: csv_rows.explanation_per_node(verdicts) if per_node else csv_rows.explanation(verdicts, causes, snapshot),
        result=WrittenResult(None, snapshot),
    )
    run.end(DONE)


def _explain_affinity(streams: Streams, snapshot: Snapshot, policy: Policy, name: str) -> NoReturn:
    """Write the container affinity of a pod or workload and exit."""
    from kubestow.commands.common import inputs, output
    from kubestow.report.documents import csv_rows, results
    from kubestow.report.terminal import answers
    from kubestow.report.writers import WrittenResult
    from kubestow.solver.explain.affinity_matrix import matrix
    from kubestow.solver.explain.per_node import UnknownPod

    try:
        found = inputs.checked(lambda: matrix(snapshot, name, policy))
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
    from kubestow.models.admission.deprecated_labels import idle_terms
    from kubestow.models.kube.objects import pod_key

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
