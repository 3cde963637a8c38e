"""Bad input: exit 1, one line a problem on standard error, nothing written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import cli
from tests.objects import Object, node, pod

SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def affinity(**term: Any) -> Object:
    terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, **term}]
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def operator(name: str) -> Object:
    return {"matchExpressions": [{"key": "a", "operator": name, "values": ["b"]}]}


def as_list(*objects: Object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def wrong_type() -> Object:
    found = pod("a")
    found["spec"]["containers"] = "none"
    return found


CASES: list[tuple[str, list[tuple[str, ...]]]] = [
    (as_list(node("n1"), pod("a"))[:-20], [("truncated",)]),
    (as_list(wrong_type()), [("Pod default/a", "spec.containers")]),
    (as_list(pod("a", cpu="12Q")), [("Pod default/a", "spec.containers[0].resources.requests.cpu", "12Q")]),
    (as_list(node("n1", memory="8GiB")), [("Node n1", "status.allocatable.memory", "8GiB")]),
    (as_list(pod("a"), pod("a", cpu="2")), [("Pod default/a", "already")]),
    (as_list(pod("a", spread=[{**SPREAD, "maxSkew": -1}])), [("Pod default/a", "spec.topologySpreadConstraints[0].maxSkew", "-1")]),
    (as_list(pod("a", spread=[{**SPREAD, "topologyKey": ""}])), [("Pod default/a", "topologySpreadConstraints[0].topologyKey")]),
    (as_list(pod("a", affinity=affinity(topologyKey=""))), [("Pod default/a", "podAffinity", "topologyKey")]),
    (as_list(pod("a", affinity=affinity(labelSelector=operator("Is")))), [("Pod default/a", "operator", "Is")]),
    (as_list(pod("a", spread=[{**SPREAD, "whenUnsatisfiable": "Never"}])), [("Pod default/a", "whenUnsatisfiable", "Never")]),
    (as_list(pod("a", priorityClassName="none-such")), [("Pod default/a", "spec.priorityClassName", "none-such")]),
    (
        as_list(pod("a", cpu="x"), node("n1", cpu="y"), pod("b", spread=[{**SPREAD, "maxSkew": 0}]), pod("fine")),
        [("Pod default/a", "cpu"), ("Node n1", "cpu"), ("Pod default/b", "maxSkew")],
    ),
    ("", [("no objects",)]),
    ("kind: Pod\nkind: Node\n", [("duplicate",)]),
    ("just text", [("expected",)]),
]


@pytest.mark.parametrize(("content", "expected"), CASES)
def test_each_problem_is_one_line_and_nothing_is_written(tmp_path: Path, content: str, expected: list[tuple[str, ...]]) -> None:
    path, target = tmp_path / "cluster.json", tmp_path / "out.json"
    path.write_text(content, encoding="utf-8")
    target.write_text("precious", encoding="utf-8")
    result = CliRunner().invoke(cli.main, ["solve", str(path), "-o", str(target)])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert target.read_text(encoding="utf-8") == "precious"
    lines = result.stderr.splitlines()
    assert len(lines) == len(expected), result.stderr
    for line, words in zip(lines, expected, strict=True):
        assert line.startswith(f"kubestow: {path}: ")
        assert all(word.lower() in line.lower() for word in words), line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cluster.json", "out.json"]


def test_a_missing_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.main, ["solve", str(tmp_path / "none.json")])
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1


def test_a_directory_that_contains_itself(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(as_list(node("n1")), encoding="utf-8")
    (tmp_path / "loop").symlink_to(tmp_path)
    result = CliRunner().invoke(cli.main, ["solve", str(tmp_path)])
    assert result.exit_code == 1
    assert [line for line in result.stderr.splitlines() if "symbolic link" in line] == result.stderr.splitlines()


def test_problems_of_several_files_are_all_told(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(as_list(pod(name, cpu="?")), encoding="utf-8")
    result = CliRunner().invoke(cli.main, ["explain", str(tmp_path / "one.json"), str(tmp_path / "two.json")])
    assert result.exit_code == 1
    assert [name in line for name, line in zip(("one", "two"), result.stderr.splitlines(), strict=True)] == [True, True]
