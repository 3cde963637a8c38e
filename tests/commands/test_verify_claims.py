"""The command verify on false documents, made by hand, and on the claims that a document makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from tests.objects import Object, node, pod

_APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}

RULES = "the rules are those of Kubernetes 1.36"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(each) for each in arguments], catch_exceptions=False)


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Two nodes, three pods that keep apart, of which one is left, and one that fits anywhere."""
    web: list[Object] = [pod(f"web-{i}", labels={"app": "web"}, affinity=_APART) for i in range(3)]
    avoided = node("n2", taints=[{"key": "soft", "effect": "PreferNoSchedule"}])
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n1"), avoided, *web, pod("batch")]}))
    return path


def solved(snapshot: Path, *options: str) -> dict[str, Any]:
    result = run("solve", snapshot, "-q", "-f", "json", "--deterministic", "--time-limit", "5", *options)
    assert result.exit_code in (0, 3), result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def verified(snapshot: Path, document: dict[str, Any], *options: str | Path) -> tuple[int, dict[str, Any], str]:
    path = snapshot.with_name("result.json")
    path.write_text(json.dumps(document))
    result = run("verify", snapshot, "--result", path, "-f", "json", *options)
    assert result.exit_code in (0, 4), result.stderr
    return result.exit_code, json.loads(result.stdout), result.stderr


def _hide(document: dict[str, Any]) -> None:
    """The last pod is said to fit nowhere, and that to be proved."""
    last = max(document["assignments"], key=lambda each: each["order"])
    document["assignments"].remove(last)
    document["unplaced"].append({"pod": last["pod"], "reasons": [{"rule": "NodeResourcesFit", "nodes": 2, "message": "no room"}]})
    document["objective"] = [{"tier": "placed", "priority": 0, "value": 2, "bound": 2}]
    document["causes"] = []
    document.pop("preferences")


def _reason(document: dict[str, Any]) -> None:
    document["unplaced"][0]["reasons"] = [{"rule": "NodeResourcesFit", "nodes": 2, "message": "no room"}]


def _cause(document: dict[str, Any]) -> None:
    document["causes"][0]["pods"] = [document["assignments"][0]["pod"]]


LIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a pod that fits is left": (_hide, "the pod is unplaced and the node accepts it as well"),
    "another reason": (_reason, "NodeResourcesFit is said to reject the pod on 2 nodes, it does on 0"),
    "no reasons": (lambda d: d["unplaced"][0]["reasons"].clear(), "InterPodAffinity is said to reject the pod on 0 nodes, it does on 2"),
    "a cause of another pod": (_cause, "a cause is given for a pod that is not listed as unplaced"),
    "another number of nodes": (lambda d: d["snapshot"].update(nodes=3), "snapshot.nodes is 3, it should be 2"),
    "another number of pods": (lambda d: d["snapshot"].update(pods=5), "snapshot.pods is 5, it should be 4"),
    "fewer pods to be placed": (lambda d: d["snapshot"].update(pending=3), "snapshot.pending is 3, it should be 4"),
    "no hash": (lambda d: d["snapshot"].update(sha256=""), "the document does not say which snapshot it is of"),
    "a gap in the order": (lambda d: d["assignments"][-1].update(order=9), "order numbers go from 1 without a gap, expected 3 and got 9"),
    "an engine": (lambda d: d.update(engine="oracle"), "there is no engine 'oracle'"),
    "a family": (lambda d: d["preferences"]["families"].append({"family": "luck", "value": 1, "best": 1}), "there is no family 'luck'"),
    "something unmet": (
        lambda d: d["preferences"]["unmet"].append(
            {"workload": "Pod default/batch", "family": "taints", "preference": "x", "pods": 1, "lost": 100}
        ),
        "preferences: Pod default/batch taints x: 1 pods are said to lose 100, 0 lose 0",
    ),
    "less than proved": (lambda d: d.update(status="unknown"), "the status is unknown"),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies(snapshot: Path, lie: str) -> None:
    document = solved(snapshot)
    assert verified(snapshot, document)[0] == 0
    change, told = LIES[lie]
    change(document)
    code, answer, _ = verified(snapshot, document)
    assert (code, answer["valid"]) == (4, False)
    assert any(told in each["why"] for each in answer["violations"]), answer["violations"]


def test_a_document_that_exempts_a_namespace_says_so_whatever_it_is_asked(snapshot: Path) -> None:
    document = solved(snapshot, "--daemon-namespaces", "default")
    assert document["unplaced"] == []
    clause = "pods of these namespaces are exempt from required anti-affinity: default"
    for options in ((), ("-q",)):
        code, answer, said = verified(snapshot, document, *options)
        assert (code, answer["says"]) == (0, [RULES, clause])
        assert f"note: the document says: {clause}\n" in said
    code, answer, _ = verified(snapshot, document, "--expect-no-exemptions")
    assert code == 4
    assert [each["why"] for each in answer["violations"]] == ["namespaces are exempt from required anti-affinity, expected none: default"]
    assert clause in run("verify", snapshot, "--result", snapshot.with_name("result.json"), "-f", "table").stdout


def test_a_document_without_anything_of_its_own_says_by_whose_rules_it_is(snapshot: Path) -> None:
    document = solved(snapshot)
    code, answer, said = verified(snapshot, document, "--expect-no-exemptions", "-q")
    assert (code, answer["says"], said) == (0, [RULES], f"note: the document says: {RULES}\n")
    del document["snapshot"]["kubernetesVersion"]  # as other versions of kubestow have it
    code, answer, said = verified(snapshot, document, "--expect-no-exemptions", "-q")
    assert (code, "says" in answer, said) == (0, False, "")
    assert any("bounds" in clause for clause in answer["notChecked"])


def test_the_policy_that_is_expected(snapshot: Path, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.yaml", tmp_path / "other.yaml"
    mine.write_text("multipliers: {taints: 3}\n")
    other.write_text("multipliers: {taints: 2}\ndaemonNamespaces: [kube-system]\n")
    document = solved(snapshot, "--policy", str(mine))
    code, answer, _ = verified(snapshot, document, "--expect-policy", mine)
    assert (code, answer["says"]) == (0, [RULES, "the policy has multipliers.taints 3 instead of 1"])
    code, answer, _ = verified(snapshot, document, "--expect-policy", other)
    assert [each["why"] for each in answer["violations"]] == [
        "the policy has multipliers.taints 3, expected 2",
        "the policy has daemonNamespaces empty, expected kube-system",
        "namespaces exempt from required anti-affinity are none, expected kube-system",
    ]
    bad = tmp_path / "bad.yaml"
    bad.write_text("multipliers: {luck: 1}\n")
    refused = run("verify", snapshot, "--result", snapshot.with_name("result.json"), "--expect-policy", bad)
    assert (refused.exit_code, refused.stdout) == (1, "")


def test_edits_and_scope_are_said(snapshot: Path) -> None:
    document = solved(snapshot, "--add-nodes", "1:n1")
    assert verified(snapshot, document)[1]["says"] == [RULES, "the snapshot is edited: addNodes 1:n1"]
    document = solved(snapshot, "--from-scratch")
    assert verified(snapshot, document)[1]["says"] == [RULES, "running pods that may move are placed again"]


def test_obstacles_of_a_plan(snapshot: Path) -> None:
    result = run("rebalance", snapshot, "--goal", "admit", "-q", "-f", "json", "--deterministic", "--time-limit", "5")
    plan = json.loads(result.stdout)
    assert verified(snapshot, plan)[0] == 0
    (obstacle,) = plan["obstacles"]
    plan["obstacles"] = []
    assert "the goal admit leaves the pod, and no obstacle mentions it" in str(verified(snapshot, plan)[1]["violations"])
    plan["obstacles"] = [obstacle, {**obstacle, "pod": "default/batch"}]
    assert "an obstacle says that the goal admit leaves the pod, and it does not" in str(verified(snapshot, plan)[1]["violations"])


def test_what_is_not_modelled_of_waiting_pods_concerns_plans_that_place_them(tmp_path: Path) -> None:
    waiting = pod("waiting", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"]},
    }
    late = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "late"},
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    snapshot, plan = tmp_path / "snapshot.json", tmp_path / "plan.json"
    running = pod("a-1", node_name="n1", owner="ReplicaSet/a")
    items = [node("n1"), node("n2"), running, waiting, claim, late]
    snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    for goal in (("--drain", "n1"), ("--goal", "admit")):
        run("rebalance", snapshot, *goal, "-q", "-o", plan)
        run("verify", snapshot, "--result", plan)
