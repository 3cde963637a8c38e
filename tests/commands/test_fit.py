"""The command fit, as a user calls it."""

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
from tests.solver.capacity.fit.random_fits import deployment

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    nodes = [node(f"n{i}", cpu="4", labels={ZONE: f"z{i % 2}"}) for i in range(3)]
    pods = [pod("web-0", cpu="1", labels={"app": "web", "deployment": "web"}, node_name="n0"), pod("waits")]
    return written(tmp_path / "cluster.json", {"kind": "List", "apiVersion": "v1", "items": [*nodes, *pods]})


@pytest.fixture
def web(tmp_path: Path) -> str:
    return written(tmp_path / "web.json", deployment("web", pod("web", cpu="1", labels={"app": "web"}), 1))


def written(path: Path, content: object) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli.main, ["fit", *arguments], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_table(cluster: str, web: str) -> None:
    result = run(cluster, "-w", web, "-f", "table")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert result.stdout.startswith("11 more replicas of Deployment default/web fit (proved)\n")
    assert lines[3] == ["Deployment", "default/web", "1", "11", "12", "12", "1"]
    assert ["n0", "3", "+4"] in lines
    assert "1 pod of the snapshot without a node" in result.stdout
    assert result.stderr.startswith("11 more replicas of Deployment default/web fit (proved); ")
    assert run(cluster, "-w", web, "-q").stderr == ""


def test_forms_say_the_same(cluster: str, web: str) -> None:
    document = json.loads(run(cluster, "-w", web, "--deterministic").stdout)
    assert (document["kind"], document["units"], document["bound"]) == ("Fit", 11, 11)
    assert yaml.safe_load(run(cluster, "-w", web, "--deterministic", "-f", "yaml").stdout) == document
    rows = list(csv.DictReader(io.StringIO(run(cluster, "-w", web, "-f", "csv").stdout)))
    assert [(row["row"], row["name"], row["present"], row["more"], row["at_most"]) for row in rows] == [
        ("template", "Deployment default/web", "1", "11", "11"),
        ("node", "n0", "3", "4", "4"),
    ]


def test_a_room_that_is_kept_and_pods_that_wait(cluster: str, web: str) -> None:
    def units(*more: str) -> int:
        found: int = json.loads(run(cluster, "-w", web, *more).stdout)["units"]
        return found

    assert units("--keep", "25") == 8
    assert units("--keep", "26%") == 5
    assert units("--with-pending") == 10
    assert units("--add-nodes", "1:n1") == 15


def test_nothing_fits(cluster: str, tmp_path: Path) -> None:
    large = written(tmp_path / "large.json", deployment("large", pod("large", cpu="5", labels={"app": "large"}), 1))
    result = run(cluster, "-w", large, "-f", "table")
    assert result.exit_code == 3
    assert result.stdout.startswith("no more replicas of Deployment default/large fit (proved)\n")
    assert "why replica 1 does not fit" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--keep", "0"), "expected PERCENT or PERCENT:zone, from 1 to 99"),
        (("--keep", "20:rack"), "expected PERCENT or PERCENT:zone, from 1 to 99"),
        (("--keep", "100"), "expected PERCENT or PERCENT:zone, from 1 to 99"),
    ],
)
def test_wrong_usage(cluster: str, web: str, arguments: tuple[str, ...], text: str) -> None:
    result = run(cluster, "-w", web, *arguments)
    assert result.exit_code == 2
    assert text in result.stderr


def test_bad_input_has_one_line(cluster: str, web: str, tmp_path: Path) -> None:
    result = run(cluster, "-w", written(tmp_path / "pod.json", pod("alone")))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "kubestow: Pod default/alone: a pod has no replicas; expected its template in a PodTemplate or another workload"
    ]
    assert run(cluster).exit_code == 2
    assert run(cluster, "-w", web, "--remove-node", "n9").exit_code == 1


def test_nodes_that_are_bought_take_replicas(cluster: str, web: str) -> None:
    catalogue = str(Path(cli.__file__).parent / "instances" / "catalogue.yaml")
    result = run(cluster, "-w", web, "--catalogue", catalogue, "--buy", "1:g2.2xlarge@a")
    assert (result.exit_code, json.loads(result.stdout)["units"]) == (0, 18)
    assert run(cluster, "-w", web, "--buy", "1:g2.2xlarge@a").exit_code == 2


def test_templates_whose_selectors_take_each_others_pods_are_refused(cluster: str, web: str, tmp_path: Path) -> None:
    same = json.loads(Path(web).read_text())
    labels = same["spec"]["template"]["metadata"]["labels"]
    template = {"metadata": {"labels": labels}, "spec": same["spec"]["template"]["spec"]}
    other = written(tmp_path / "other.json", {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "one"}, "template": template})
    result = run(cluster, "-w", web, "-w", other)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "the selector of another template matches it, too" in result.stderr
