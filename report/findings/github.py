"""GitHub annotations, written as workflow commands.

Source: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands; for escaping,
``packages/core/src/command.ts`` of https://github.com/actions/toolkit.
"""

from __future__ import annotations

from typing import Final

from kubestow.models.documents.findings.audit import Severity
from kubestow.report.documents.output import one_line
from kubestow.report.findings.outcomes import STREAM, Report, ReportOutcome
from kubestow.report.findings.places import path, place

_COMMANDS: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "info": "notice"}


def github(report: Report) -> bytes:
    """Return one line per outcome. Known outcomes are notices."""
    return "".join(f"{_annotation(outcome, report)}\n" for outcome in report.outcomes).encode("utf-8", "backslashreplace")


def _annotation(outcome: ReportOutcome, report: Report) -> str:
    where = place(outcome, report)
    name = outcome.rule.code if outcome.rule.code == outcome.rule.name else f"{outcome.rule.code} {outcome.rule.name}"
    properties: list[tuple[str, object]] = []
    if where is not None and where.file != STREAM:
        properties += [("file", path(where.file)), ("line", where.line), ("col", where.column)]
    properties.append(("title", f"{name}{' (known)' * outcome.known}"))
    shown = ",".join(f"{key}={_property(str(value))}" for key, value in properties if value is not None)
    lines = [f"{outcome.about}: {outcome.message}", outcome.why, *([f"→ {outcome.fix}"] if outcome.fix else ())]
    return f"::{'notice' if outcome.known else _COMMANDS[outcome.severity]} {shown}::{_data(chr(10).join(map(one_line, lines)))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
