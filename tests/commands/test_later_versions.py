"""Objects that a later version of Kubernetes has stored: what commands say of them, and what --strict refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from tests.objects import node, pod

OPERATOR = "spec.tolerations[{}].operator: 'Foo' is not known here: it tolerates nothing"
NOTE = f"not understood: Pod default/odd: {OPERATOR.format('')}"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(each) for each in arguments], catch_exceptions=False)


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.json"
    odd: dict[str, Any] = pod("odd", tolerations=[{"key": "k", "operator": "Foo"}], tomorrow=1)
    odd["metadata"]["uid"] = "u"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n1"), odd]}))
    return path


def test_results_name_what_is_not_understood(snapshot: Path) -> None:
    result = snapshot.with_name("result.json")
    found = run("solve", snapshot, "-f", "json", "-q", "-o", result)
    unknown = "not understood: Pod default/odd: spec.tomorrow: unknown field, ignored"
    assert (found.exit_code, set(found.stderr.splitlines())) == (0, {f"note: {NOTE}", f"note: {unknown}"})
    document = json.loads(result.read_text())
    assert {NOTE, unknown} <= set(document["notes"])
    assert {(each["pod"], each["field"], each["effect"]) for each in document["unmodelled"]} == {
        ("default/odd", "spec.tolerations[0].operator", "'Foo' is not known here: it tolerates nothing"),
        ("default/odd", "spec.tomorrow", "unknown field, ignored"),
    }
    assert run("verify", snapshot, "--result", result).exit_code == 0
    document["unmodelled"] = []
    result.write_text(json.dumps(document))
    assert "spec.tomorrow is not modelled, and the document does not say so" in run("verify", snapshot, "--result", result).stdout


@pytest.mark.parametrize("command", ["solve", "explain", "nodes", "audit", "rebalance --drain n1"])
def test_strict_refuses_it(snapshot: Path, command: str) -> None:
    name, *more = command.split()
    found = run(name, snapshot, *more, "--strict")
    assert (found.exit_code, found.stdout) == (4, "")
    assert f"kubestow: not taken into account: {NOTE}" in found.stderr.splitlines()


def test_manifests_with_the_same_are_bad_input(snapshot: Path) -> None:
    new = snapshot.with_name("new.json")
    new.write_text(json.dumps(pod("new", tolerations=[{"key": "k", "operator": "Exist"}])))
    found = run("solve", snapshot, "-w", new)
    assert found.exit_code == 1
    problem = "spec.tolerations[0].operator: got 'Exist', expected Exists or Equal; did you mean Exists?"
    assert found.stderr.splitlines()[-1] == f"kubestow: {new}: Pod default/new: {problem}"
