"""``kubestow audit``: what is wrong with a cluster, or will be."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from commands.common import options
from commands.common.exit_codes import DONE, VIOLATED, fail, refuse, say
from commands.common.help_text import Command
from commands.common.options import PolicyChoices, Streams, WorkerChoices, bundled

if TYPE_CHECKING:
    from audit.selection import Chosen, Reported


@dataclass(frozen=True)
class Selecting:
    """Which findings are asked for."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    config: str | None = None
    baseline: str | None = None
    write_baseline: str | None = None


def _keys(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(value):
        raise click.BadParameter("an empty name (expected a label key)")
    return value


def _codes(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(code.upper() for code in options.listed(ctx, param, value))


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


@click.command(cls=Command)
@options.snapshots
@options.manifests("-w", "--manifests", "--workload")
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
@click.option(
    "--select", multiple=True, callback=_codes, metavar="CODE,...", help="Look for these codes only; KS2 stands for all that begin with it."
)
@click.option(
    "--ignore", multiple=True, callback=_codes, metavar="CODE,...", help="Do not look for these codes; of two prefixes the longer counts."
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    callback=options.listed,
    metavar="NS,...",
    help="Report only what concerns objects or pods of these namespaces.",
)
@click.option("--config", metavar="FILE", type=options.READ, help="Which codes count, and how serious each is (YAML).")
@click.option("--baseline", metavar="FILE", type=options.READ, help="Leave out the findings that this file knows.")
@click.option(
    "--write-baseline",
    metavar="FILE",
    type=options.READ,
    help="Write the findings to FILE, to be known from then on; exits with 0.",
)
@options.time_limit(60.0, "Seconds for the whole run; what was not checked by then is named.")
@options.workers
@options.table_output("junit")
@options.policy
@options.daemon_namespaces
@options.versions
@options.strict
@options.max_input
@options.noise()
@bundled(streams=Streams, choices=PolicyChoices, selecting=Selecting, sharing=WorkerChoices)
def audit(streams: Streams, choices: PolicyChoices, selecting: Selecting, sharing: WorkerChoices, fail_on: str, **chosen: Any) -> None:
    """Look for what is wrong with a cluster, or will be.

    Rules that are broken now, that can never hold or bind nobody, anti-affinity that can block whole domains, rolling updates that would
    get stuck, budgets that allow nothing, the redundancy of the control plane. Every finding has a code, which the documentation explains.
    Exits with 4 if a finding that is reported has the severity of --fail-on or a higher one.
    """
    streams.check()
    from audit.catalogue import CODES
    from audit.run import AuditOptions, examine
    from commands.common import inputs, output, searching
    from models.documents.audit import to_builtins
    from report.documents import csv_rows
    from report.terminal import audit as terminal

    picked = _chosen(selecting, CODES)
    pool = searching.workers(sharing)
    policy = inputs.read_policy(choices)
    run = searching.Run(streams)
    snapshot = inputs.edit(inputs.load(streams, gangs=False, of=policy), streams).snapshot
    asked = AuditOptions(policy, choices.daemon_namespaces, chosen=picked, **chosen)
    found, reported = run.search(partial(examine, snapshot, asked, pool=pool))
    found.notes += snapshot.notes
    inputs.stamp(found.snapshot, snapshot)
    titles = {code: kind.title for code, kind in CODES.items() if picked.has(code)}
    output.write_document(
        streams,
        lambda surface: terminal.audit_table(found, titles, surface),
        lambda: to_builtins(found),
        csv=lambda: csv_rows.audit(found),
        junit=lambda: terminal.junit(found, titles, fail_on),
        snapshot=snapshot,
    )
    line = f"{terminal.audit_line(found)}, {run.seconds():.1f} s"
    if selecting.write_baseline is not None:
        run.end(DONE, f"{line}; {_write(selecting.write_baseline, reported)}")
    if reported.stale and not streams.quiet:
        say(f"{selecting.baseline}: {reported.stale} of its findings are gone; --write-baseline writes what is left of it")
    run.end(VIOLATED if terminal.failing(found, fail_on) else DONE, line)


def _chosen(selecting: Selecting, codes: Collection[str]) -> Chosen:
    """Read what is asked for. ``codes``: all there are."""
    from audit.selection import Chosen, unknown
    from commands.common import inputs
    from models.documents import settings_file
    from models.documents.audit_selection import NO_CONFIG, AuditBaseline, AuditConfig
    from report.documents.output import check_target

    for option, given in (("--select", selecting.select), ("--ignore", selecting.ignore)):
        wrong = unknown(given, codes)
        refuse(wrong, f"{option}: {', '.join(map(repr, wrong))}: no code begins so (expected one such as KS203, or KS2 for all that do)")
    config, baseline = selecting.config, selecting.baseline
    found = inputs.checked(lambda: settings_file.read(config, AuditConfig)) if config is not None else NO_CONFIG
    for field, given in (("select", found.select), ("ignore", found.ignore), ("severities", tuple(found.severities))):
        if wrong := unknown(given, codes):
            fail([f"{config}: AuditConfig: {field}: {code!r}: no code begins so" for code in wrong])
    known = inputs.checked(lambda: settings_file.read(baseline, AuditBaseline)) if baseline is not None else None
    if selecting.write_baseline is not None:
        check_target(selecting.write_baseline)
    return Chosen(selecting.select, selecting.ignore, selecting.namespaces, found, known)


def _write(path: str, reported: Reported) -> str:
    """Write a baseline, and say what is in it."""
    from models.documents.audit_selection import baseline_document
    from report.documents.output import counted, write_file
    from report.documents.results import encode

    write_file(path, [encode(baseline_document(reported.all), "json")])
    return f"{counted(sum(known.count for known in reported.all.findings), 'finding')} written to {path}"
