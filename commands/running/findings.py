"""The selection of findings, with the files that it names, and the end of a command that reports findings."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NoReturn

from kubestow.audit.selection import FindingFilters, Reported, unknown
from kubestow.commands.common.exit_codes import DONE, fail, refuse, say
from kubestow.commands.common.selecting import FindingSelection
from kubestow.commands.running.searching import SearchRun
from kubestow.models.documents import settings_file
from kubestow.models.documents.findings.audit_selection import NO_CONFIG, AuditBaseline, AuditConfig, baseline_document
from kubestow.report.documents.output import check_target, counted, write_file
from kubestow.report.documents.results import encode

if TYPE_CHECKING:
    from kubestow.audit.gate.gate import GateResult


def chosen(selecting: FindingSelection, codes: Collection[str]) -> FindingFilters:
    """Read the files and return the selection. ``codes`` lists all known codes."""

    for option, given in (("--select", selecting.select), ("--ignore", selecting.ignore)):
        wrong = unknown(given, codes)
        refuse(
            wrong,
            f"{option}: no finding code starts with {', '.join(map(repr, wrong))} (use a code such as KS203, or a prefix such as KS2)",
        )
    config, baseline = selecting.config, selecting.baseline
    found = settings_file.read(config, AuditConfig) if config is not None else NO_CONFIG
    for field, given in (("select", found.select), ("ignore", found.ignore), ("severities", tuple(found.severities))):
        if wrong := unknown(given, codes):
            fail([f"{config}: AuditConfig: {field}: no finding code starts with {code!r}" for code in wrong])
    known = settings_file.read(baseline, AuditBaseline) if baseline is not None else None
    if selecting.write_baseline is not None:
        check_target(selecting.write_baseline)
    return FindingFilters(selecting.select, selecting.ignore, selecting.namespaces, found, known)


def end(run: SearchRun, selecting: FindingSelection, compared: Reported | GateResult, code: int, line: str) -> NoReturn:
    """End the command. With --write-baseline, write the baseline and exit with 0. ``line`` summarises the findings."""

    line, path = f"{line}, {run.seconds():.1f} s", selecting.write_baseline
    if path is not None:
        write_file(path, [encode(baseline_document(compared.all), "json")])
        count = counted(sum(known.count for known in compared.all.findings), "finding")
        run.end(DONE, f"{line}; {count} written to {path}")
    if compared.stale and not run.streams.quiet:
        say(f"{selecting.baseline}: {compared.stale} of its findings no longer occur; --write-baseline removes them")
    run.end(code, line)
