"""Options that select findings of an audit, and the files that they name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

import click

from kubestow.commands.common import option_values, options
from kubestow.commands.common.exit_codes import DONE, fail, refuse, say
from kubestow.commands.common.options import Decorator, in_order

if TYPE_CHECKING:
    from kubestow.audit.gate.gate import GateResult
    from kubestow.audit.selection import FindingFilters, Reported
    from kubestow.commands.common.searching import SearchRun


@dataclass(frozen=True)
class FindingSelection:
    """The selection of findings.

    Attributes:
        select: Codes or prefixes to look for; empty for all.
        ignore: Codes or prefixes to leave out.
        namespaces: Namespaces to report; empty for all.
        config: Path of an AuditConfig.
        baseline: Path of the findings that are known.
        write_baseline: Path to write the findings to.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    config: str | None = None
    baseline: str | None = None
    write_baseline: str | None = None


def _codes(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(code.upper() for code in option_values.listed(ctx, param, value))


fail_on: Final[Decorator] = click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="error",
    help="Exit with 4 if a finding has at least this severity.",
)
codes: Final[Decorator] = in_order(
    click.option(
        "--select",
        multiple=True,
        callback=_codes,
        metavar="CODE,...",
        help="Only these codes; KS2 selects all codes that begin with it.",
    ),
    click.option(
        "--ignore",
        multiple=True,
        callback=_codes,
        metavar="CODE,...",
        help="Leave out these codes; the longer of two prefixes wins.",
    ),
)
known: Final[Decorator] = in_order(
    click.option("--config", metavar="FILE", type=options.READ, help="AuditConfig file (YAML): codes that count, and their severities."),
    click.option("--baseline", metavar="FILE", type=options.READ, help="Leave out the findings listed in this file."),
    click.option(
        "--write-baseline",
        metavar="FILE",
        type=options.READ,
        help="Write all findings to FILE as a new baseline, and exit with 0.",
    ),
)


def chosen(selecting: FindingSelection, codes: Collection[str]) -> FindingFilters:
    """Read the files and return the selection. ``codes`` lists all known codes."""
    from kubestow.audit.selection import FindingFilters, unknown
    from kubestow.commands.common import inputs
    from kubestow.models.documents import settings_file
    from kubestow.models.documents.findings.audit_selection import NO_CONFIG, AuditBaseline, AuditConfig
    from kubestow.report.documents.output import check_target

    for option, given in (("--select", selecting.select), ("--ignore", selecting.ignore)):
        wrong = unknown(given, codes)
        refuse(
            wrong,
            f"{option}: no finding code starts with {', '.join(map(repr, wrong))} (use a code such as KS203, or a prefix such as KS2)",
        )
    config, baseline = selecting.config, selecting.baseline
    found = inputs.checked(lambda: settings_file.read(config, AuditConfig)) if config is not None else NO_CONFIG
    for field, given in (("select", found.select), ("ignore", found.ignore), ("severities", tuple(found.severities))):
        if wrong := unknown(given, codes):
            fail([f"{config}: AuditConfig: {field}: no finding code starts with {code!r}" for code in wrong])
    known = inputs.checked(lambda: settings_file.read(baseline, AuditBaseline)) if baseline is not None else None
    if selecting.write_baseline is not None:
        check_target(selecting.write_baseline)
    return FindingFilters(selecting.select, selecting.ignore, selecting.namespaces, found, known)


def end(run: SearchRun, selecting: FindingSelection, compared: Reported | GateResult, code: int, line: str) -> NoReturn:
    """End the command. With --write-baseline, write the baseline and exit with 0. ``line`` summarises the findings."""
    from kubestow.models.documents.findings.audit_selection import baseline_document
    from kubestow.report.documents.output import counted, write_file
    from kubestow.report.documents.results import encode

    line, path = f"{line}, {run.seconds():.1f} s", selecting.write_baseline
    if path is not None:
        write_file(path, [encode(baseline_document(compared.all), "json")])
        count = counted(sum(known.count for known in compared.all.findings), "finding")
        run.end(DONE, f"{line}; {count} written to {path}")
    if compared.stale and not run.streams.quiet:
        say(f"{selecting.baseline}: {compared.stale} of its findings no longer occur; --write-baseline removes them")
    run.end(code, line)
