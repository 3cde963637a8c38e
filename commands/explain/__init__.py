"""``kubestow explain``: which nodes accept a pod, which rules reject the others, and why no node fits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, Streams, requested


@dataclass(frozen=True)
class ExplainSubject:
    """The subject of the explanation.

    Attributes:
        pod: NAMESPACE/NAME of one pod.
        workload: [KIND/][NAMESPACE/]NAME of one workload.
        node: Name of one node.
        per_node: True to list the rejecting rules of every node.
        scores: True to list the points of kube-scheduler for every feasible node.
        affinity: NAMESPACE/NAME of the pod or workload whose container affinity is printed instead.
    """

    pod: str | None
    workload: str | None
    node: str | None
    per_node: bool
    scores: bool
    affinity: str | None

    def check(self) -> None:
        """Refuse contradictory options."""
        others = (self.pod, self.workload, self.node, self.per_node or None, self.scores or None)
        text = "--affinity goes with neither --pod, --workload, --node, --per-node nor --scores"
        refuse(self.affinity is not None and any(other is not None for other in others), text)
        refuse(self.scores and self.per_node, "--scores and --per-node do not go together")
        refuse(self.scores and self.pod is None and self.workload is None, "--scores needs --pod or --workload")
        refuse(self.pod is not None and self.workload is not None, "--pod and --workload do not go together")


@dataclass(frozen=True)
class ExplainRequest:
    """The options of ``kubestow explain``. ``edits``: what-if edits by field of :class:`kubestow.models.documents.placement.Edits`."""

    streams: Streams
    subject: ExplainSubject
    choices: PolicyChoices
    scheduler_config: str | None
    time_limit: float
    catalogue: str | None
    edits: dict[str, Any]


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
    "--scores", is_flag=True, help="List the points that kube-scheduler gives each feasible node, by plugin; with --pod or --workload."
)
@options.scheduler_config
@click.option(
    "--affinity", callback=_pod_name, metavar="NS/NAME", help="Print the container affinity matrix of this pod or workload instead."
)
@options.time_limit(10.0, "Time limit for causes and remedies.")
@options.manifests("-w", "--manifests")
@options.edits
@options.catalogue("for --buy and for remedies that buy nodes")
@options.table_output()
@options.scoped
@requested(ExplainRequest, streams=Streams, subject=ExplainSubject, choices=PolicyChoices, edits=dict)
def explain(request: ExplainRequest) -> None:
    """Show which nodes accept each pending pod, and which rules reject the others.

    Each pod is judged alone against the bound pods, as kube-scheduler would judge it now. Pods that fit on no node, gangs, and the pods of
    --workload together also get a minimal cause and the cheapest remedies.

    Exit code: always 0.
    """
    request.streams.check()
    request.subject.check()
    from kubestow.commands.explain.run import run

    run(request)
