"""``kubestow audit``: find scheduling problems of a cluster, present and future."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kubestow.commands.common import execution_grace, option_values, options, selecting
from kubestow.commands.common.exit_codes import DONE, VIOLATED, refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, Streams, WorkerChoices, bundled
from kubestow.commands.common.selecting import FindingSelection

if TYPE_CHECKING:
    from kubestow.models.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Beside:
    """Configuration files of the descheduler and of Karpenter, whose decisions are judged as well."""

    descheduler_policy: str | None = None
    karpenter: tuple[str, ...] = ()
    catalogue: str | None = None

    def judging(self, snapshot: Snapshot) -> Callable[..., None] | None:
        """Read the files and return a function that adds their judgement to an audit. None without files."""
        if self.descheduler_policy is None and not self.karpenter:
            return None
        from kubestow.audit import other_controllers as others
        from kubestow.commands.common import inputs

        catalogue = inputs.read_catalogue(self.catalogue)
        given = inputs.checked(lambda: others.read(snapshot, self.descheduler_policy, self.karpenter, catalogue))
        return partial(others.judge_others, snapshot, given)


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
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    callback=option_values.listed,
    metavar="NS,...",
    help="Report only findings about objects or pods of these namespaces.",
)
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
@execution_grace.options
@options.catalogue("for replacements with --karpenter")
@options.time_limit(60.0, "Time limit for the whole run; unfinished checks are listed.")
@options.workers
@options.table_output("Audit")
@options.exempting
@bundled(streams=Streams, choices=PolicyChoices, chosen=FindingSelection, sharing=WorkerChoices, beside=Beside)
def audit(
    streams: Streams, choices: PolicyChoices, chosen: FindingSelection, sharing: WorkerChoices, beside: Beside, fail_on: str, **more: Any
) -> None:
    """Find scheduling problems of a cluster, present and future.

    The audit reports rules that are broken, can never hold or have no effect; anti-affinity that can block whole domains; rolling updates
    that would get stuck; budgets that allow no eviction; and a lack of redundancy in the control plane. Every finding has a code, which
    docs/audit.md explains.

    Exit codes: 0 if no reported finding reaches the severity of --fail-on, 4 otherwise.
    """
    streams.check(beside.descheduler_policy, beside.catalogue, *beside.karpenter, *more["since"])
    refuse(beside.catalogue is not None and not beside.karpenter, "--catalogue requires --karpenter")
    from kubestow.audit.catalogue import CODES
    from kubestow.audit.run import AuditOptions, examine
    from kubestow.commands import VERSION
    from kubestow.commands.common import inputs, output, searching
    from kubestow.commands.core import reading
    from kubestow.models.documents.findings.audit import to_builtins
    from kubestow.models.positions import find
    from kubestow.models.snapshot import sources
    from kubestow.report.findings import outcomes
    from kubestow.report.terminal.findings import audit as terminal
    from kubestow.report.writers import WrittenResult

    picked = selecting.chosen(chosen, CODES)
    pool = searching.workers(sharing)
    policy = inputs.read_policy(choices)
    run = searching.SearchRun(streams)
    cluster = inputs.load(streams, gangs=False, of=policy)
    with sources.keeping() as files:
        snapshot = inputs.edit(cluster, streams).snapshot
    known = execution_grace.history(snapshot, more.pop("since"), more.pop("execution_grace"), policy, streams)
    audit_options = AuditOptions(policy, choices.daemon_namespaces, chosen=picked, history=known, **more)
    judging = beside.judging(snapshot)
    found, reported = run.search(partial(examine, snapshot, audit_options, pool=pool))
    if judging is not None:
        run.search(partial(judging, found, audit_options))
    found.notes += snapshot.notes
    reading.stamp(found.snapshot, snapshot)
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
            lambda: outcomes.of_audit(found, rules, fail_on, streams.snapshots, find.read(streams.manifests, files).of),
        ),
    )
    selecting.end(run, chosen, reported, VIOLATED if terminal.failing(found, fail_on) else DONE, terminal.audit_line(found))
