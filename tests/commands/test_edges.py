"""Unusual clusters through the command line: empty, huge, foreign names, and pods in every state."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from tests.objects import Object, node, pod

DELETED = "2026-01-02T03:04:05Z"


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(arg) for arg in args], catch_exceptions=False)


def process(*args: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, cli.__file__, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)


def write(directory: Path, items: Iterable[Object], name: str = "snapshot.json") -> Path:
    path = directory / name
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}, ensure_ascii=False), encoding="utf-8")
    return path


def solved(snapshot: Path, *options: str, code: int = 0) -> Any:
    """The placement, which the independent checker has to accept on reading it back."""
    result = run("solve", snapshot, "-f", "json", "--seed", "1", *options)
    assert result.exit_code == code, result.stderr
    out = snapshot.with_name("placement.json")
    out.write_text(result.stdout, encoding="utf-8")
    verified = run("verify", snapshot, "--result", out, "-f", "json")
    assert (verified.exit_code, json.loads(verified.stdout)["violations"]) == (0, [])
    return json.loads(result.stdout)


def explained(snapshot: Path, *options: str) -> dict[str, Any]:
    result = run("explain", snapshot, "--per-node", "-f", "json", *options)
    assert result.exit_code == 0, result.stderr
    return {found["pod"]: (found["feasible"], found["rejected"]) for found in json.loads(result.stdout)["pods"]}


def where(placement: Any) -> dict[str, str]:
    return {a["pod"]: a["node"] for a in placement["assignments"]}


def reasons(placement: Any, name: str) -> dict[str, int]:
    (left,) = [u for u in placement["unplaced"] if u["pod"] == name]
    return {reason["rule"]: reason["nodes"] for reason in left["reasons"]}


def away_from(label: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


# --- empty and small --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
@pytest.mark.parametrize("command", ["solve", "explain"])
def test_every_form_of_an_empty_answer(command: str, form: str, tmp_path: Path) -> None:
    result = run(command, write(tmp_path, [node("n")]), "-f", form)
    assert result.exit_code == 0
    assert result.stdout.strip()


def test_no_pending_pods(tmp_path: Path) -> None:
    snapshot = write(tmp_path, [node("n"), pod("a", node_name="n"), pod("b", node_name="n")])
    placement = solved(snapshot)
    assert (placement["status"], placement["assignments"], placement["unplaced"]) == ("optimal", [], [])
    assert (placement["snapshot"]["pods"], placement["snapshot"]["pending"]) == (2, 0)
    assert explained(snapshot) == {}
    assert run("solve", snapshot, "-f", "kubectl").stdout == ""


@pytest.mark.parametrize("engine", ["auto", "exact", "greedy"])
def test_one_node_filled_exactly(engine: str, tmp_path: Path) -> None:
    snapshot = write(tmp_path, [node("n", cpu="1"), *(pod(f"p{i}", cpu="250m") for i in range(5))])
    placement = solved(snapshot, "--engine", engine, code=3)
    assert Counter(where(placement).values()) == {"n": 4}
    (left,) = placement["unplaced"]
    assert reasons(placement, left["pod"]) == {"NodeResourcesFit": 1}
    assert placement["objective"][0] == {"tier": "placed", "priority": 0, "value": 4, "bound": 4}


@pytest.mark.parametrize(
    ("nodes", "wanted", "rule"),
    [
        ([node("n1"), node("n2")], pod("x", cpu="64"), "NodeResourcesFit"),
        ([node("n1"), node("n2")], pod("x", selector={"disk": "ssd"}), "NodeAffinity"),
        ([node(n, taints=[{"key": "k", "effect": "NoSchedule"}]) for n in ("n1", "n2")], pod("x"), "TaintToleration"),
        ([node(n, unschedulable=True) for n in ("n1", "n2")], pod("x"), "NodeUnschedulable"),
        ([node("n1"), node("n2")], pod("x", affinity=away_from("web")), "InterPodAffinity"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_pod_that_fits_nowhere(nodes: list[Object], wanted: Object, rule: str, tmp_path: Path) -> None:
    web = [pod(f"web-{n}", labels={"app": "web"}, node_name=n) for n in ("n1", "n2")]
    snapshot = write(tmp_path, [*nodes, *web, wanted, pod("fits", tolerations=[{"operator": "Exists"}])])
    placement = solved(snapshot, code=3)
    assert set(where(placement)) == {"default/fits"}
    assert reasons(placement, "default/x") == {rule: 2}
    assert explained(snapshot)["default/x"] == ([], {"n1": [rule], "n2": [rule]})


@pytest.mark.full
def test_a_pod_that_fits_nowhere_from_a_shell(tmp_path: Path) -> None:
    done = process("solve", write(tmp_path, [node("n"), pod("x", cpu="64"), pod("y")]))
    assert done.returncode == 3
    placement = json.loads(done.stdout)
    assert where(placement) == {"default/y": "n"}
    assert reasons(placement, "default/x") == {"NodeResourcesFit": 1}


# --- large ------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_ten_thousand_replicas_on_a_thousand_nodes(tmp_path: Path) -> None:
    """Each node takes exactly ten, and the zones have to be even."""
    nodes = [node(f"n{i}", cpu="1", labels={"zone": f"z{i % 10}"}) for i in range(1000)]
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "w"}}}
    pods = [pod(f"p{i}", cpu="100m", memory="1Mi", labels={"app": "w"}, spread=[spread]) for i in range(10_000)]
    placement = solved(write(tmp_path, [*nodes, *pods]))
    tier = placement["objective"][0]
    assert (tier["value"], tier["bound"], placement["unplaced"]) == (10_000, 10_000, [])
    assert set(where(placement)) == {f"default/p{i}" for i in range(10_000)}
    assert Counter(where(placement).values()) == {f"n{i}": 10 for i in range(1000)}
    assert sorted(a["order"] for a in placement["assignments"]) == list(range(1, 10_001))


# --- names ------------------------------------------------------------------------------------------------------------

FOREIGN = {
    "accents": "Ünïcødé-ß",
    "right to left": "שלום-عربى",
    "right-to-left override": "a\u202eb\u2066c",
    "astral": "🐳-𝒌𝟴𝒔",
    "combining": unicodedata.normalize("NFD", "é"),
    "zero width": "a\u200bb\ufeffc",
    "controls": "a\x01b\x1b[31mc\x7f\x85",
    "line breaks": "a\nb\r\nc\u2028d",
    "tab and spaces": " a\tb ",
    "markup": "[bold]a[red] {x} %s &<>\"'\\",
}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_labels_in_any_script(text: str, tmp_path: Path) -> None:
    nodes = [node("n1", labels={text: text}), node("n2", labels={text: "other"})]
    wanted = pod("p", namespace="a", labels={text: text}, selector={text: text})
    snapshot = write(tmp_path, [*nodes, wanted])
    assert where(solved(snapshot)) == {"a/p": "n1"}
    assert explained(snapshot) == {"a/p": (["n1"], {"n2": ["NodeAffinity"]})}
    assert explained(snapshot, "--pod", "a/p", "--node", "n2") == {"a/p": ([], {"n2": ["NodeAffinity"]})}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_names_that_no_api_server_takes_are_refused(text: str, tmp_path: Path) -> None:
    for field, objects in {
        "Node": [node(text)], "Namespace": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": text}}], "Pod": [pod(text)],
        "namespace": [pod("p", namespace=text)], "nodeName": [pod("p", node_name=text)], "uid": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "uid": text}}],
    }.items():  # fmt: skip
        result = run("audit", write(tmp_path, objects))
        assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (1, "", 1), field
        assert ": got " in result.stderr
        assert ", expected a " in result.stderr
        assert field in result.stderr


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_foreign_names_reach_no_terminal_raw(text: str, tmp_path: Path) -> None:
    """Tables and lines for people hold nothing that a terminal obeys or that breaks a line."""
    snapshot = write(tmp_path, [node("n", labels={text: text}), pod("p", selector={text: text}), pod("q", selector={text: "other"})])
    for command in (["solve", "-v"], ["explain", "-v", "--per-node"]):
        result = run(*command, snapshot, "-f", "table")
        assert result.exit_code in (0, 3)
        shown = result.stdout + result.stderr
        assert [c for c in shown if c != "\n" and unicodedata.category(c) in ("Cc", "Zl", "Zp")] == []
        assert set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068").isdisjoint(shown)


def test_yaml_results_hold_foreign_text_unchanged(tmp_path: Path) -> None:
    labels = {text: text for text in FOREIGN.values()}
    items = [node("n", labels=labels), *(pod(f"p{i}", selector={text: text}) for i, text in enumerate(labels))]
    snapshot = write(tmp_path, items)
    out = tmp_path / "out.yaml"
    assert run("solve", snapshot, "-f", "yaml", "-o", out).exit_code == 0
    checked = run("verify", snapshot, "--result", out, "-f", "json")
    assert (checked.exit_code, json.loads(checked.stdout)["valid"]) == (0, True)
    assert checked.stderr.splitlines()[-1] == f"valid: {len(FOREIGN)} assignments"


def test_composed_and_decomposed_names_are_two(tmp_path: Path) -> None:
    """The API compares bytes."""
    composed, decomposed = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    snapshot = write(
        tmp_path, [node("n", labels={"k": composed}), pod("a", selector={"k": composed}), pod("b", selector={"k": decomposed})]
    )
    assert where(solved(snapshot, code=3)) == {"default/a": "n"}


# --- pods in every state ----------------------------------------------------------------------------------------------


def test_a_pod_on_a_missing_node(tmp_path: Path) -> None:
    """It weighs on no node and keeps nobody away; it is said, and it stays where it is."""
    lost = pod("lost", cpu="4", labels={"app": "web"}, node_name="gone", owner="ReplicaSet/r")
    snapshot = write(tmp_path, [node("n"), lost, pod("a", cpu="4", affinity=away_from("web"))])
    result = run("solve", snapshot)
    assert result.exit_code == 0
    assert "warning: 1 pod runs on nodes that the snapshot lacks: gone" in result.stderr.splitlines()
    assert where(solved(snapshot, "--from-scratch")) == {"default/a": "n"}
    assert set(explained(snapshot)) == {"default/a"}


def test_terminating_and_terminal_pods(tmp_path: Path) -> None:
    """A terminating pod is not placed, but holds its node while it is bound; an ended one holds nothing."""
    leaving = [pod("leaving", cpu="3", node_name="n"), pod("never", cpu="1")]
    for found in leaving:
        found["metadata"]["deletionTimestamp"] = DELETED
    ended = [pod(phase.lower(), cpu="4", node_name="n") for phase in ("Succeeded", "Failed")]
    for found in ended:
        found["status"]["phase"] = found["metadata"]["name"].title()
    snapshot = write(tmp_path, [node("n"), *leaving, *ended, pod("one", cpu="1"), pod("two", cpu="1")])
    placement = solved(snapshot, code=3)
    assert placement["snapshot"]["pending"] == 2
    assert len(placement["assignments"]) == 1
    assert set(where(placement)) | {u["pod"] for u in placement["unplaced"]} == {"default/one", "default/two"}
    for name in ("never", "failed"):
        refused = run("explain", snapshot, "--pod", f"default/{name}")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert [line for line in refused.stderr.splitlines() if f"--pod: default/{name}: " in line] != []


def test_gated_pods_wait_unless_included(tmp_path: Path) -> None:
    gated = pod("gated", cpu="3", schedulingGates=[{"name": "example.com/wait"}])
    snapshot = write(tmp_path, [node("n"), gated, pod("free", cpu="1")])
    placement = solved(snapshot)
    assert where(placement) == {"default/free": "n"}
    assert reasons(placement, "default/gated") == {"SchedulingGates": 1}
    assert "example.com/wait" in placement["unplaced"][0]["reasons"][0]["message"]
    assert placement["snapshot"]["pending"] == 1
    assert set(explained(snapshot)) == {"default/free"}

    included = solved(snapshot, "--include-gated")
    assert (set(where(included)), included["unplaced"]) == ({"default/gated", "default/free"}, [])
    assert (included["snapshot"]["pending"], included["snapshot"]["includeGated"]) == (2, True)
    assert set(explained(snapshot, "--include-gated")) == {"default/gated", "default/free"}
    assert explained(snapshot, "--pod", "default/gated") == {"default/gated": (["n"], {})}


def priority_class(name: str, value: int, **fields: Any) -> Object:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value, **fields}


@pytest.mark.parametrize("engine", ["exact", "greedy"])
def test_priority_classes(engine: str, tmp_path: Path) -> None:
    """By name, by the global default, built in, or by the number, which wins over the name as in an API dump."""
    classes = [priority_class("high", 1000), priority_class("usual", 5, globalDefault=True)]
    pods = [
        pod("named", cpu="1", priorityClassName="high"),
        pod("default", cpu="1"),
        pod("system", cpu="1", namespace="kube-system", priorityClassName="system-node-critical"),
        pod("numbered", cpu="1", priority=-7, priorityClassName="high"),
    ]
    placement = solved(write(tmp_path, [*pods, node("n", cpu="3"), *classes]), "--engine", engine, code=3)
    assert [u["pod"] for u in placement["unplaced"]] == ["default/numbered"]
    assert [(tier["priority"], tier["value"]) for tier in placement["objective"] if tier["tier"] == "placed"] == [
        (2_000_001_000, 1),
        (1000, 1),
        (5, 1),
        (-7, 0),
    ]


# --- options ----------------------------------------------------------------------------------------------------------


def test_from_scratch_moves_what_a_controller_replaces(tmp_path: Path) -> None:
    """Two small pods, one on each node, keep a large one out; only pods that may move make room."""
    immovable: dict[str, Object] = {
        "bare": pod("s2", cpu="2", node_name="n2"),
        "daemon": pod("s2", cpu="2", node_name="n2", owner="DaemonSet/d"),
        "safe-to-evict false": pod("s2", cpu="2", node_name="n2", owner="ReplicaSet/r"),
        "mirror": pod("s2", cpu="2", node_name="n2", owner="ReplicaSet/r"),
        "terminating": pod("s2", cpu="2", node_name="n2", owner="ReplicaSet/r"),
    }
    immovable["safe-to-evict false"]["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    immovable["mirror"]["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    immovable["terminating"]["metadata"]["deletionTimestamp"] = DELETED
    first, large = pod("s1", cpu="2", node_name="n1", owner="StatefulSet/s"), pod("large", cpu="4")
    for kind, second in immovable.items():
        snapshot = write(tmp_path, [node("n1"), node("n2"), first, second, large])
        assert reasons(solved(snapshot, code=3), "default/large") == {"NodeResourcesFit": 2}
        placement = solved(snapshot, "--from-scratch")
        assert (kind, where(placement)) == (kind, {"default/s1": "n2", "default/large": "n1"})
        assert (placement["snapshot"]["fromScratch"], placement["snapshot"]["pending"]) == (True, 2)
    movable = write(tmp_path, [node("n1"), node("n2"), first, pod("s2", cpu="2", node_name="n2", owner="Job/j"), large])
    found = where(solved(movable, "--from-scratch"))
    assert set(found) == {"default/s1", "default/s2", "default/large"}
    assert found["default/s1"] == found["default/s2"] != found["default/large"]


def test_daemon_namespaces_are_exempt_from_anti_affinity_both_ways(tmp_path: Path) -> None:
    exclusive = pod("exclusive", labels={"app": "x"}, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}]}})  # fmt: skip
    agent = pod("agent", namespace="kube-system", labels={"app": "agent"}, node_name="n")
    snapshot = write(tmp_path, [node("n"), agent, exclusive])
    assert reasons(solved(snapshot, code=3), "default/exclusive") == {"InterPodAffinity": 1}
    placement = solved(snapshot, "--daemon-namespaces", "kube-system")
    assert where(placement) == {"default/exclusive": "n"}
    assert placement["snapshot"]["daemonNamespaces"] == ["kube-system"]
    assert explained(snapshot) == {"default/exclusive": ([], {"n": ["InterPodAffinity"]})}
    assert explained(snapshot, "--daemon-namespaces", "a, kube-system") == {"default/exclusive": (["n"], {})}

    exclusive["spec"]["nodeName"] = "n"
    del agent["spec"]["nodeName"]
    snapshot = write(tmp_path, [node("n"), agent, exclusive])
    assert reasons(solved(snapshot, code=3), "kube-system/agent") == {"InterPodAffinity": 1}
    assert where(solved(snapshot, "--daemon-namespaces", "kube-system")) == {"kube-system/agent": "n"}


def test_strict_refuses_what_is_not_modelled(tmp_path: Path) -> None:
    other = pod("other", schedulerName="volcano")
    snapshot, out = write(tmp_path, [node("n"), other]), tmp_path / "out.json"
    placement = solved(snapshot)
    assert [(u["pod"], u["field"]) for u in placement["unmodelled"]] == [("default/other", "spec.schedulerName")]
    result = run("solve", snapshot, "--strict", "-o", out)
    assert (result.exit_code, result.stdout, out.exists()) == (4, "", False)
    assert [line for line in result.stderr.splitlines() if "not modelled: default/other: spec.schedulerName: " in line] != []
    assert run("solve", write(tmp_path, [node("n"), pod("plain")]), "--strict").exit_code == 0


@pytest.mark.full
def test_kubectl_bindings_come_in_bind_order(tmp_path: Path) -> None:
    """The follower needs the leader's domain, and is named and given first: only the order makes it bind."""
    term = {"labelSelector": {"matchLabels": {"app": "leader"}}, "topologyKey": "kubernetes.io/hostname"}
    follow = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    followers = [pod(f"a{i}", affinity=follow) for i in range(3)]
    snapshot = write(tmp_path, [*followers, pod("old", node_name="n1"), node("n1"), node("n2"), pod("z", labels={"app": "leader"})])
    placement = solved(snapshot)
    done = process("solve", snapshot, "-f", "kubectl", "--seed", "1")
    assert done.returncode == 0
    bindings = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(b["apiVersion"], b["kind"], b["target"]["kind"], b["metadata"]["namespace"]) for b in bindings] == [
        ("v1", "Binding", "Node", "default")
    ] * 4
    ordered = sorted(placement["assignments"], key=lambda a: int(a["order"]))
    assert [(f"default/{b['metadata']['name']}", b["target"]["name"]) for b in bindings] == [(a["pod"], a["node"]) for a in ordered]
    assert bindings[0]["metadata"]["name"] == "z"
    assert len({b["target"]["name"] for b in bindings}) == 1


@pytest.mark.full
@pytest.mark.parametrize(("name", "form"), [("out.json", "json"), ("out.yaml", "yaml")])
def test_a_result_file_is_verified_and_a_changed_one_refused(name: str, form: str, tmp_path: Path) -> None:
    snapshot = write(tmp_path, [node("n1"), node("n2", cpu="1"), pod("large", cpu="2"), pod("small")])
    out = tmp_path / name
    first = run("solve", snapshot, "-f", form, "-o", out)
    assert (first.exit_code, first.stdout) == (0, "")
    second = run("verify", snapshot, "--result", out, "-f", "json")
    assert (second.exit_code, json.loads(second.stdout)["violations"]) == (0, [])

    placement = json.loads(run("solve", snapshot, "-f", "json").stdout)
    for assignment in placement["assignments"]:
        assignment["node"] = "n2"
    out.write_text(json.dumps(placement), encoding="utf-8")
    refused = run("verify", snapshot, "--result", out, "-f", "json")
    assert refused.exit_code == 4
    found = json.loads(refused.stdout)
    assert found["valid"] is False
    assert ("default/large", "n2", "NodeResourcesFit") in {(v["pod"], v["node"], v["rule"]) for v in found["violations"]}


def test_a_result_of_another_snapshot_is_no_valid_one(tmp_path: Path) -> None:
    snapshot = write(tmp_path, [node("n"), pod("a")])
    out = tmp_path / "out.json"
    assert run("solve", snapshot, "-f", "json", "-o", out).exit_code == 0
    other = write(tmp_path, [node("n"), pod("b")], "other.json")
    assert run("verify", other, "--result", out).exit_code == 4


def test_explaining_a_bound_pod_takes_it_off_its_node_first(tmp_path: Path) -> None:
    """Its own requests, port and labels do not reject it; those of other pods do."""
    port = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {"requests": {"cpu": "3"}}}]
    web = [pod(f"web-{i}", labels={"app": "web"}, affinity=away_from("web"), node_name=f"n{i}", containers=port) for i in (1, 2)]
    snapshot = write(tmp_path, [node("n1"), node("n2"), node("n3", cpu="2"), *web, pod("pending")])
    assert explained(snapshot, "--pod", "default/web-1") == {
        "default/web-1": (["n1"], {"n2": ["InterPodAffinity", "NodePorts", "NodeResourcesFit"], "n3": ["NodeResourcesFit"]})
    }
    assert set(explained(snapshot)) == {"default/pending"}
    counted = json.loads(run("explain", snapshot, "--pod", "default/web-1", "-f", "json").stdout)
    rejected = {"InterPodAffinity": 1, "NodePorts": 1, "NodeResourcesFit": 2}
    assert counted == {"pods": [{"pod": "default/web-1", "feasible": 1, "rejected": rejected, "node": "n1"}], "kubernetesVersion": "1.36"}


def test_explaining_a_pod_bound_to_a_missing_node(tmp_path: Path) -> None:
    snapshot = write(tmp_path, [node("n"), pod("lost", node_name="gone")])
    assert explained(snapshot, "--pod", "default/lost") == {"default/lost": (["n"], {})}


@pytest.mark.parametrize(("option", "value"), [("--pod", "default/nobody"), ("--node", "nowhere")])
def test_explaining_what_is_not_there(option: str, value: str, tmp_path: Path) -> None:
    result = run("explain", write(tmp_path, [node("n"), pod("a")]), option, value)
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert f"{option}: {value}: no such" in result.stderr
