"""The namespace of manifests that name none: given with -n, recorded in the result, and read from there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from tests.commands.test_tables import deployment, written
from tests.objects import Object, node


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.main, [*arguments])
    assert result.exit_code == code, result.stderr
    return result


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A cluster, and manifests of which one names a namespace."""
    named, nameless = deployment("named", 1), deployment("nameless", 2)
    del nameless["metadata"]["namespace"]
    return written(tmp_path / "c.json", [node("n1"), node("n2")]), written(tmp_path / "w.json", [named, nameless])


def placed(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("solve", *arguments, "-q", "-f", "json").stdout)
    return found


def test_objects_without_a_namespace_get_it(files: tuple[str, str]) -> None:
    cluster, manifests = files
    assert placed(cluster, "-w", manifests)["snapshot"]["workloads"] == ["Deployment shop/named", "Deployment default/nameless"]
    document = placed(cluster, "-w", manifests, "-n", "team-a")
    assert document["snapshot"]["workloads"] == ["Deployment shop/named", "Deployment team-a/nameless"]
    assert document["snapshot"]["edits"] == {"namespace": "team-a"}
    assert {a["pod"].partition("/")[0] for a in document["assignments"]} == {"shop", "team-a"}
    pods = json.loads(run("explain", cluster, "-w", manifests, "--namespace", "team-a", "-q").stdout)["pods"]
    assert {pod["pod"].partition("/")[0] for pod in pods} == {"shop", "team-a"}


def test_verify_and_report_read_it_from_the_result(files: tuple[str, str], tmp_path: Path) -> None:
    cluster, manifests = files
    result = str(tmp_path / "result.json")
    run("solve", cluster, "-w", manifests, "-n", "team-a", "-q", "-o", result)
    assert json.loads(run("verify", cluster, "-w", manifests, "--result", result, "-q", "-f", "json").stdout)["valid"]
    page = str(tmp_path / "page.html")
    run("report", cluster, "-w", manifests, "--result", result, "-o", page)
    assert "team-a" in Path(page).read_text(encoding="utf-8")
    run("report", cluster, "-w", manifests, "-n", "team-b", "-o", page)
    assert "team-b" in Path(page).read_text(encoding="utf-8")
    assert "-n and --result exclude each other" in run("report", cluster, "-n", "x", "--result", result, "-o", page, code=2).stderr


def test_the_template_of_a_rollout_takes_it_too(tmp_path: Path) -> None:
    root = Path(cli.__file__).resolve().parent / "instances"
    text = (root / "rollout-three-nodes.yaml").read_text(encoding="utf-8").replace("namespace: default", "namespace: shop")
    (tmp_path / "cluster.yaml").write_text(text, encoding="utf-8")
    template = deployment("app", 2)
    del template["metadata"]["namespace"]
    template["spec"]["selector"]["matchLabels"] = template["spec"]["template"]["metadata"]["labels"] = {"app": "app"}
    file = written(tmp_path / "app.json", [template])
    result = str(tmp_path / "rollout.json")
    run("solve", str(tmp_path / "cluster.yaml"), "--rollout", f"app={file}", "-n", "shop", "-q", "-o", result)
    assert json.loads(Path(result).read_text())["rollout"]["workload"] == "Deployment shop/app"
    run("verify", str(tmp_path / "cluster.yaml"), "--result", result, "-w", file)


@pytest.mark.parametrize("name", ["", "A", "a/b", "-a", "a" * 64])
def test_a_name_that_is_none_is_refused(files: tuple[str, str], tmp_path: Path, name: str) -> None:
    cluster, manifests = files
    assert run("solve", cluster, "-w", manifests, "-n", name, code=2).stdout == ""
    document: Object = placed(cluster, "-w", manifests, "-n", "a")
    document["snapshot"]["edits"]["namespace"] = name
    forged = written(tmp_path / "forged.json", [])
    Path(forged).write_text(json.dumps(document))
    refused = run("verify", cluster, "-w", manifests, "--result", forged, code=1)
    assert "expected a DNS label: at most 63" in refused.stderr


def test_it_needs_manifests(files: tuple[str, str]) -> None:
    for command in (["solve"], ["simulate"], ["report", "-o", "x.html"]):
        assert "-n requires manifests" in run(command[0], files[0], "-n", "a", *command[1:], code=2).stderr
