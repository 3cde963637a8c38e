"""Snapshots of a cluster over time: utilisation, room that no pod can use, findings that come and go; and the page of the fleet."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from kubestow import cli
from kubestow.commands.batch import series, utilisation
from kubestow.models.documents.batch import BatchSummary, Row
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.report.page.fleet import page as fleet


def _node(name: str, cpu: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "10"}},
    }


def _pod(name: str, cpu: str, node: str | None) -> dict[str, object]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    spec: dict[str, object] = {"containers": [container]} | ({"nodeName": node} if node else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "d"}, "spec": spec}


def _write(path: Path, day: int, *objects: dict[str, object]) -> str:
    said = {"kubestow.dev/cluster": "east", "kubestow.dev/captured-at": f"2026-11-{day:02}T00:00:00Z"}
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "metadata": {"annotations": said}, "items": list(objects)}))
    return str(path)


def test_room_that_no_pod_can_use(tmp_path: Path) -> None:
    nodes = _node("a", "3"), _node("b", "4")
    path = _write(tmp_path / "1.yaml", 1, *nodes, _pod("p", "2", "a"), _pod("q", "2", "b"))
    found = utilisation.of(snapshots.load([path]))
    assert found.requests == {"cpu": 4000, "memory": 2 << 30}
    assert found.allocatable == {"cpu": 7000, "memory": 8 << 30}
    assert found.typical == {"cpu": 2000, "memory": 1 << 30}
    assert found.free == {"cpu": 3000, "memory": 6 << 30}
    assert found.stranded == {"cpu": 1000, "memory": 3 << 30}  # of a
    pending = _write(tmp_path / "2.yaml", 1, *nodes, _pod("p", "2", "a"), _pod("q", "2", "b"), _pod("r", "1", None))
    assert utilisation.of(snapshots.load([pending])).stranded == {"cpu": 0, "memory": 0}


def test_findings_appear_and_go(tmp_path: Path) -> None:
    rows = []
    for day, codes in ((2, ["KS1", "KS2"]), (1, ["KS1", "KS3"])):
        (tmp_path / f"{day}.json").write_text(json.dumps({"findings": [{"code": code, "object": "Node a"} for code in codes]}))
        captured = f"2026-11-0{day}T00:00:00Z"
        rows.append(Row(str(day), ["s"], "audit", [], exit=0, result=f"{day}.json", cluster="east", capturedAt=captured))
    rows.append(Row("3", ["s"], "audit", [], exit=0, result="1.json"))
    (found,), notes = series.of(rows, str(tmp_path))
    assert [point.row for point in found.points] == ["1", "2"]
    assert [(c.code, c.object) for c in found.points[1].appeared] == [("KS2", "Node a")]
    assert [(c.code, c.object) for c in found.points[1].went] == [("KS3", "Node a")]
    assert not found.points[0].appeared
    assert notes == ["1 result is in no series: its snapshot does not record its cluster and time (kubestow capture does)"]


@pytest.mark.full
def test_series_are_in_every_output(tmp_path: Path) -> None:
    files = [_write(tmp_path / f"{day}.yaml", day, _node("a", "4"), *[_pod(f"p{i}", "1", "a") for i in range(day)]) for day in (1, 2)]
    out = tmp_path / "out"
    result = CliRunner().invoke(cli.main, ["batch", "audit", *files, "-o", str(out), "--series", "--jobs", "1", "-f", "table", "-q"])
    assert result.exit_code == 0, result.output
    summary = msgspec.json.decode((out / "summary.json").read_bytes(), type=BatchSummary)
    assert [point.utilisation["cpu"] for point in summary.series[0].points] == [0.25, 0.5]
    assert (out / "series.csv").read_text().count("\neast,audit,") == 2
    page = (out / "index.html").read_text()
    assert "CPU requested, 2 snapshots: first 25.0%, last 50.0%" in page
    assert f'href="{summary.rows[1].result}"' in page


def test_the_page_escapes_what_it_shows() -> None:
    row = Row("1", ["<b>.json"], "audit", [], exit=3, reason="<script>alert(1)</script>")
    page = fleet.render(BatchSummary([row], tasks=1, failed=1)).decode()
    assert page.count("<script") == 1  # the page's own
    assert "&lt;script&gt;" in page
