"""An Audit as a table, and as JUnit XML: nothing is lost, nothing breaks out of its line, the threshold decides what fails."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.models.documents.findings.audit import (
    SEVERITIES,
    Audit,
    ClosedCapacity,
    ComponentSpread,
    ControlPlane,
    Finding,
    OpportunityCost,
    Requirement,
    Severity,
    Stage,
)  # fmt: skip
from kubestow.models.documents.placement import SnapshotRef, Unmodelled
from kubestow.report.findings.junit import junit
from kubestow.report.findings.outcomes import FitRule, of_audit
from kubestow.report.terminal.canvas import Surface, render
from kubestow.report.terminal.findings.audit import audit_line, audit_table, failing

TITLES = {"KS101": "A rule is broken", "KS201": "A selector selects nobody"}
RULES = {code: FitRule(code, "a-name", "error", title, "It matters.", "Mend it.") for code, title in TITLES.items()}


def finding(code: str = "KS101", severity: Severity = "error", obj: str = "Deployment shop/web", message: str = "is broken") -> Finding:
    return Finding(code, "a-name", severity, obj, message, "It matters.", "Mend it.", pods=["shop/web-0"])


def document(*findings: Finding, control_plane: ControlPlane | None = None) -> Audit:
    ordered = sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.code))
    counts: dict[str, int] = {severity: sum(f.severity == severity for f in findings) for severity in SEVERITIES}
    return Audit(SnapshotRef("a" * 64, 3, 7, 0), counts, ordered, control_plane)


def table(found: Audit) -> str:
    return render(list(audit_table(found, TITLES, Surface())), Surface()).decode()


def test_an_audit_that_found_nothing_says_so() -> None:
    assert audit_line(document()) == "nothing found"
    assert table(document()).startswith("nothing found")


def test_findings_of_a_kind_stand_together_with_why_and_what_to_do() -> None:
    text = table(document(finding(), finding(obj="Deployment shop/db"), finding("KS201", "warning")))
    assert text.startswith("2 errors, 1 warning  (3 nodes, 7 pods)")
    assert text.count("A rule is broken") == text.count("A selector selects nobody") == 1
    assert text.count("It matters.") == text.count("→ Mend it.") == 2
    assert "- Deployment shop/db: is broken [shop/web-0]" in text
    assert text.index("KS101") < text.index("KS201")


def test_many_findings_of_a_kind_are_cut_short_and_counted() -> None:
    text = table(document(*(finding(obj=f"Deployment shop/web-{i:03}") for i in range(25))))
    assert "web-009" in text
    assert "web-010" not in text
    assert "and 15 more" in text


def test_opportunity_cost_is_shown_for_namespaces_and_workloads() -> None:
    found, some = document(), ClosedCapacity(1.5, 3500, 7 * 2**30)
    found.opportunityCosts = [
        OpportunityCost("namespace", "Namespace team", "team", 2, some, some, ClosedCapacity(0, 0, 0)),
        OpportunityCost("workload", "Deployment team/a", "team", 2, some, some, some),
        OpportunityCost("pod", "Pod team/a-1", "team", 1, some, some),
    ]
    text = table(found)
    assert "Namespace team        2  none" in text
    assert "1.5 nodes, 3500m CPU, 7Gi" in text
    assert "Pod team/a-1" not in text


def test_requirements_are_shown_with_their_status() -> None:
    found = document()
    found.requirements = [Requirement("scs-0214-v2", "MUST", "every node carries a zone", "broken", "1 of 2 nodes lacks it: w0")]
    assert "scs-0214-v2  MUST  every node carries a zone  broken  1 of 2 nodes lacks it: w0" in table(found)


def test_the_control_plane_is_shown_with_its_stages() -> None:
    part = ComponentSpread(component="etcd", instances=3, nodes=3, machines={"m1": 2, "m2": 1}, most=2, survives=0)
    stages = [
        Stage(name="machines", label="host", domains=2, survives=0, reached=False),
        Stage(name="clouds", domains=0, survives=0, reached=False),
    ]
    text = table(
        document(
            control_plane=ControlPlane(
                nodes=["a", "b", "c"],
                etcd="stacked",
                grade="machines",
                components=[part],
                stages=stages,
                workers={"m1": 4},
                machineLabel="host",
            )
        )
    )
    assert "3 nodes, etcd stacked, machines by host; distributed over machines" in text
    assert [line.split() for line in text.splitlines() if "etcd  " in line] == [["etcd", "3", "3", "2", "2", "0"]]
    assert ["clouds", "unknown", "not", "reached"] in [line.split() for line in text.splitlines()]


def test_what_is_not_checked_and_not_modelled_is_named() -> None:
    found = document(finding())
    found.notChecked = ["rolling updates of 3 Deployments: no time"]
    found.unmodelled = [Unmodelled("shop/web-0", "spec.x", "ignored")]
    text = table(found)
    assert "rolling updates of 3 Deployments: no time" in text
    assert "shop/web-0: spec.x: ignored" in text


@pytest.mark.parametrize(("threshold", "number"), [("error", 1), ("warning", 3), ("info", 4), ("never", 0)])
def test_the_threshold_decides_what_fails(threshold: str, number: int) -> None:
    found = document(finding(), finding("KS201", "warning"), finding("KS201", "warning", "b"), finding("KS201", "info"))
    assert failing(found, threshold) == number
    root = ET.fromstring(junit(of_audit(found, RULES, threshold)))
    assert (len(root.findall(".//failure")), len(root.findall(".//skipped"))) == (number, 4 - number)
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("4", str(number), str(4 - number))


def test_a_kind_without_findings_is_a_case_that_passed() -> None:
    root = ET.fromstring(junit(of_audit(document(finding()), RULES, "error")))
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["KS101 A rule is broken", "KS201 A selector selects nobody"]
    assert [len(case) for case in suites["KS201 A selector selects nobody"]] == [0]


@pytest.mark.full
@given(st.text(), st.text())
def test_no_text_breaks_the_xml_or_the_line(obj: str, message: str) -> None:
    found = document(finding(obj=obj, message=message))
    case = ET.fromstring(junit(of_audit(found, RULES, "error"))).find(".//testcase")
    assert case is not None
    assert case.get("name") == "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in obj)
    assert all(line.isprintable() for line in table(found).splitlines())
