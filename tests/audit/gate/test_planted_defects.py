"""A defect planted in sound manifests is reported with its code, line and column, and nothing else is reported."""

from __future__ import annotations

import json
import urllib.parse
from pathlib import Path

import pytest

from kubestow.audit.catalogue import CODES
from kubestow.audit.gate.gate import GateOptions, GateRequest, check
from kubestow.audit.run import AuditOptions
from kubestow.models.documents.findings.check import Check
from kubestow.models.positions.find import read
from kubestow.models.snapshot.snapshot import Snapshot, from_objects, load
from kubestow.report.findings.outcomes import of_check
from kubestow.report.findings.sarif import sarif
from kubestow.solver.runtime.options import Options
from tests.planted_defects.defects import DEFECTS, Planted
from tests.planted_defects.sound import SOUND, cluster
from tests.published_schemas import problems
from tests.tiers import sampled


@pytest.fixture(scope="module")
def six_nodes() -> Snapshot:
    return from_objects(cluster())


def judged(path: Path, snapshot: Snapshot | None, base: Path | None = None) -> Check:
    manifests = load([str(path)], manifests=True)
    before = load([str(base)], manifests=True) if base is not None else None
    asked = GateRequest(manifests, read([str(path)]), [str(path)], snapshot, before, [str(base)] if base is not None else [])
    return check(asked, GateOptions(Options(time_limit=60.0, workers=1), AuditOptions())).check


def places(found: Check) -> list[tuple[str, str, str, int | None, int | None]]:
    return [
        (fault.finding.code, fault.finding.object, fault.position.file, fault.position.line, fault.position.column)
        for fault in found.faults
        if fault.position is not None
    ]


def in_sarif(found: Check) -> list[tuple[str, str, int, int]]:
    """Return the audit findings of a SARIF log with their places, without the entries for manifests that do not fit."""
    log = json.loads(sarif(of_check(found, CODES, "error"), "1.0.0"))
    assert problems("sarif-2.1.0", log) == []
    places = []
    for result in log["runs"][0]["results"]:
        physical = result["locations"][0]["physicalLocation"]
        region = physical["region"]
        if result["ruleId"] in CODES:
            file = urllib.parse.unquote(urllib.parse.urlsplit(physical["artifactLocation"]["uri"]).path)
            places.append((result["ruleId"], file, region["startLine"], region["startColumn"]))
    return places


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    path = tmp_path / "sound.yaml"
    path.write_text(SOUND, encoding="utf-8")
    return path


def test_the_sound_manifests_fit_and_have_no_finding(sound: Path, six_nodes: Snapshot) -> None:
    found = judged(sound, six_nodes)
    assert [(fit.workload, fit.fit, fit.change) for fit in found.workloads if (fit.fit, fit.change) != ("fits", "new")] == []
    assert len(found.workloads) == 4
    assert found.faults == []
    assert judged(sound, None).faults == []


def test_there_are_forty_defects_of_different_names_and_many_kinds() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) == 40
    assert len({defect.code for defect in DEFECTS}) > 30


@pytest.mark.parametrize("defect", sampled(DEFECTS, every=8), ids=lambda defect: defect.name)
def test_a_planted_defect_is_found_where_it_is(defect: Planted, tmp_path: Path, six_nodes: Snapshot) -> None:
    path = defect.write(tmp_path)
    found = judged(path, six_nodes)
    assert places(found) == [(defect.code, defect.object, str(path), defect.line, defect.column)]
    assert len(found.faults) == 1
    assert in_sarif(found) == [(defect.code, str(path), defect.line, defect.column)]


@pytest.mark.parametrize("defect", sampled(DEFECTS[::5], every=4), ids=lambda defect: defect.name)
def test_a_defect_that_the_base_has_is_not_reported_again(defect: Planted, tmp_path: Path, sound: Path, six_nodes: Snapshot) -> None:
    """Also where a comment above shifts all lines; mended, nothing is left."""
    path = defect.write(tmp_path)
    (tmp_path / "shifted.yaml").write_text(f"# A comment.\n{defect.text}", encoding="utf-8")
    again = judged(tmp_path / "shifted.yaml", six_nodes, path)
    assert (again.faults, again.known, sum(again.counts.values())) == ([], 1, 0)
    assert in_sarif(again) == []
    assert all(fit.known or fit.fit == "fits" for fit in again.workloads)
    assert judged(sound, six_nodes, path).known == 0
