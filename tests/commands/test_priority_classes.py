"""A PriorityClass that the snapshot lacks: an API server refuses such pods, and those that it took have a priority."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
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


def _class(policy: str | None, **fields: object) -> Object:
    stated = {"preemptionPolicy": policy} if policy else {}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 7, **stated, **fields}


@pytest.mark.parametrize(
    ("classes", "named", "stated", "computed"),
    [
        ([], None, "Never", "PreemptLowerPriority"),
        ([], None, "PreemptLowerPriority", None),
        ([], "system-node-critical", "Never", "PreemptLowerPriority"),
        ([_class("Never")], "gold", "Never", None),
        ([_class("Never")], "gold", "PreemptLowerPriority", "Never"),
        ([_class("Never")], None, "Never", "PreemptLowerPriority"),
        ([_class("Never", globalDefault=True)], None, "Never", None),
        ([_class(None)], "gold", "Never", "PreemptLowerPriority"),
    ],
)
def test_a_new_pod_cannot_choose_its_preemption_policy(
    tmp_path: Path, classes: list[Object], named: str | None, stated: str, computed: str | None
) -> None:
    """Admission computes the policy from the class, and refuses another one: of a pod, and of a template's pods."""
    fields: Object = {"preemptionPolicy": stated, **({"priorityClassName": named} if named else {})}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod("x", **fields)["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"}, "spec": spec}
    cluster, manifests = tmp_path / "cluster.json", tmp_path / "app.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n1"), *classes]}), encoding="utf-8")
    for given, path in ((pod("p", **fields), "spec"), (workload, "spec.template.spec")):
        manifests.write_text(json.dumps(given), encoding="utf-8")
        result = CliRunner().invoke(cli.main, ["solve", str(cluster), "-w", str(manifests)])
        if computed is None:
            assert result.exit_code == 0, result.stderr
            continue
        assert (result.exit_code, result.stdout) == (1, "")
        reason = f"Forbidden: the string value of PreemptionPolicy ({stated}) must not be provided in pod spec; "
        reason += f"priority admission controller computed {computed} from the given PriorityClass name"
        assert f"{path}.preemptionPolicy: {reason}\n" in result.stderr


def test_a_stored_pod_keeps_its_preemption_policy(tmp_path: Path) -> None:
    assert run(tmp_path / "a.json", pod("p", preemptionPolicy="Never"), "solve").exit_code == 0
