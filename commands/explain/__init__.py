"""``kubestow explain``: which nodes accept a pod, which rules reject the others, and why no node fits."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from kubestow.commands.common import cluster_choice, options
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, Streams, requested
from kubestow.commands.explain import capture_early
from kubestow.commands.naming import kubectl_words
from kubestow.commands.naming.kubectl_words import NamedObject


@dataclass(frozen=True)
class ExplainSubject:
    """The subject of the explanation.

    Attributes:
        pod: [NAMESPACE/]NAME of one pod.
        workload: [KIND/][NAMESPACE/]NAME of one workload.
        node: Name of one node.
        per_node: True to list the rejecting rules of every node.
        scores: True to list the points of kube-scheduler for every feasible node.
        affinity: [NAMESPACE/]NAME of the pod or workload whose container affinity is printed instead.
        named: The pod or workload among the arguments, such as ``pod/NAME``.
        within: The namespace of -n; None without it.
        all_namespaces: True to look for names in all namespaces.
    """

    pod: str | None
    workload: str | None
    node: str | None
    per_node: bool
    scores: bool
    affinity: str | None
    named: NamedObject | None
    within: str | None
    all_namespaces: bool

    def check(self) -> None:
        """Refuse contradictory options, and names that lack a namespace."""
        others = (self.pod, self.workload, self.node, self.per_node or None, self.scores or None)
        text = "--affinity goes with neither --pod, --workload, --node, --per-node nor --scores"
        refuse(self.affinity is not None and any(other is not None for other in others), text)
        refuse(self.scores and self.per_node, "--scores and --per-node do not go together")
        chosen = (self.pod, self.workload, self.named)
        refuse(self.scores and not any(each is not None for each in chosen), "--scores needs --pod or --workload")
        refuse(self.pod is not None and self.workload is not None, "--pod and --workload do not go together")
        for option, value in (("--pod", self.pod), ("--affinity", self.affinity)):
            where = self.within is not None or (self.all_namespaces and option == "--pod")
            lacking = value is not None and "/" not in value and not where
            refuse(lacking, f"{option}: {value!r} is not of the form NAMESPACE/NAME, and there is no -n NAMESPACE")
        if self.named is not None:
            other = next((name for name in ("pod", "workload", "affinity") if getattr(self, name) is not None), None)
            refuse(other is not None, f"{self.named.typed} and --{other} do not go together")


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
    if value is not None and not re.fullmatch("([^/]+/)?[^/]+", value):
        raise click.BadParameter(f"{value!r} is not of the form NAMESPACE/NAME")
    return value


def _as_for_kubectl(command: Callable[..., Any]) -> Callable[..., Any]:
    """Take ``pod/NAME`` and the like from the arguments. Without manifests, -n is the namespace of pods alone."""

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        given["snapshots"], given["named"] = kubectl_words.split(given["snapshots"])
        given["within"] = given["namespace"]
        if not given["manifests"]:
            given["namespace"] = None
        return command(**given)

    return call


@click.command(cls=GroupedCommand)
@_as_for_kubectl
@cluster_choice.snapshots_with_names
@click.option(
    "-A",
    "--all-namespaces",
    is_flag=True,
    help="Show pods of all namespaces, and find a named pod or workload in any of them; -n is ignored.",
)
@options.namespace_of("Namespace of the named pod or workload, of the pods if none is named, and of manifest objects that have none.")
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
@options.edits_in_namespace
@options.catalogue("for --buy and for remedies that buy nodes")
@options.table_output()
@options.scoped
@requested(ExplainRequest, streams=Streams, subject=ExplainSubject, choices=PolicyChoices, edits=dict)
def explain(request: ExplainRequest) -> None:
    """Show which nodes accept each pending pod, and which rules reject the others.

    After the snapshot, pod/NAME or deploy/NAME (any of kubectl's names of a kind) selects one pod or workload, in the namespace of -n.

    Each pod is judged alone against the bound pods, as kube-scheduler would judge it now. Pods that fit on no node, gangs, and the pods of
    --workload together also get a minimal cause and the cheapest remedies.

    Exit code: always 0.
    """
    request.streams.check()
    request.subject.check()
    refuse(request.scheduler_config is not None and not request.subject.scores, "--scheduler-config requires --scores")
    capture_early.begin(request.streams)
    from kubestow.commands.explain.run import run

    run(request)
