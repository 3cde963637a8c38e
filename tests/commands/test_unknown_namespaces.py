"""Namespaces without an object: no command proves anything by their labels, and one sentence says what to capture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from tests.objects import Object, node, pod
from tests.solver.capacity.fit.random_fits import deployment

SENTENCE = "the labels of namespace team-a are not known"
CAPTURE = "kubectl get namespaces -o json"
HOST = "kubernetes.io/hostname"


def near(env: str = "prod", key: str = "env", part: str = "podAffinity") -> Object:
    """Return affinity to the pods of application a in the namespaces with a label."""
    term = {
        "topologyKey": HOST, "namespaceSelector": {"matchLabels": {key: env}}, "labelSelector": {"matchLabels": {"app": "a"}},
    }  # fmt: skip
    return {part: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def cluster(*more: Object, affinity: Object | None = None, pending: bool = True) -> list[Object]:
    there = pod("a", namespace="team-a", labels={"app": "a"}, node_name="n1")
    waits = pod("b", namespace="team-b", labels={"app": "b"}, affinity=affinity or near())
    return [node("n1"), there, *([waits] if pending else []), *more]


def written(path: Path, objects: list[Object]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), encoding="utf-8")
    return str(path)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli.main, list(arguments), env={"COLUMNS": "300"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def asked(path: Path, objects: list[Object], *command: str) -> tuple[Result, Any]:
    result = run(command[0], written(path / "cluster.json", objects), *command[1:], "-f", "json")
    return result, json.loads(result.stdout)


def assert_said(result: Result, said: list[str]) -> None:
    assert sum(text.startswith(SENTENCE) and CAPTURE in text for text in said) == 1
    assert "proved)" not in run("doctor", "--help").stdout
    assert result.stderr.count(SENTENCE) <= 1


def test_solve_proves_nothing(tmp_path: Path) -> None:
    result, found = asked(tmp_path, cluster(), "solve")
    assert result.exit_code == 3
    assert (found["status"], found["causes"][0]["proved"]) == ("unknown", False)
    assert (found["objective"][0]["value"], found["objective"][0]["bound"]) == (0, 1)
    assert not any("proved:" in note or note.endswith("are proved") for note in found["notes"])
    assert_said(result, found["notes"])
    assert "1 could not be (not proved); unknown" in result.stderr
    assert run("solve", str(tmp_path / "cluster.json"), "--strict").exit_code == 4


def test_what_is_impossible_anyhow_stays_proved(tmp_path: Path) -> None:
    objects = cluster()
    objects[-1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9"
    _, found = asked(tmp_path, objects, "solve")
    assert found["status"] == "infeasible"
    assert [fact["rule"] for fact in found["causes"][0]["facts"]] == ["NodeResourcesFit"]
    assert found["causes"][0].get("proved", True)


@pytest.mark.parametrize(
    ("more", "placed"),
    [
        ([namespace("team-a", env="prod")], 1),
        ([namespace("team-a", env="dev")], 0),
        ([namespace("team-a")], 0),
    ],
)
def test_with_the_object_it_is_decided(tmp_path: Path, more: list[Object], placed: int) -> None:
    """That of the pod's own namespace decides nothing: the pod is not of application a."""
    result, found = asked(tmp_path, cluster(*more), "solve")
    assert len(found["assignments"]) == placed
    assert found["status"] == ("optimal" if placed else "infeasible")
    assert SENTENCE not in result.stderr


@pytest.mark.parametrize("name", ["team-a", "team-c"])
def test_the_name_of_a_namespace_is_known(tmp_path: Path, name: str) -> None:
    result, found = asked(tmp_path, cluster(affinity=near(name, "kubernetes.io/metadata.name")), "solve")
    assert found["status"] == ("optimal" if name == "team-a" else "infeasible")
    assert SENTENCE not in result.stderr


def test_explain(tmp_path: Path) -> None:
    result, found = asked(tmp_path, cluster(), "explain")
    assert (result.exit_code, found["causes"][0]["proved"]) == (0, False)
    assert_said(result, found["notes"])


def test_audit_has_no_error(tmp_path: Path) -> None:
    result, found = asked(tmp_path, cluster(), "audit")
    assert not [each for each in found["findings"] if each["rule"] == "InterPodAffinity"]
    assert found["counts"]["error"] == 0
    assert_said(result, found["notes"])
    _, found = asked(tmp_path, cluster(namespace("team-a")), "audit")
    assert [each["code"] for each in found["findings"] if each["severity"] == "error"] == ["KS217"]


@pytest.mark.parametrize("part", ["podAffinity", "podAntiAffinity"])
def test_audit_does_not_call_running_pods_broken(tmp_path: Path, part: str) -> None:
    """Affinity to namespaces with a label, and anti-affinity to those without it."""
    affinity = near(part=part)
    if part == "podAntiAffinity":
        (term,) = affinity[part]["requiredDuringSchedulingIgnoredDuringExecution"]
        term["namespaceSelector"] = {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]}
    runs = pod("b", namespace="team-b", affinity=affinity, node_name="n1")
    _, found = asked(tmp_path, [*cluster(pending=False), runs], "audit")
    assert not [each for each in found["findings"] if each["rule"] == "InterPodAffinity"]
    _, found = asked(tmp_path, [*cluster(pending=False), runs, namespace("team-a", env="dev")], "audit")
    assert {"KS106", "KS107"} & {each["code"] for each in found["findings"]}


def test_fit(tmp_path: Path) -> None:
    web = written(tmp_path / "web.json", [deployment("web", pod("web", namespace="team-b", labels={"app": "b"}, affinity=near()), 1)])
    result, found = asked(tmp_path, cluster(pending=False), "fit", "-w", web)
    assert (found["units"], found["cause"]["proved"]) == (0, False)
    assert found["bound"] > 0
    assert_said(result, found["notes"])


def test_check(tmp_path: Path) -> None:
    objects = cluster()
    web = written(tmp_path / "web.json", [deployment("web", pod("web", namespace="team-b", labels={"app": "b"}, affinity=near()), 1)])
    given = written(tmp_path / "given.json", cluster(pending=False))
    result = run("check", web, "--cluster", given, "-f", "json")
    found = json.loads(result.stdout)
    assert [each["fit"] for each in found["workloads"]] == ["unproved"]
    assert not [each for each in found.get("findings", ()) if each["severity"] == "error"]
    assert_said(result, [*found.get("notes", ()), *found["notChecked"]])
    given = written(tmp_path / "given.json", objects)
    again = json.loads(run("check", web, "--cluster", given, "-f", "json").stdout)
    assert_said(result, [*again.get("notes", ()), *again["notChecked"]])


def test_rebalance(tmp_path: Path) -> None:
    result, found = asked(tmp_path, cluster(), "rebalance", "--goal", "admit")
    assert (found["status"], [each.get("proved", False) for each in found["obstacles"]]) == ("feasible", [False])
    assert next(tier for tier in found["objective"] if tier["tier"] == "placed")["bound"] == 1
    assert_said(result, found["notes"])
    _, found = asked(tmp_path, cluster(), "rebalance", "--goal", "repair")
    assert found["status"] == "feasible"


def test_a_proof_by_unknown_labels_is_refused(tmp_path: Path) -> None:
    """The checker finds out for itself."""
    _, found = asked(tmp_path, cluster(), "solve")
    path = tmp_path / "result.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    assert run("verify", str(tmp_path / "cluster.json"), "--result", str(path)).exit_code == 0
    found["status"], found["objective"][0]["bound"], found["causes"][0]["proved"] = "infeasible", 0, True
    path.write_text(json.dumps(found), encoding="utf-8")
    result = run("verify", str(tmp_path / "cluster.json"), "--result", str(path), "-f", "json")
    assert result.exit_code == 4
    assert sum("by labels of namespaces" in each["why"] for each in json.loads(result.stdout)["violations"]) == 2
