"""``kubestow size --series`` as a user calls it: one purchase for snapshots of several times, its check, and invalid series."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.models.documents.sizing import Sizing
from kubestow.models.snapshot.snapshot import load
from kubestow.report.documents.results import read_result
from kubestow.report.page.capacity.panel import panel
from tests.commands.test_size import catalogue_file
from tests.objects import Object, node, pod


def moment(path: Path, day: int, objects: list[Object], *, cluster: str = "prod") -> str:
    """Write a snapshot as `kubestow capture` does; return its path."""
    said = {"kubestow.dev/cluster": cluster, "kubestow.dev/captured-at": f"2026-11-{day:02}T20:00:00Z"}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {"annotations": said}, "items": objects}))
    return str(path)


def busy(count: int, cpu: str, memory: str, **more: Any) -> list[Object]:
    return [pod(f"p{i}", cpu=cpu, memory=memory, owner="ReplicaSet/x", **more) for i in range(count)]


@pytest.fixture
def catalogue(tmp_path: Path) -> str:
    """One shape with much CPU, one with much memory, and a dearer one with both."""
    sizes = {"cpu": ("8", "8Gi", 1), "memory": ("2", "32Gi", 1), "both": ("8", "32Gi", 1.5)}
    shapes = [
        {"name": name, "allocatable": {"cpu": cpu, "memory": memory, "pods": 20}, "zones": ["a"], "price": price}
        for name, (cpu, memory, price) in sizes.items()
    ]
    return catalogue_file(tmp_path, *shapes)


@pytest.fixture
def series(tmp_path: Path) -> list[str]:
    """A moment of much CPU and one of much memory, the later one first."""
    return [
        moment(tmp_path / "b.json", 2, busy(8, "250m", "4Gi")),
        moment(tmp_path / "a.json", 1, busy(8, "1.00", "1Gi")),
    ]


def run(command: str, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.main, [command, *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.stderr
    return result


def size(*arguments: str, code: int = 0) -> Result:
    return run("size", *arguments, "--series", "--deterministic", code=code)


def test_the_table_says_which_moments_decide(series: list[str], catalogue: str) -> None:
    lines = size(*series, "--catalogue", catalogue, "-f", "table").stdout.splitlines()
    assert "buy 1 node of 1 shape for 1.50 per hour, proved the least" in lines
    together = "decided by the snapshots of 2026-11-01T20:00:00Z and 2026-11-02T20:00:00Z together"
    assert f"{together}; no single snapshot needs more than 1.00 per hour" in lines
    rows = [line.split() for line in lines if line.startswith("  2026-")]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("2026-11-01T20:00:00Z", "8", "decides"),
        ("2026-11-02T20:00:00Z", "8", "decides"),
    ]


@pytest.mark.full
def test_verify_takes_the_snapshots_in_any_order_and_finds_a_lie_in_each(tmp_path: Path, series: list[str], catalogue: str) -> None:
    answer = tmp_path / "answer.json"
    size(*series, "--catalogue", catalogue, "-q", "-o", str(answer))
    for paths in (series, series[::-1]):
        assert json.loads(run("verify", *paths, "--result", str(answer), "-q", "-f", "json").stdout)["valid"]
    said = json.loads(answer.read_bytes())
    assert [entry.get("placement") is None for entry in said["series"]].count(True) == 1
    for placement in (said["placement"], next(e["placement"] for e in said["series"] if e.get("placement"))):
        left = placement["assignments"].pop()
        answer.write_text(json.dumps(said))
        found = json.loads(run("verify", *series, "--result", str(answer), "-q", "-f", "json", code=4).stdout)
        assert not found["valid"]
        placement["assignments"].append(left)


def test_verify_names_snapshots_that_are_missing_or_of_another_time(tmp_path: Path, series: list[str], catalogue: str) -> None:
    answer = tmp_path / "answer.json"
    size(*series, "--catalogue", catalogue, "-q", "-o", str(answer))
    found = run("verify", series[0], "--result", str(answer), "-q", code=1)
    assert "the result is of 2 snapshots: 1 missing, among these that of 2026-11-01T20:00:00Z" in found.stderr
    other = moment(tmp_path / "c.json", 3, [])
    found = run("verify", *series, other, "--result", str(answer), "-q", code=1)
    assert "none has the time 2026-11-03T20:00:00Z" in found.stderr


def test_rows_and_the_page_have_the_snapshots(tmp_path: Path, series: list[str], catalogue: str) -> None:
    answer, page = tmp_path / "answer.json", tmp_path / "page.html"
    rows = size(*series, "--catalogue", catalogue, "-q", "-f", "csv", "-f", f"json={answer}").stdout.splitlines()
    found = [row for row in csv.DictReader(rows) if row["row"] == "snapshot"]
    assert [(row["names"], row["cost"], row["decides"]) for row in found] == [
        ("2026-11-01T20:00:00Z", "1.0", "decides"),
        ("2026-11-02T20:00:00Z", "1.0", "decides"),
    ]
    run("report", *series, "--result", str(answer), "-o", str(page))
    assert "Snapshots for which the nodes suffice" in page.read_text()
    document = read_result(str(answer))
    assert isinstance(document, Sizing)
    shown = panel(load(series[:1]), document)["series"]
    assert shown == [["2026-11-01T20:00:00Z", 8, "1.00", "100 %", "25 %", True], ["2026-11-02T20:00:00Z", 8, "1.00", "25 %", "100 %", True]]


def test_pools_and_manifests_are_of_every_snapshot(tmp_path: Path, catalogue: str) -> None:
    def cluster(names: list[str], count: int) -> list[Object]:
        nodes = [node(name, cpu="8", labels={"pool": "old"}) for name in names]
        return [*nodes, *busy(count, "1", "1Gi", node_name=names[0])]

    paths = [
        moment(tmp_path / "a.json", 1, cluster(["old-1", "old-2"], 4)),
        moment(tmp_path / "b.json", 2, cluster(["old-2", "old-3"], 6)),
    ]
    manifest = tmp_path / "app.json"
    manifest.write_text(json.dumps(pod("more", cpu="2")))
    answer = tmp_path / "answer.json"
    wanted = ["--pool", "pool=old", "-w", str(manifest), "--catalogue", catalogue]
    size(*paths, *wanted, "-q", "-o", str(answer))
    said = json.loads(answer.read_bytes())
    assert [(p["shape"], p["count"]) for p in said["buy"]] == [("cpu", 1)]
    assert [entry["removed"] for entry in said["series"]] == [["old-1", "old-2"], ["old-2", "old-3"]]
    run("verify", *paths, "--result", str(answer), "-w", str(manifest), "-q")
    bare = moment(tmp_path / "c.json", 3, [node("n")])
    found = size(*paths, bare, *wanted, code=1)
    assert found.stderr.splitlines()[-1] == f"kubestow: {bare}: --pool 'pool=old': no node of the snapshot has such labels"


def test_what_no_purchase_does_for_names_the_snapshot(tmp_path: Path, series: list[str], catalogue: str) -> None:
    huge = moment(tmp_path / "c.json", 3, [pod("huge", cpu="99")])
    found = size(*series, huge, "--catalogue", catalogue, "-f", "table", code=3)
    assert "it fails for the snapshot of 2026-11-03T20:00:00Z" in found.stdout
    assert "default/huge" in found.stdout


def test_verify_does_not_say_that_something_does_where_nothing_is_bought(tmp_path: Path, series: list[str], catalogue: str) -> None:
    huge, answer = moment(tmp_path / "c.json", 3, [pod("huge", cpu="99")]), str(tmp_path / "answer.json")
    size(*series, huge, "--catalogue", catalogue, "-q", "-o", answer, code=3)
    says = json.loads(run("verify", *series, huge, "--result", answer, "-q", "-f", "json").stdout)["says"]
    assert "the bought nodes must suffice for 3 snapshots, and the edits are those of 2026-11-03T20:00:00Z" in says


def test_what_is_no_series_is_one_line(tmp_path: Path, series: list[str], catalogue: str) -> None:
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n")]}))
    dev = moment(tmp_path / "dev.json", 4, [node("n")], cluster="dev")
    again = moment(tmp_path / "again.json", 2, [node("n")])
    wrong = {
        str(plain): "does not record its cluster and time, as snapshots of `kubestow capture` do",
        dev: f"is of cluster dev, {series[0]} of prod: expected snapshots of one cluster",
        again: f"is of 2026-11-02T20:00:00Z, as {series[0]} is: expected one snapshot for each time",
    }
    for path, said in wrong.items():
        found = size(*series, path, "--catalogue", catalogue, code=1)
        assert found.stderr.splitlines() == [f"kubestow: {path}: {said}"]
        assert not found.stdout


@pytest.mark.parametrize(
    ("more", "said"), [([], "at least two SNAPSHOT"), (["--survive", "node"], "--survive and --series exclude each other")]
)
def test_what_does_not_go_together_is_wrong_usage(more: list[str], said: str, series: list[str], catalogue: str) -> None:
    paths = series if more else series[:1]
    assert said in " ".join(size(*paths, "--catalogue", catalogue, *more, code=2).stderr.split())
