"""Every command says which cluster a captured snapshot is of, and of when."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.capture_info import Capture
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.origin import origin
from tests.objects import node, pod

HEADER = "cluster prod-eu, Kubernetes 1.36, captured 2026-11-20 10:05 UTC"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(each) for each in arguments], catch_exceptions=False)


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.json"
    notes = Capture("prod-eu", "2026-11-20T11:05:09+01:00", "v1.36.0").annotations()
    items = [node("n1"), node("n2"), pod("waits"), pod("runs", node_name="n1", owner="ReplicaSet/web")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {"annotations": notes}, "items": items}))
    return path


@pytest.mark.parametrize(
    "command", ["solve", "explain", "audit --fail-on never", "rebalance --drain n1", "explain --affinity default/runs"]
)
def test_tables_begin_with_the_cluster_and_the_time(snapshot: Path, command: str) -> None:
    name, *options = command.split()
    result = run(name, snapshot, *options, "-f", "table", "-q")
    assert result.stdout.splitlines()[:2] == [HEADER, ""]
    assert HEADER not in run(name, snapshot, *options, "-f", "json", "-q").stdout


@pytest.mark.parametrize("command", ["solve", "audit --fail-on never", "rebalance --drain n1"])
def test_documents_hold_both_as_they_were_captured(snapshot: Path, command: str) -> None:
    name, *options = command.split()
    document = json.loads(run(name, snapshot, *options, "-f", "json", "-q").stdout)
    assert (document["snapshot"]["cluster"], document["snapshot"]["capturedAt"]) == ("prod-eu", "2026-11-20T11:05:09+01:00")
    if name == "audit":
        return
    out = snapshot.with_name("result.json")
    out.write_text(json.dumps(document))
    assert run("verify", snapshot, "--result", out, "-f", "table").stdout.splitlines()[0] == HEADER
    document["snapshot"]["cluster"] = "staging"
    out.write_text(json.dumps(document))
    wrong = run("verify", snapshot, "--result", out, "-f", "json")
    assert wrong.exit_code == 4
    assert "snapshot.cluster is staging, it should be prod-eu" in wrong.stdout


def test_the_page_of_a_snapshot_tells_where_it_is_from_and_shows_its_audit(snapshot: Path) -> None:
    page = snapshot.with_name("page.html")
    assert run("report", snapshot, "-q", "-o", page).exit_code == 0
    text = page.read_text()
    data = json.loads(text.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    assert data["snapshot"]["origin"] == HEADER
    audited = json.loads(run("audit", snapshot, "-f", "json", "--fail-on", "never", "-q").stdout)
    assert [each["code"] for each in data["audit"]["findings"]] == [each["code"] for each in audited["findings"]]
    result = snapshot.with_name("result.json")
    run("solve", snapshot, "-q", "-o", result)
    assert run("report", snapshot, "--result", result, "-q", "-o", page).exit_code == 0
    assert '"audit":null' in page.read_text()


def test_a_snapshot_that_was_not_captured_has_no_such_header(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n1"), pod("p")]}))
    assert run("explain", path, "-f", "table").stdout.startswith("default/p: ")
    assert "cluster" not in json.loads(run("solve", path, "-f", "json", "-q").stdout)["snapshot"]


def test_words() -> None:
    assert origin(Snapshot()) == ""
    gates = FeatureGates("1.35", (("VolumeLimitScaling", True),))
    for capture, words in (
        (Capture(cluster="a\x1b[2J"), "cluster a\\x1b[2J, {}"),
        (Capture(time="yesterday"), "{}, captured yesterday"),
        (Capture(time="2026-11-20T10:05:00Z"), "{}, captured 2026-11-20 10:05 UTC"),
    ):
        assert origin(Snapshot(capture=capture)) == words.format("Kubernetes 1.36")
        assert origin(Snapshot(capture=capture, gates=gates)) == words.format("Kubernetes 1.35 with VolumeLimitScaling=true")
