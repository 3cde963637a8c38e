"""Clusters at the edge of what there is, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import cli
from tests.objects import Object, node, pod


def write(tmp_path: Path, objects: list[Object]) -> str:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, ensure_ascii=False), encoding="utf-8")
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, list(arguments))


def solve(tmp_path: Path, objects: list[Object], *options: str, code: int = 0) -> dict[str, Any]:
    """Solve, check the exit code, and have the written result verified."""
    snapshot, target = write(tmp_path, objects), str(tmp_path / "placement.json")
    result = run("solve", snapshot, "-o", target, *options)
    assert result.exit_code == code, result.stderr
    assert run("verify", snapshot, "--result", target).exit_code == 0
    document: dict[str, Any] = json.loads(Path(target).read_text(encoding="utf-8"))
    return document


def nodes_of(document: dict[str, Any]) -> dict[str, str]:
    return {a["pod"]: a["node"] for a in document["assignments"]}


def rules_of(document: dict[str, Any], name: str) -> set[str]:
    return {reason["rule"] for left in document["unplaced"] if left["pod"] == name for reason in left["reasons"]}


def test_nothing_at_all(tmp_path: Path) -> None:
    document = solve(tmp_path, [])
    assert (document["status"], document["assignments"], document["objective"]) == ("optimal", [], [])


def test_no_pending_pods(tmp_path: Path) -> None:
    assert solve(tmp_path, [node("n1"), pod("a", node_name="n1")])["snapshot"]["pending"] == 0


def test_no_nodes(tmp_path: Path) -> None:
    document = solve(tmp_path, [pod("a")], code=3)
    assert document["status"] == "infeasible"
    assert rules_of(document, "default/a") == {"NoNodes"}


def test_one_node(tmp_path: Path) -> None:
    assert nodes_of(solve(tmp_path, [node("n1"), pod("a"), pod("b")])) == {"default/a": "n1", "default/b": "n1"}


def test_a_pod_that_fits_nowhere(tmp_path: Path) -> None:
    document = solve(tmp_path, [node("n1"), node("n2"), pod("huge", cpu="64"), pod("small")], code=3)
    assert nodes_of(document).keys() == {"default/small"}
    assert document["unplaced"][0]["reasons"][0]["rule"] == "NodeResourcesFit"
    assert document["unplaced"][0]["reasons"][0]["nodes"] == 2
    assert document["objective"] == [{"tier": "placed", "value": 1, "bound": 1, "priority": 0}]


@pytest.mark.parametrize("key", [None, "kubernetes.io/hostname", "zone"])
def test_ten_thousand_replicas_on_a_thousand_nodes(tmp_path: Path, key: str | None) -> None:
    spread = None
    if key is not None:
        selector = {"matchLabels": {"app": "x"}}
        spread = [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]
    objects = [node(f"n{i}", cpu="16", labels={"zone": f"z{i % 3}"}) for i in range(1000)]
    objects += [pod(f"p{i}", cpu="1", labels={"app": "x"}, spread=spread) for i in range(10_000)]
    document = solve(tmp_path, objects)
    assert document["status"] == "optimal"
    assert len(document["assignments"]) == 10_000
    if key == "kubernetes.io/hostname":
        per_node = [list(nodes_of(document).values()).count(f"n{i}") for i in range(0, 1000, 100)]
        assert set(per_node) == {10}


def test_quantities_near_64_bits(tmp_path: Path) -> None:
    objects = [node("n1", memory="7Ei"), node("full", memory="7Ei"), *(pod(f"f{i}", memory="4Ei", node_name="full") for i in range(3))]
    objects += [pod("a", memory="5Ei"), pod("b", memory="3Ei"), pod("c", memory="2Ei"), pod("none", memory="0", cpu="0")]
    document = solve(tmp_path, objects, code=3)
    assert document["status"] == "optimal"
    assert len(document["assignments"]) == 3
    assert {n for name, n in nodes_of(document).items() if name != "default/none"} == {"n1"}


def test_names_and_labels_in_any_script(tmp_path: Path) -> None:
    terms = [{"labelSelector": {"matchLabels": {"приложение": "да"}}, "topologyKey": "kubernetes.io/hostname"}]
    repelled = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    objects = [
        node("nœud-é", labels={"ゾーン": "東"}),
        pod("под-🚀", namespace="שלום", labels={"приложение": "да"}, affinity=repelled, selector={"ゾーン": "東"}),
        pod("под-2", namespace="שלום", labels={"приложение": "да"}),
        pod("\u202eevil\u202c", labels={"a": "tab\there"}),
    ]
    document = solve(tmp_path, objects, code=3)
    assert len(document["assignments"]) == 2
    assert set(nodes_of(document).values()) == {"nœud-é"}
    assert run("solve", write(tmp_path, objects), "-f", "table").exit_code == 3


def test_pods_that_do_not_count(tmp_path: Path) -> None:
    gone = pod("gone", cpu="4")
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ended = pod("ended", cpu="4", node_name="n1")
    ended["status"]["phase"] = "Succeeded"
    objects = [
        node("n1"),
        pod("lost", cpu="4", node_name="elsewhere"),
        gone,
        ended,
        pod("gated", cpu="4", schedulingGates=[{"name": "g"}]),
        pod("a", cpu="4"),
    ]
    document = solve(tmp_path, objects)
    assert nodes_of(document) == {"default/a": "n1"}
    assert rules_of(document, "default/gated") == {"SchedulingGates"}
    both = solve(tmp_path, objects, "--include-gated", code=3)
    assert both["snapshot"]["pending"] == 2


def test_priority_classes(tmp_path: Path) -> None:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 7},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "base"}, "value": 3, "globalDefault": True},
    ]
    objects = [*classes, node("n1", cpu="1"), pod("plain", cpu="1"), pod("chosen", cpu="1", priorityClassName="gold")]
    document = solve(tmp_path, objects, code=3)
    assert nodes_of(document) == {"default/chosen": "n1"}
    assert [t["priority"] for t in document["objective"]] == [7, 3]


def test_from_scratch_moves_what_may_move(tmp_path: Path) -> None:
    objects = [
        node("n1"), node("n2", cpu="2"),
        pod("movable", cpu="2", node_name="n1", owner="ReplicaSet/a"), pod("daemon", cpu="1", node_name="n1", owner="DaemonSet/d"),
        pod("bare", cpu="1", node_name="n1"), pod("new", cpu="2"),
    ]  # fmt: skip
    document = solve(tmp_path, objects, "--from-scratch")
    assert document["snapshot"]["pending"] == 2
    assert set(nodes_of(document)) == {"default/movable", "default/new"}
    assert set(nodes_of(document).values()) == {"n1", "n2"}


def test_daemon_namespaces_are_exempt_from_anti_affinity(tmp_path: Path) -> None:
    term = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects = [node("n1"), pod("proxy", namespace="kube-system", node_name="n1"), pod("alone", affinity=alone)]
    assert solve(tmp_path, objects, code=3)["assignments"] == []
    assert nodes_of(solve(tmp_path, objects, "--daemon-namespaces", "kube-system")) == {"default/alone": "n1"}


def test_strict_refuses_what_is_not_modelled(tmp_path: Path) -> None:
    snapshot = write(tmp_path, [node("n1"), pod("a", resourceClaims=[{"name": "gpu"}])])
    target = tmp_path / "out.json"
    result = run("solve", snapshot, "--strict", "-o", str(target))
    assert result.exit_code == 4
    assert "spec.resourceClaims" in result.stderr
    assert not target.exists()
    assert json.loads(run("solve", snapshot).stdout)["unmodelled"] == [
        {"pod": "default/a", "field": "spec.resourceClaims", "effect": "ignored"}
    ]


def test_bindings_come_in_bind_order(tmp_path: Path) -> None:
    needs = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}]
        }
    }
    objects = [node("n1", labels={"zone": "a"}), pod("web", priority=10, affinity=needs), pod("db", labels={"app": "db"})]
    lines = [json.loads(line) for line in run("solve", write(tmp_path, objects), "-f", "kubectl").stdout.splitlines()]
    assert [line["metadata"]["name"] for line in lines] == ["db", "web"]
    assert {line["kind"] for line in lines} == {"Binding"}


def test_explain_judges_a_bound_pod_as_if_it_had_left(tmp_path: Path) -> None:
    snapshot = write(tmp_path, [node("n1"), node("n2", cpu="1"), pod("a", cpu="3", node_name="n1", owner="ReplicaSet/r")])
    answer = json.loads(run("explain", snapshot, "--pod", "default/a", "--per-node", "-f", "json").stdout)
    assert answer == {"pods": [{"pod": "default/a", "feasible": ["n1"], "rejected": {"n2": ["NodeResourcesFit"]}}]}


def test_a_mirror_pod_is_tied_to_its_node(tmp_path: Path) -> None:
    static = pod("static", node_name="n1")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    snapshot = write(tmp_path, [node("n1"), node("n2"), static])
    answer = json.loads(run("explain", snapshot, "--pod", "default/static", "--per-node", "-f", "json").stdout)
    assert answer["pods"][0]["rejected"] == {"n2": ["NodeName"]}
