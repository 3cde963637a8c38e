"""The commands simulate and explain --scores, as a user calls them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from tests.objects import node, pod

CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 2}]}},
            "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
        }
    ],
}


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    low = pod("low", cpu="2", node_name="n1", priority=1)
    new = [pod("new", cpu="1"), pod("large", cpu="3500m", priority=9), pod("huge", cpu="9")]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("n1"), node("n2", cpu="3"), low, *new]}))
    return str(file)


@pytest.fixture
def packing(tmp_path: Path) -> str:
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(CONFIGURATION))
    return str(file)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli.main, [*arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_simulate(cluster: str, packing: str, tmp_path: Path) -> None:
    result = run("simulate", cluster, "--runs", "3")
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert {entry["pod"]: entry["node"] for entry in document["assignments"]} == {"default/new": "n2"}
    large, huge = sorted(document["unplaced"], key=lambda entry: str(entry["pod"]), reverse=True)
    assert large["pod"] == "default/large"
    assert large["preemption"] == {"node": "n1", "victims": ["default/low"]}
    assert huge["schedulerMessage"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert document["outcomes"] == [{"times": 3, "seed": 0, "placed": 1, "unplaced": ["default/large", "default/huge"]}]
    packed = json.loads(run("simulate", cluster, "--scheduler-config", packing).stdout)
    assert {entry["pod"]: entry["node"] for entry in packed["assignments"]} == {"default/new": "n1"}
    file = tmp_path / "result.json"
    file.write_text(result.stdout)
    assert run("verify", cluster, "--result", str(file)).exit_code == 0
    document["unplaced"][0]["preemption"] = {"node": "n2", "victims": ["default/low"]}
    file.write_text(json.dumps(document))
    assert run("verify", cluster, "--result", str(file)).exit_code == 4


def test_the_table_has_messages_and_victims(cluster: str) -> None:
    text = run("simulate", cluster, "-f", "table", "--runs", "2").stdout
    assert "kube-scheduler says\n  default/large: 0/2 nodes are available: 2 Insufficient cpu.\n" in text
    assert "default/large  n1         default/low" in text
    assert "Outcomes of 2 runs" in text


def test_scores(cluster: str, packing: str) -> None:
    (found,) = json.loads(run("explain", cluster, "--pod", "default/new", "--scores").stdout)["pods"]
    assert [*found["scores"]] == ["n2", "n1"]
    assert found["total"] == {name: sum(points.values()) for name, points in found["scores"].items()}
    (packed,) = json.loads(run("explain", cluster, "--pod", "default/new", "--scores", "--scheduler-config", packing).stdout)["pods"]
    assert [*packed["scores"]] == ["n1", "n2"]
    assert [*packed["scores"]["n1"]] == ["NodeResourcesFit"]
    table = run("explain", cluster, "--pod", "default/new", "--scores", "-f", "table").stdout
    assert table.splitlines()[1].split()[:3] == ["node", "total", "TaintToleration"]
    rows = list(csv.DictReader(io.StringIO(run("explain", cluster, "--pod", "default/new", "--scores", "-f", "csv").stdout)))
    assert [(row["node"], int(row["total"])) for row in rows] == [*found["total"].items()]
    (bound,) = json.loads(run("explain", cluster, "--pod", "default/low", "--scores").stdout)["pods"]
    assert set(bound["scores"]) == {"n1", "n2"}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--scores"], "--scores needs --pod or --workload"),
        (["--scheduler-config", "-"], "--scheduler-config requires --scores"),
        (["--scores", "--pod", "default/new", "--per-node"], "--scores and --per-node do not go together"),
    ],
)
def test_options_that_do_not_go_together(cluster: str, arguments: list[str], line: str) -> None:
    result = run("explain", cluster, *arguments)
    assert result.exit_code != 0
    assert line in result.stderr


def test_what_a_configuration_has_and_is_not_followed_is_said(cluster: str, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(CONFIGURATION | {"extenders": [{"urlPrefix": "http://127.0.0.1/x"}]}))
    line = "scheduler profile default-scheduler: extender http://127.0.0.1/x"
    assert f"note: {line}\n" in run("simulate", cluster, "--scheduler-config", str(file)).stderr
    strict = run("simulate", cluster, "--scheduler-config", str(file), "--strict")
    assert (strict.exit_code, strict.stdout) == (4, "")
    assert line in strict.stderr
