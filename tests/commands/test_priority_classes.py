"""A PriorityClass that the snapshot lacks: an API server refuses such pods, and those that it took have a priority."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import cli
from tests.objects import Object, node, pod


def run(path: Path, given: Object, *arguments: str) -> Result:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n1"), given]}), encoding="utf-8")
    result = CliRunner().invoke(cli.main, [arguments[0], str(path), *arguments[1:]])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize("command", ["solve", "explain", "audit"])
def test_a_pending_pod_without_a_priority_is_bad_input(tmp_path: Path, command: str) -> None:
    result = run(tmp_path / "a.json", pod("p", priorityClassName="gold"), command)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Pod default/p: spec.priorityClassName: no PriorityClass 'gold' in the input, expected it or spec.priority" in result.stderr


def test_a_running_pod_without_a_priority_is_a_warning(tmp_path: Path) -> None:
    result = run(tmp_path / "a.json", pod("p", priorityClassName="gold", node_name="n1"), "solve", "-v")
    assert result.exit_code == 0
    assert "priority class 'gold' is not in the snapshot: priority 0 for 1 pod" in result.stderr


def test_a_priority_counts_without_its_class(tmp_path: Path) -> None:
    result = run(tmp_path / "a.json", pod("p", priorityClassName="gold", priority=7), "solve", "-f", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["objective"][0]["priority"] == 7
