"""The command nodes, as a user calls it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.commands.nodes import _SORTS
from kubestow.report.documents.node_rows import SORTS
from tests.objects import node, pod


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    labels = [{"pool": "old", "topology.kubernetes.io/zone": "a"}, {"pool": "new", "topology.kubernetes.io/zone": "b"}]
    nodes = [node(f"gke-production-{i}", labels=labels[i % 2], unschedulable=i == 3) for i in range(4)]
    pods = [pod(f"p{i}", node_name=f"gke-production-{i % 4}", cpu="700m", memory="1Gi", namespace="ab"[i % 2]) for i in range(6)]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [*nodes, *pods, pod("waits")]}))
    return str(file)


def run(*arguments: str, columns: str = "") -> Result:
    result = CliRunner().invoke(cli.main, ["nodes", *arguments], env={"COLUMNS": columns})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_table(cluster: str) -> None:
    result = run(cluster, "-f", "table")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert result.stdout.startswith("4 nodes, 6 pods on them, 1 pending  (limits, free and largest pod: CPU / memory)\n")
    assert lines[3][:7] == ["gke-production-0", "██▊·····", "35%", "██······", "25%", "▏·······", "2%"]
    assert lines[3][7:] == ["0%", "/", "0%", "2.6", "/", "6Gi", "2600m", "/", "6144Mi"]
    assert lines[6][-1] == "cordon"
    assert lines[7][0] == "all"
    assert result.stderr == "4 nodes, 6 pods on them, 1 pending\n"
    assert run(cluster, "-q").stderr == ""


def test_forms_say_the_same(cluster: str) -> None:
    document = json.loads(run(cluster).stdout)
    assert yaml.safe_load(run(cluster, "-f", "yaml").stdout) == document
    found = list(csv.DictReader(io.StringIO(run(cluster, "-f", "csv").stdout)))
    assert [int(row["requests.cpu"]) for row in found] == [row["requests"]["cpu"] for row in document["rows"]]
    assert [(int(row["largest.cpu"]), row["largest.node"]) for row in found] == [
        (row["largest"][0]["cpu"], row["largest"][0]["node"]) for row in document["rows"]
    ]
    assert "1.4/4" in run(cluster, "-f", "wide").stdout


def test_rows_by_zone_and_namespace(cluster: str) -> None:
    zones = json.loads(run(cluster, "--by", "zone").stdout)["rows"]
    assert [(row["name"], row["nodes"], row["pods"]) for row in zones] == [("a", 2, 3), ("b", 2, 3)]
    spaces = json.loads(run(cluster, "--by", "namespace").stdout)["rows"]
    assert [(row["name"], row["pods"], row.get("pending", 0)) for row in spaces] == [("a", 3, 0), ("b", 3, 0), ("default", 0, 1)]
    for by in ("zone", "namespace"):
        for form in ("table", "wide", "csv"):
            assert run(cluster, "--by", by, "-f", form).exit_code == 0


def test_a_selector_chooses_nodes(cluster: str) -> None:
    for option in ("-l", "--selector"):
        rows = json.loads(run(cluster, option, "pool=old").stdout)["rows"]
        assert [row["name"] for row in rows] == ["gke-production-0", "gke-production-2"]
    none = run(cluster, "-l", "pool=none")
    assert (none.exit_code, none.stdout) == (1, "")
    assert none.stderr == "kubestow: --selector pool=none: no node of the snapshot has such labels\n"
    assert run(cluster, "-l", "((").exit_code == 2
    assert run(cluster, "--by", "namespace", "--sort", "free-cpu").exit_code == 2


@pytest.mark.parametrize("sort", SORTS)
def test_every_order_is_offered(cluster: str, sort: str) -> None:
    assert sort in _SORTS
    assert run(cluster, "--sort", sort).exit_code == 0


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text("{")
    result = run(str(file))
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (1, "", 1)
