"""``kubestow audit``: what is wrong with a cluster, or will be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from commands.common import options
from commands.common.exit_codes import DONE, VIOLATED
from commands.common.options import PolicyChoices, Streams, bundled


def _keys(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(value):
        raise click.BadParameter("an empty name (expected a label key)")
    return value


def _stages(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> dict[str, str]:
    """Return STAGE=KEY as a mapping."""
    found: dict[str, str] = {}
    for text in value:
        stage, _, key = text.partition("=")
        if stage not in ("zones", "clouds", "locations") or not key:
            raise click.BadParameter(f"{text!r} is not of the form STAGE=KEY, STAGE one of zones, clouds, locations")
        if stage in found:
            raise click.BadParameter(f"{stage} is given more than once")
        found[stage] = key
    return found


@click.command()
@options.snapshots
@options.manifests("-w", "--workload")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="error",
    help="Exit with 4 if a finding has this severity or a higher one.",
)
@click.option(
    "--machine-label",
    "machine_labels",
    multiple=True,
    callback=_keys,
    metavar="KEY",
    help="Node label that names the physical machine; repeatable, the first that all control-plane nodes carry counts.",
)
@click.option(
    "--stage-label",
    "stage_labels",
    multiple=True,
    callback=_stages,
    metavar="STAGE=KEY",
    help="Node label of the stage zones, clouds or locations; repeatable.",
)
@options.time_limit(60.0, "Seconds for the whole run; what was not checked by then is named.")
@options.output("table", "json", "yaml", "junit")
@options.policy
@options.daemon_namespaces
@options.strict
@options.noise()
@bundled(streams=Streams, choices=PolicyChoices)
def audit(streams: Streams, choices: PolicyChoices, fail_on: str, **chosen: Any) -> None:
    """Look for what is wrong with a cluster, or will be.

    Rules that are broken now, that can never hold or bind nobody, anti-affinity that can block whole domains, rolling updates that would
    get stuck, budgets that allow nothing, the redundancy of the control plane. Every finding has a code, which the documentation explains.
    Exits with 4 if a finding has the severity of --fail-on or a higher one.
    """
    streams.check()
    from audit.catalogue import CODES
    from audit.run import AuditOptions
    from audit.run import audit as look
    from commands.common import inputs, output, searching
    from models.documents.audit import to_builtins
    from report.terminal import audit as terminal

    policy = inputs.read_policy(choices)
    run = searching.Run(streams)
    snapshot = inputs.edit(inputs.load(streams), streams).snapshot
    found = run.search(partial(look, snapshot, AuditOptions(policy, choices.daemon_namespaces, **chosen)))
    found.notes += snapshot.omissions
    titles = {code: kind.title for code, kind in CODES.items()}
    output.write_document(
        streams,
        lambda _: terminal.audit_table(found, titles),
        lambda: to_builtins(found),
        junit=lambda: terminal.junit(found, titles, fail_on),
    )
    run.end(VIOLATED if terminal.failing(found, fail_on) else DONE, f"{terminal.audit_line(found)}, {run.seconds():.1f} s")
