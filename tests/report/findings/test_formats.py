"""Findings as SARIF, JUnit, annotations and Code Quality: nothing is lost, nothing breaks out, published schemas hold."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.audit.catalogue import CODES
from kubestow.models.documents.findings.audit import Audit, Finding, Severity
from kubestow.models.documents.findings.check import Check, Fault, Position, WorkloadFit
from kubestow.models.documents.placement import SnapshotRef, Unmodelled
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.findings.outcomes import OutcomeRule, Report, of_audit, of_check
from kubestow.report.writers import WrittenResult, writers_of
from tests.published_schemas import problems

RULES: Mapping[str, OutcomeRule] = CODES
HOSTILE = [
    "::error file=x::y", "a%0Ab", "line\nbreak\r", "]]>&quot;<b>", "[text](https://evil.example)", "\u202egnp.exe", "nul\x00bell\x07",
    "\ud800", "é\ufffe", "{0}", ",col=1", "`code`", "x" * 300,
]  # fmt: skip


def finding(
    code: str = "KS801", severity: Severity = "warning", about: str = "Deployment shop/web", message: str = "web requests no cpu"
) -> Finding:
    return Finding(code, CODES[code].name, severity, about, message, "It matters.", "Mend it.", field="spec.template", pods=["shop/web-0"])


def document(*faults: Fault, files: tuple[str, ...] = ("manifests/web.yaml",), **more: Any) -> Check:
    return Check(SnapshotRef("a" * 64, 3, 7, 0), list(files), more.pop("workloads", []), {}, list(faults), **more)


def at(file: str = "manifests/web.yaml", line: int | None = 12, column: int | None = 7) -> Position:
    return Position(file, line, column)


def written(report: Report, form: str) -> bytes:
    return writers_of("Check")[form].write(WrittenResult(document(), Snapshot(), "1.2.3", report=lambda: report))


def run_of(report: Report) -> dict[str, Any]:
    """Return the run of a SARIF log that is valid."""
    log = json.loads(written(report, "sarif"))
    assert problems("sarif-2.1.0", log) == []
    (run,) = log["runs"]
    for result in run["results"]:
        rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
    return dict(run)


def commands_of(report: Report) -> list[tuple[str, dict[str, str], str]]:
    """Read annotations as the runner of GitHub does: command, properties, message."""
    found = []
    for line in written(report, "github").decode().removesuffix("\n").split("\n"):
        head, _, message = line.removeprefix("::").partition("::")
        command, _, properties = head.partition(" ")
        pairs = (pair.partition("=") for pair in properties.split(","))
        found.append((command, {key: _unescaped(value, ":,") for key, _, value in pairs}, _unescaped(message)))
    return found


def _unescaped(text: str, more: str = "") -> str:
    for character in f"\r\n{more}%":
        text = text.replace(f"%{ord(character):02X}", character)
    return text


FIT = WorkloadFit("Deployment shop/api", "fits", 3, 3, "unchanged")
UNFIT = WorkloadFit("Deployment shop/web", "does not fit", 3, 1, "new", "no node has room", position=at(line=1, column=1))
UNSURE = WorkloadFit("Job shop/batch", "unproved", 9, 8, "new", position=at(line=40, column=3))


def everything() -> Report:
    check = document(
        Fault(finding(), "f" * 32, at()),
        Fault(finding("KS501", "error"), "e" * 32, at("charts/web.yaml", None, None)),
        Fault(finding("KS601", "info", "PodDisruptionBudget shop/web"), "d" * 32),
        Fault(finding("KS801", about="Deployment shop/old"), "c" * 32, at(line=30), known=True),
        workloads=[UNFIT, UNSURE, FIT],
        known=1,
        notChecked=["rollouts: no time"],
        unmodelled=[Unmodelled("shop/web-0", "spec.x", "ignored")],
    )
    return of_check(check, RULES, "error")


# --- SARIF ----------------------------------------------------------------------------------------------------------------


def test_sarif_has_rules_with_help_and_results_with_their_places() -> None:
    run = run_of(everything())
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"], run["columnKind"]) == ("kubestow", "1.2.3", "unicodeCodePoints")
    assert [rule["id"] for rule in driver["rules"]] == ["does-not-fit", "unproved", *CODES]
    for rule in driver["rules"]:
        assert urlsplit(rule["helpUri"]).scheme == "https"
        assert rule["help"]["markdown"].count("**What to do.**") == 1
    found = [(r["ruleId"], r["level"], r["baselineState"], _place(r)) for r in run["results"]]
    assert found == [
        ("does-not-fit", "error", "new", ("manifests/web.yaml", 1, 1)),
        ("unproved", "warning", "new", ("manifests/web.yaml", 40, 3)),
        ("KS801", "warning", "new", ("manifests/web.yaml", 12, 7)),
        ("KS501", "error", "new", ("charts/web.yaml", None, None)),
        ("KS601", "note", "new", ("manifests/web.yaml", None, None)),
        ("KS801", "warning", "unchanged", ("manifests/web.yaml", 30, 7)),
    ]
    assert "in none of the files" in run["results"][4]["locations"][0]["message"]["text"]
    assert run["results"][2]["message"]["text"] == "Deployment shop/web: web requests no cpu. Mend it."
    logical = run["results"][2]["locations"][0]["logicalLocations"]
    assert logical == [{"name": "spec.template", "fullyQualifiedName": "Deployment shop/web: spec.template", "kind": "property"}]
    told = [(told["descriptor"]["id"], told["message"]["text"]) for told in run["invocations"][0]["toolExecutionNotifications"]]
    assert told == [("not-checked", "rollouts: no time"), ("not-modelled", "shop/web-0: spec.x: ignored")]


def _place(result: dict[str, Any]) -> tuple[str, int | None, int | None] | None:
    (location,) = result["locations"]
    if "physicalLocation" not in location:
        return None
    physical = location["physicalLocation"]
    region = physical.get("region", {})
    return physical["artifactLocation"]["uri"], region.get("startLine"), region.get("startColumn")


def test_each_code_leads_to_its_heading_in_the_documentation() -> None:
    from pathlib import Path

    text = (Path(__file__).parents[3] / "docs/audit.md").read_text(encoding="utf-8")
    anchors = {f"{code.lower()}-{name}" for code, name in re.findall(r"^### (KS\d+) (\S+)$", text, re.MULTILINE)}
    rules = run_of(everything())["tool"]["driver"]["rules"]
    assert {rule["helpUri"].partition("#")[2] for rule in rules if rule["id"] in CODES} == anchors


def test_without_a_comparison_nothing_is_new_or_unchanged() -> None:
    run = run_of(of_check(document(Fault(finding(), "f", at())), RULES, "error"))
    assert all("baselineState" not in result for result in run["results"])


def test_findings_of_one_fingerprint_are_told_apart_and_stay_the_same() -> None:
    check = document(*(Fault(finding(message=f"{i}"), "f" * 32, at(line=i + 1)) for i in range(3)))
    run = run_of(of_check(check, RULES, "error"))
    marks = [result["partialFingerprints"]["kubestow/v1"] for result in run["results"]]
    assert marks == [f"{'f' * 32}:{i}" for i in (1, 2, 3)]


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("./a/b c#1%.yaml", "a/b%20c%231%25.yaml"),
        ("/tmp/ü.yaml", "file:///tmp/%C3%BC.yaml"),
        ("a:b.yaml", "a%3Ab.yaml"),
        ("\udce4.yaml", "%E4.yaml"),
    ],
)
def test_files_are_uris(file: str, uri: str) -> None:
    run = run_of(of_check(document(Fault(finding(), "f", at(file))), RULES, "error"))
    (result,) = run["results"]
    assert _place(result) == (uri, 12, 7)
    assert ("uriBaseId" in result["locations"][0]["physicalLocation"]["artifactLocation"]) is not uri.startswith("file:")
    assert unquote(urlsplit(uri).path, errors="surrogateescape").removeprefix("./") == file.removeprefix("./")


def test_standard_input_is_a_file_of_that_name_where_there_must_be_one() -> None:
    check = document(Fault(finding(), "f", at("-", 3, 1)), Fault(finding(), "g"), files=("-",))
    report = of_check(check, RULES, "error")
    assert [_place(result) for result in run_of(report)["results"]] == [("stdin", 3, 1), ("stdin", None, None)]
    assert all("file" not in properties for _, properties, _ in commands_of(report))
    assert [each["location"] for each in json.loads(written(report, "gitlab"))] == [
        {"path": "stdin", "lines": {"begin": line}} for line in (3, 1)
    ]


def test_an_audit_is_placed_at_its_snapshot_or_in_its_manifests() -> None:
    audit = Audit(SnapshotRef("a" * 64, 3, 7, 0), {}, [finding(), finding("KS904", "info", "control plane"), finding(about="Node n1")])
    plain = run_of(of_audit(audit, RULES, "error", ["cluster.json"]))
    assert [_place(result) for result in plain["results"]] == [("cluster.json", None, None)] * 3

    def locate(kind: str, namespace: str | None, name: str, field: str | None) -> Position | None:
        return at(line=5) if (kind, namespace, name, field) == ("Deployment", "shop", "web", "spec.template") else None

    found = run_of(of_audit(audit, RULES, "error", ["-"], locate))
    assert [_place(result) for result in found["results"]] == [("manifests/web.yaml", 5, 7), *[("stdin", None, None)] * 2]
    assert found["results"][2]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "Node n1: spec.template"


# --- annotations, Code Quality, JUnit ----------------------------------------------------------------------------------------


def test_annotations_have_command_file_line_column_and_title() -> None:
    found = commands_of(everything())
    assert [command for command, _, _ in found] == ["error", "warning", "warning", "error", "notice", "notice"]
    assert (
        found[2][1] == {"file": "manifests/web.yaml", "line": "12", "col": "7", "title": "KS801 requests-missing"} or found[2][1]["title"]
    )
    assert found[2][1] == {"file": "manifests/web.yaml", "line": "12", "col": "7", "title": f"KS801 {CODES['KS801'].name}"}
    assert found[2][2] == "Deployment shop/web: web requests no cpu\nIt matters.\n→ Mend it."
    assert found[3][1] == {"file": "charts/web.yaml", "title": f"KS501 {CODES['KS501'].name}"}
    assert found[5][1]["title"].endswith("(known)")
    assert found[0][1]["title"] == "does-not-fit"


def test_code_quality_has_what_gitlab_requires_once_each_and_no_known_ones() -> None:
    found = json.loads(written(everything(), "gitlab"))
    assert len(found) == 5
    assert len({each["fingerprint"] for each in found}) == 5
    for each in found:
        assert set(each) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert each["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert each["location"]["lines"]["begin"] >= 1
    assert [each["severity"] for each in found] == ["blocker", "minor", "minor", "critical", "info"]


def test_junit_fails_what_fails_the_run_and_passes_what_fits() -> None:
    root = ET.fromstring(written(everything(), "junit"))
    suites = {str(suite.get("name")).partition(" ")[0]: suite for suite in root}
    assert list(suites) == sorted(["does-not-fit", "unproved", *CODES])
    fit = suites["does-not-fit"]
    assert [(case.get("name"), [below.tag for below in case]) for case in fit] == [
        ("Deployment shop/api", []),
        ("Deployment shop/web", ["failure"]),
    ]
    assert (fit.get("tests"), fit.get("failures"), fit.get("skipped")) == ("2", "1", "0")
    assert [below.tag for case in suites["unproved"] for below in case] == ["failure"]
    assert [below.tag for case in suites["KS801"] for below in case] == ["skipped", "skipped"]
    assert [(case.get("file"), case.get("line")) for case in suites["KS801"]] == [
        ("manifests/web.yaml", "12"),
        ("manifests/web.yaml", "30"),
    ]
    assert (root.get("failures"), root.get("skipped")) == ("3", "3")


@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_breaks_out_of_its_format(text: str) -> None:
    _hold(text)


@pytest.mark.full
@given(st.text(st.characters(), min_size=1))
def test_no_text_at_all_breaks_out_of_its_format(text: str) -> None:
    _hold(text)


def _hold(text: str) -> None:
    file = text.replace("\0", "").encode("utf-8", "replace").decode() or "-"
    fit = WorkloadFit(f"Pod {text}", "does not fit", 1, 0, "new", text, position=Position(f"d/{file}"))
    fault = Fault(finding(about=f"Pod {text}", message=text), text, Position(file))
    report = of_check(document(fault, workloads=[fit]), {"KS801": CODES["KS801"]}, "info")
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    results = run_of(report)["results"]
    assert [result["ruleId"] for result in results] == ["does-not-fit", "KS801"]
    assert "](" not in results[1]["message"]["text"]
    assert results[1]["message"]["text"].startswith(f"Pod {shown}: {shown}".replace("](", "] ("))
    found = commands_of(report)
    assert len(found) == 2
    assert found[1][2].split("\n") == [f"Pod {shown}: {shown}", "It matters.", "→ Mend it."]
    assert set(found[1][1]) <= {"file", "title"}
    assert [each["check_name"] for each in json.loads(written(report, "gitlab"))] == ["does-not-fit", "KS801"]
    case = ET.fromstring(written(report, "junit")).find(".//testcase[@classname='kubestow.KS801']")
    assert case is not None
    assert case.get("name") == f"Pod {shown}"
