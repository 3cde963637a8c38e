"""SARIF 2.1.0, the Static Analysis Results Interchange Format (https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html)."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from kubestow.models.documents.findings.audit import Severity
from kubestow.report.documents.output import one_line
from kubestow.report.findings.outcomes import FitRule, OutcomeRule, Report, ReportOutcome
from kubestow.report.findings.places import place, uri

#: Base URL of the documentation, laid out as in the repository.
SITE: Final = "https://kubestow.dev/"
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "info": "note"}
_REMARKS: Final = {
    "not-checked": "Parts that could not be checked, and why",
    "not-modelled": "Features of the input that kubestow does not model",
    "not-taken-into-account": "Parts of the input that are not taken into account",
}
_ROOT: Final = "%SRCROOT%"
_NO_ANCHOR: Final = re.compile(r"[^\w\- ]")


def sarif(report: Report, version: str) -> bytes:
    """Return the SARIF log of one run. ``version`` is that of kubestow."""
    rules = list(report.rules.values())
    rules += [outcome.rule for outcome in report.outcomes if outcome.rule.code not in report.rules]
    unique = {rule.code: rule for rule in rules}
    index = {code: number for number, code in enumerate(unique)}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "kubestow",
                "version": version,
                "informationUri": SITE,
                "rules": [_rule(rule) for rule in unique.values()],
                "notifications": [{"id": kind, "shortDescription": {"text": _REMARKS[kind]}} for kind in report.remarks],
            }
        },
        "automationDetails": {"id": f"kubestow/{report.command}/"},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": _notifications(report)}],
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The folder in which kubestow ran."}}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(outcome, report, index) for outcome in report.outcomes],
    }
    if report.snapshot is not None:
        run["properties"] = {"snapshot": msgspec.to_builtins(report.snapshot)}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _rule(rule: OutcomeRule) -> dict[str, Any]:
    title = f"{rule.title}."
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": title},
        "fullDescription": {"text": f"{title} {rule.why}"},
        "help": {"text": f"{rule.why}\n\nWhat to do: {rule.fix}", "markdown": f"{rule.why}\n\n**What to do.** {rule.fix}"},
        "helpUri": _page(rule),
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["kubernetes", "scheduling"]},
    }


def _page(rule: OutcomeRule) -> str:
    """Return the documentation page of a rule."""
    if isinstance(rule, FitRule):
        return f"{SITE}docs/check.html#does-it-fit"
    return f"{SITE}docs/audit.html#{_NO_ANCHOR.sub('', f'{rule.code} {rule.name}'.lower()).replace(' ', '-')}"


def _notifications(report: Report) -> list[dict[str, Any]]:
    return [
        {"descriptor": {"id": kind, "index": number}, "level": "note", "message": {"text": _text(text)}}
        for number, (kind, texts) in enumerate(report.remarks.items())
        for text in texts
    ]


def _result(outcome: ReportOutcome, report: Report, index: dict[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ruleId": outcome.rule.code,
        "ruleIndex": index[outcome.rule.code],
        "level": _LEVELS[outcome.severity],
        "message": {"text": _text(outcome.sentences)},
        "locations": [_location(outcome, report)],
        "partialFingerprints": {"kubestow/v1": outcome.fingerprint},
    }
    if report.compared:
        found["baselineState"] = "unchanged" if outcome.known else "new"
    if outcome.pods:
        found["properties"] = {"pods": [_text(pod) for pod in outcome.pods]}
    return found


def _location(outcome: ReportOutcome, report: Report) -> dict[str, Any]:
    about = _text(outcome.about)
    logical = {"name": about.rpartition("/")[2].rpartition(" ")[2], "fullyQualifiedName": about, "kind": "object"}
    if outcome.field:
        logical = {"name": _text(outcome.field), "fullyQualifiedName": f"{about}: {_text(outcome.field)}", "kind": "property"}
    location: dict[str, Any] = {"logicalLocations": [logical]}
    where = place(outcome, report)
    if where is not None:
        artifact = {"uri": uri(where.file)}
        if ":" not in artifact["uri"]:
            artifact["uriBaseId"] = _ROOT
        location["physicalLocation"] = {"artifactLocation": artifact}
        region = {"startLine": where.line, "startColumn": where.column}
        if where.line is not None:
            location["physicalLocation"]["region"] = {key: number for key, number in region.items() if number is not None}
        if outcome.position is None:
            location["message"] = {"text": "The object is in none of the files, so the first file is shown."}
    return location


def _text(text: str) -> str:
    """Return text on one line and without links, which messages write as ``[text](target)`` (SARIF, 3.11.6)."""
    return one_line(text).replace("](", "] (")
