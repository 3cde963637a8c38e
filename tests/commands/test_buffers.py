"""Commands on clusters with CapacityBuffers: their output, and the facts that they must mention."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from tests.buffers import buffer, deployment, nodes, template
from tests.objects import Object, pod


def write(path: Path, *things: Object) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, arguments, env={"COLUMNS": "200"})


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """As in the report: a node of 4 CPU, and 3 chunks of 2 CPU."""
    return write(tmp_path / "cluster.json", *nodes(1), template("t"), buffer("b", "t", 3))


def test_fit(cluster: str, tmp_path: Path) -> None:
    more = write(tmp_path / "more.json", deployment("more", "1", replicas=1))
    found = run("fit", cluster, "-w", more, "-f", "table")
    assert "default/b: now 2 of 3 chunks fit (proved); with all these replicas 0 of 3 chunks fit (proved)" in found.stdout
    found = run("fit", cluster, "-w", more, "--keep-buffers", "-f", "table")
    assert (found.exit_code, "no more replicas of Deployment default/more fit (proved)" in found.stdout) == (3, True)


def test_fit_beside_all_chunks(tmp_path: Path) -> None:
    file = write(tmp_path / "two.json", *nodes(1), template("t"), buffer("b", "t", 1))
    more = write(tmp_path / "more.json", deployment("more", "1", replicas=1))
    found = run("fit", file, "-w", more, "--keep-buffers", "-o", str(tmp_path / "fit.json"))
    document: Any = json.loads((tmp_path / "fit.json").read_text())
    assert (document["units"], document["bound"], document["snapshot"]["edits"]["buffers"]) == (2, 2, True)
    assert [each["buffers"][0]["fits"] for each in document["headroom"]] == [1, 1]
    assert found.exit_code == 0
    assert run("verify", file, "-w", more, "--result", str(tmp_path / "fit.json")).exit_code == 0


def test_the_document_has_no_headroom_without_buffers(tmp_path: Path) -> None:
    found = run("survive", write(tmp_path / "plain.json", *nodes(2)), "--fail", "node")
    assert "headroom" not in json.loads(found.stdout)


def test_size(tmp_path: Path) -> None:
    file = write(tmp_path / "cluster.json", *nodes(1), template("t"), buffer("b", "t", 3))
    shape = {"name": "m4", "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}, "price": 0.2, "zones": ["a"]}
    offered = tmp_path / "catalogue.json"
    offered.write_text(json.dumps({"apiVersion": "kubestow.dev/v1alpha1", "kind": "Catalogue", "shapes": [shape]}))
    found = run("size", file, "--catalogue", str(offered), "-f", "table")
    assert "default/b: the nodes hold 3 chunks" in found.stdout
    assert "without these chunks 0.00 per hour would be paid: they cost 0.20 per hour (proved)" in found.stdout
    found = run("size", file, "--catalogue", str(offered), "--without-buffers", "-f", "table")
    assert found.stdout.startswith("buy nothing")
    assert "Headroom" not in found.stdout


@pytest.mark.parametrize("command", [("solve",), ("nodes",), ("explain",)])
def test_others_name_the_buffers(cluster: str, command: tuple[str, ...]) -> None:
    found = run(*command, cluster)
    assert "1 CapacityBuffer asks for chunks of headroom (default/b 3), which hold no room against real pods" in found.stderr


def test_what_is_not_known_is_refused_by_strict(tmp_path: Path) -> None:
    file = write(tmp_path / "cluster.json", *nodes(1), buffer("b", "t", 3))
    assert run("solve", file).exit_code == 0
    assert run("solve", file, "--strict").exit_code == 4


def test_buffers_of_manifests(tmp_path: Path) -> None:
    """Nothing makes pods of their templates, and they count as those of the cluster do."""
    file = write(tmp_path / "cluster.json", *nodes(1), pod("p", cpu="1", node_name="n0", owner="ReplicaSet/r"))
    more = write(tmp_path / "more.json", template("t"), buffer("b", "t", 3))
    found = run("solve", file, "-w", more)
    assert (found.exit_code, json.loads(found.stdout)["assignments"]) == (0, [])
    assert "(default/b 3)" in found.stderr
    found = run("check", more, "--cluster", file, "-f", "table")
    assert "KS522  CapacityBuffer default/b: 1 of 3 chunks fits now (proved)" in found.stdout
    assert "PodTemplate default/t: new" not in found.stdout
    found = run("fit", file, "-w", more)
    assert (found.exit_code, "contain no workload with replicas" in found.stderr) == (1, True)


def test_without_a_cluster_references_are_left_open(tmp_path: Path) -> None:
    alone = write(tmp_path / "alone.json", buffer("b", "t", 3))
    assert "KS228" not in run("check", alone).stdout
    wrong = write(tmp_path / "wrong.json", template("t"), buffer("b", "t", 3, provisioningStrategy="x"))
    assert "KS228" in run("check", wrong).stdout
