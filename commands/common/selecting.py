"""Options that say which findings of an audit count, which are known, and what their files hold."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, fail, refuse, say
from kubestow.commands.common.options import Decorator, in_order

if TYPE_CHECKING:
    from kubestow.audit.gate.gate import Checked
    from kubestow.audit.selection import Chosen, Reported
    from kubestow.commands.common.searching import Run


@dataclass(frozen=True)
class Selecting:
    """Which findings are asked for."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    config: str | None = None
    baseline: str | None = None
    write_baseline: str | None = None


def _codes(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(code.upper() for code in options.listed(ctx, param, value))


fail_on: Final[Decorator] = click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="error",
    help="Exit with 4 if a finding has this severity or a higher one.",
)
codes: Final[Decorator] = in_order(
    click.option(
        "--select",
        multiple=True,
        callback=_codes,
        metavar="CODE,...",
        help="Look for these codes only; KS2 stands for all that begin with it.",
    ),
    click.option(
        "--ignore",
        multiple=True,
        callback=_codes,
        metavar="CODE,...",
        help="Do not look for these codes; of two prefixes the longer counts.",
    ),
)
known: Final[Decorator] = in_order(
    click.option("--config", metavar="FILE", type=options.READ, help="Which codes count, and how serious each is (YAML)."),
    click.option("--baseline", metavar="FILE", type=options.READ, help="Leave out the findings that this file knows."),
    click.option(
        "--write-baseline",
        metavar="FILE",
        type=options.READ,
        help="Write the findings to FILE, to be known from then on; exits with 0.",
    ),
)


def chosen(selecting: Selecting, codes: Collection[str]) -> Chosen:
    """Return what is asked for, the files read. ``codes``: all there are."""
    from kubestow.audit.selection import Chosen, unknown
    from kubestow.commands.common import inputs
    from kubestow.models.documents import settings_file
    from kubestow.models.documents.findings.audit_selection import NO_CONFIG, AuditBaseline, AuditConfig
    from kubestow.report.documents.output import check_target

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


def end(run: Run, selecting: Selecting, compared: Reported | Checked, code: int, line: str) -> NoReturn:
    """End the command, with a baseline written if one was asked for: then with 0. ``line``: the findings in one."""
    from kubestow.models.documents.findings.audit_selection import baseline_document
    from kubestow.report.documents.output import counted, write_file
    from kubestow.report.documents.results import encode

    line, path = f"{line}, {run.seconds():.1f} s", selecting.write_baseline
    if path is not None:
        write_file(path, [encode(baseline_document(compared.all), "json")])
        count = counted(sum(known.count for known in compared.all.findings), "finding")
        run.end(DONE, f"{line}; {count} written to {path}")
    if compared.stale and not run.streams.quiet:
        say(f"{selecting.baseline}: {compared.stale} of its findings are gone; --write-baseline writes what is left of it")
    run.end(code, line)
