"""GitLab's Code Quality report (https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format)."""

from __future__ import annotations

import json
from typing import Any, Final

from kubestow.models.documents.findings.audit import Severity
from kubestow.report.findings.outcomes import DOES_NOT_FIT, STREAM, Report, ReportOutcome
from kubestow.report.findings.places import path, place

_SEVERITIES: Final[dict[Severity, str]] = {"error": "critical", "warning": "minor", "info": "info"}


def gitlab(report: Report) -> bytes:
    """Return the report without known outcomes, because GitLab itself compares with the target branch."""
    found = [_violation(outcome, report) for outcome in report.outcomes if not outcome.known]
    return json.dumps(found, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _violation(outcome: ReportOutcome, report: Report) -> dict[str, Any]:
    where = place(outcome, report)
    return {
        "description": outcome.sentences,
        "check_name": outcome.rule.code,
        "fingerprint": outcome.fingerprint,
        "severity": "blocker" if outcome.rule is DOES_NOT_FIT else _SEVERITIES[outcome.severity],
        "location": {
            "path": path(where.file) if where is not None else STREAM,
            "lines": {"begin": where.line if where is not None and where.line is not None else 1},
        },
    }
