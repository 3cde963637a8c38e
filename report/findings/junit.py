"""JUnit XML with one suite per kind of outcome and one case per object."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from kubestow.report.documents.output import one_line
from kubestow.report.findings.outcomes import OutcomeRule, Report, ReportOutcome
from kubestow.report.findings.places import path, place


def junit(report: Report) -> bytes:
    """Return JUnit XML.

    Outcomes that do not fail the run count as skipped. A kind without outcomes is a passed case.
    """
    by_code: dict[str, list[ReportOutcome]] = {code: [] for code in report.rules}
    rules = dict(report.rules)
    for outcome in report.outcomes:
        rules.setdefault(outcome.rule.code, outcome.rule)
        by_code.setdefault(outcome.rule.code, []).append(outcome)
    root = ET.Element("testsuites", name=f"kubestow {report.command}")
    totals = [0, 0, 0]
    for code, outcomes in sorted(by_code.items()):
        passed = report.passed.get(code, () if outcomes else ("all objects",))
        failed = sum(outcome.fails for outcome in outcomes)
        numbers = len(outcomes) + len(passed), failed, len(outcomes) - failed
        suite = ET.SubElement(root, "testsuite", name=_suite(rules[code]))
        for name, number in zip(("tests", "failures", "skipped"), numbers, strict=True):
            suite.set(name, str(number))
        totals = [total + number for total, number in zip(totals, numbers, strict=True)]
        for name in passed:
            ET.SubElement(suite, "testcase", classname=f"kubestow.{code}", name=one_line(name))
        for outcome in outcomes:
            _case(suite, outcome, report)
    for name, number in zip(("tests", "failures", "skipped"), totals, strict=True):
        root.set(name, str(number))
    ET.indent(root)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode").encode() + b"\n"


def _suite(rule: OutcomeRule) -> str:
    return f"{rule.code} {rule.title}"


def _case(suite: ET.Element, outcome: ReportOutcome, report: Report) -> None:
    case = ET.SubElement(suite, "testcase", classname=f"kubestow.{outcome.rule.code}", name=one_line(outcome.about))
    where = place(outcome, report) if outcome.position is not None else None
    if where is not None:
        case.set("file", one_line(path(where.file)))
        if where.line is not None:
            case.set("line", str(where.line))
    message = f"{outcome.message}{' (known)' * outcome.known}"
    kind = ET.SubElement(case, "failure" if outcome.fails else "skipped", message=one_line(message))
    if outcome.fails:
        kind.set("type", outcome.severity)
    lines = [f"{outcome.severity} {outcome.rule.code} {outcome.rule.name}", outcome.message, f"Why: {outcome.why}"]
    lines += [f"Fix: {outcome.fix}"] if outcome.fix else []
    kind.text = "\n".join(one_line(line) for line in [*lines, *outcome.pods])
