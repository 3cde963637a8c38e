"""``kubestow audit``: find scheduling problems of a cluster, present and future."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from kubestow.commands.common import execution_grace as grace
from kubestow.commands.common import options, selecting
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, Streams, WorkerChoices, requested
from kubestow.commands.common.selecting import FindingSelection


@dataclass(frozen=True)
class OtherControllers:
    """Configuration files of the descheduler and of Karpenter, whose decisions are judged as well."""

    descheduler_policy: str | None = None
    karpenter: tuple[str, ...] = ()
    catalogue: str | None = None


@dataclass(frozen=True)
class AuditRequest:
    """The options of ``kubestow audit``."""

    streams: Streams
    choices: PolicyChoices
    chosen: FindingSelection
    sharing: WorkerChoices
    others: OtherControllers
    fail_on: str
    time_limit: float
    machine_labels: tuple[str, ...]
    stage_labels: dict[str, str]
    execution_grace: int | None
    since: tuple[str, ...]

    def check(self) -> None:
        """Refuse contradictory options."""
        others = self.others
        self.streams.check(others.descheduler_policy, others.catalogue, *others.karpenter, *self.since)
        refuse(others.catalogue is not None and not others.karpenter, "--catalogue requires --karpenter")


def _keys(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(value):
        raise click.BadParameter("an empty name (expected a label key)")
    return value


def _stages(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> dict[str, str]:
    """Parse STAGE=KEY values into a mapping."""
    found: dict[str, str] = {}
    for text in value:
        stage, _, key = text.partition("=")
        if stage not in ("zones", "clouds", "locations") or not key:
            raise click.BadParameter(f"{text!r} is not of the form STAGE=KEY, STAGE one of zones, clouds, locations")
        if stage in found:
            raise click.BadParameter(f"{stage} is given more than once")
        found[stage] = key
    return found


@click.command(cls=GroupedCommand)
@options.snapshots
@options.manifests("-w", "--manifests", "--workload")
@selecting.fail_on
@click.option(
    "--machine-label",
    "machine_labels",
    multiple=True,
    callback=_keys,
    metavar="KEY",
    help="Node label of the physical machine; repeatable (the first that all control-plane nodes have is used).",
)
@click.option(
    "--stage-label",
    "stage_labels",
    multiple=True,
    callback=_stages,
    metavar="STAGE=KEY",
    help="Node label of a stage: zones, clouds or locations; repeatable.",
)
@selecting.codes
@selecting.namespaces
@selecting.known
@click.option(
    "--descheduler-policy",
    metavar="FILE",
    type=options.READ,
    help="Predict the descheduler's evictions under this policy, and whether each helps.",
)
@click.option(
    "--karpenter",
    metavar="NODEPOOL",
    multiple=True,
    type=options.READ,
    help="Report what Karpenter could consolidate with these NodePools, and what blocks it; repeatable.",
)
@grace.options
@options.catalogue("for replacements with --karpenter")
@options.time_limit(60.0, "Time limit for the whole run; unfinished checks are listed.")
@options.workers
@options.table_output("Audit")
@options.exempting
@requested(AuditRequest, streams=Streams, choices=PolicyChoices, chosen=FindingSelection, sharing=WorkerChoices, others=OtherControllers)
def audit(request: AuditRequest) -> None:
    """Find scheduling problems of a cluster, present and future.

    The audit reports rules that are broken, can never hold or have no effect; anti-affinity that can block whole domains; rolling updates
    that would get stuck; budgets that allow no eviction; and a lack of redundancy in the control plane. Every finding has a code, which
    docs/audit.md explains.

    Exit codes: 0 if no reported finding reaches the severity of --fail-on, 4 otherwise.
    """
    request.check()
    from kubestow.commands.audit.run import run

    run(request)
