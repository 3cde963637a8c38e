"""Content of tables, wide tables and comma-separated values, as a user gets them."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from tests.objects import Object, node, pod

ZONE = "topology.kubernetes.io/zone"
INSTANCES = Path(cli.__file__).resolve().parent / "instances"


def run(*arguments: str, code: int | None = 0, **environment: str) -> Result:
    result = CliRunner().invoke(cli.main, [*arguments], env={"COLUMNS": "", **environment})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert code in (None, result.exit_code), result.stderr
    return result


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def deployment(name: str, replicas: int, **spec: Any) -> Object:
    labels = {"app": name}
    containers = [{"name": "app", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def written(path: Path, objects: list[Object]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(path)


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    nodes = [node(f"n{i}", labels={ZONE: "ab"[i % 2]}) for i in range(4)]
    return written(tmp_path / "cluster.json", [*nodes, *(pod(f"old-{i}") for i in range(3))])


@pytest.fixture
def seven(tmp_path: Path) -> str:
    """Seven workloads that no node takes, for the same reason."""
    return written(tmp_path / "seven.json", [deployment(f"svc-{i}", 1, nodeSelector={"disk": "fast"}) for i in range(7)])


def test_the_workloads_of_manifests_come_first(cluster: str, tmp_path: Path) -> None:
    web = written(tmp_path / "web.json", [deployment("web", 4), deployment("db", 1, nodeSelector={"disk": "fast"})])
    text = run("solve", cluster, "-w", web, "-f", "table", code=3).stdout
    table = [line.split() for line in text.split("\nWorkloads of the manifests\n")[1].split("\n\n")[0].splitlines()]
    assert table[0] == ["workload", "placed", "of", "nodes", "zones"]
    assert table[1][:4] == ["Deployment", "shop/web", "4", "4"]
    nodes, zones = int(table[1][4]), " ".join(table[1][5:])
    assert 1 <= nodes <= 4
    assert sum(int(part.split()[1]) for part in zones.split(", ")) == 4
    assert table[2] == ["Deployment", "shop/db", "0", "1", "0"]
    own, others = text.index("Assignments of the manifests, in bind order"), text.index("Assignments of the snapshot, in bind order")
    assert text.index("Workloads of the manifests") < own < others
    assert own < text.index("  shop/web-") < others < text.rindex("default/old-2")
    assert "\nAssignments, in bind order\n" in run("solve", cluster, "-f", "table").stdout


def test_running_pods_of_a_workload_count_as_placed(cluster: str, tmp_path: Path) -> None:
    placed = json.loads(run("solve", cluster, "-w", written(tmp_path / "w.json", [deployment("web", 2)]), "-f", "json").stdout)
    name = next(a["pod"] for a in placed["assignments"] if a["pod"].startswith("shop/web-")).removeprefix("shop/")
    replica_set, (hash_, *_) = name.rpartition("-")[0], [name.split("-")[1]]
    one = pod(
        "web-x", namespace="shop", node_name="n0", labels={"app": "web", "pod-template-hash": hash_}, owner=f"ReplicaSet/{replica_set}"
    )
    both = written(tmp_path / "both.json", [*json.loads(Path(cluster).read_text())["items"], one])
    text = run("solve", both, "-w", str(tmp_path / "w.json"), "-f", "table", code=None).stdout
    table = [line.split() for line in text.split("\nWorkloads of the manifests\n")[1].split("\n\n")[0].splitlines()]
    assert table[0] == ["workload", "placed", "of", "running", "before", "nodes", "zones"]
    assert table[1][:6] == ["Deployment", "shop/web", "2", "2", "1", "2"]


def test_equal_causes_are_told_once(cluster: str, seven: str) -> None:
    for command in ("solve", "explain"):
        text = run(command, cluster, "-w", seven, "-f", "table", code=None).stdout
        assert text.count("cannot be placed") == 1
        assert "7 pods of 7 workloads (shop/svc-0-" in text
        assert "nodeSelector disk=fast leaves 0 of 4 nodes for the pod\n" in text
        assert "- drop disk=fast from the nodeSelector of its workload\n" in text
    assert len(json.loads(run("solve", cluster, "-w", seven, "-f", "json", code=3).stdout)["causes"]) == 7


def test_equal_causes_of_gangs_are_told_once(cluster: str, tmp_path: Path) -> None:
    two = written(tmp_path / "two.json", [deployment(f"g-{i}", 3, nodeSelector={"disk": "fast"}) for i in range(2)])
    text = run("solve", cluster, "-w", two, "-f", "table", code=3).stdout
    assert "6 pods of 2 gangs (shop/" in text
    assert text.count("cannot be placed") == 1


def test_different_causes_stay_apart(cluster: str, tmp_path: Path) -> None:
    two = [deployment("svc-0", 1, nodeSelector={"disk": "fast"}), deployment("svc-1", 1, nodeSelector={"disk": "slow"})]
    text = run("solve", cluster, "-w", written(tmp_path / "two.json", two), "-f", "table", code=3).stdout
    assert text.count("cannot be placed; ") == 2
    assert "of shop/svc-0" in text


def test_a_rollout_with_a_priority_class_counts_its_pods(tmp_path: Path) -> None:
    high = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n"
    text = (INSTANCES / "rollout-three-nodes.yaml").read_text(encoding="utf-8")
    assert "    spec:\n      containers:" in text
    text = text.replace("    spec:\n      containers:", "    spec:\n      priorityClassName: high\n      containers:") + high
    (tmp_path / "rollout.yaml").write_text(text)
    told = run("solve", str(tmp_path / "rollout.yaml"), "--rollout", "app", "-f", "table").stdout
    assert ["pods", "placed,", "priority", "1000", "2", "2", "2", "proved"] in [line.split() for line in told.splitlines()]


def test_everything_leaves_nothing_out(tmp_path: Path) -> None:
    many = written(tmp_path / "many.json", [*(node(f"n{i}") for i in range(50)), *(pod(f"p-{i:03}") for i in range(120))])
    cut = run("solve", many, "--engine", "greedy", "-f", "table").stdout
    assert "... and 80 more (--all lists all)" in cut
    assert "fullest nodes" in cut
    whole = run("solve", many, "--engine", "greedy", "-f", "table", "--all").stdout
    assert all(f"default/p-{i:03}" in whole for i in range(120))
    assert all(f"  n{i} " in whole for i in range(50))
    assert "... and" not in whole


def test_solve_as_csv_has_a_row_for_each_pod(cluster: str, seven: str) -> None:
    found = rows(run("solve", cluster, "-w", seven, "-f", "csv", code=3).stdout)
    assert sorted(row["status"] for row in found) == ["pending"] * 7 + ["placed"] * 3
    assert {row["workload"] for row in found if row["status"] == "pending"} == {f"Deployment shop/svc-{i}" for i in range(7)}
    placed = next(row for row in found if row["pod"] == "default/old-0")
    assert placed["zone"] == "ab"[int(placed["node"][1:]) % 2]
    left = next(row for row in found if row["status"] == "pending")
    assert left["reasons"].startswith("NodeAffinity on 4 nodes: ")
    assert left["cause"].startswith("nodeSelector disk=fast leaves 0 of 4 nodes")
    assert re.match(r"label n\d with disk=fast; drop disk=fast", left["remedies"])  # a node with room next to the placed pods


def test_csv_of_a_rollout_has_what_goes_as_well() -> None:
    found = rows(run("solve", str(INSTANCES / "rollout-three-nodes.yaml"), "--rollout", "app", "-f", "csv").stdout)
    assert sorted(row["status"] for row in found) == ["deleted", "deleted", "placed", "placed"]
    assert all(row["wave"] for row in found)


def test_explain_as_csv(cluster: str, seven: str) -> None:
    found = rows(run("explain", cluster, "-w", seven, "-f", "csv").stdout)
    assert len(found) == 10
    bad = [row for row in found if row["rule"]]
    assert [(row["rule"], row["rejected"], row["feasible"], row["nodes"]) for row in bad] == [("NodeAffinity", "4", "0", "4")] * 7
    each = rows(run("explain", cluster, "-w", seven, "-f", "csv", "--per-node").stdout)
    assert len(each) == 10 * 4
    assert {(row["feasible"], row["rejected_by"]) for row in each} == {("yes", ""), ("no", "NodeAffinity")}
    pairs = rows(run("explain", str(INSTANCES / "peter-sheep-wolf.yaml"), "--affinity", "farm/meadow", "-f", "csv").stdout)
    assert pairs
    assert set(pairs[0]) == {"from", "to", "weight"}


def test_rebalance_as_csv_has_every_step() -> None:
    arguments = "rebalance", str(INSTANCES / "rebalance-drain.yaml"), "--drain", "n1", "--deterministic"
    plan = json.loads(run(*arguments, "-f", "json", code=None).stdout)
    found = rows(run(*arguments, "-f", "csv", code=None).stdout)
    steps = [row for row in found if row["step"]]
    assert [(row["pod"], row["from"], row["to"]) for row in steps] == [(m["pod"], m.get("from", ""), m["to"]) for m in plan["moves"]]
    assert {row["action"] for row in steps} == {"move"}


def test_audit_as_csv_has_every_finding() -> None:
    arguments = "audit", str(INSTANCES / "rebalance-repair.yaml"), "--fail-on", "never"
    findings = json.loads(run(*arguments, "-f", "json").stdout)["findings"]
    found = rows(run(*arguments, "-f", "csv").stdout)
    assert [(row["code"], row["object"], row["message"]) for row in found] == [(f["code"], f["object"], f["message"]) for f in findings]


def test_names_that_break_lines_break_no_row(tmp_path: Path) -> None:
    text = (INSTANCES / "quickstart.yaml").read_text(encoding="utf-8")
    (tmp_path / "odd.yaml").write_text(text)
    raw = run("solve", str(tmp_path / "odd.yaml"), "-f", "csv", code=None).stdout
    assert len(raw.splitlines()) == 1 + len(rows(raw))


@pytest.mark.parametrize("columns", ["", "80", "100", "140"])
def test_pipes_get_names_of_63_characters_whole(tmp_path: Path, columns: str) -> None:
    nodes, pods = ([f"{kind}-{'x' * 30}-{i}-{'y' * 63}"[:63] for i in range(4)] for kind in ("node", "pod"))
    file = written(tmp_path / "long.json", [*(node(name) for name in nodes), *(pod(name) for name in pods)])
    for form in ("table", "wide"):
        text = run("solve", file, "-f", form, COLUMNS=columns).stdout
        assert all(any(f"default/{p}  " in line and n in line for line in text.splitlines() for n in nodes) for p in pods)
        assert all(any(f"{n}  " in line and "%" in line for line in text.splitlines()) for n in nodes)
        matrix = run("explain", file, "--per-node", "-f", form, COLUMNS=columns).stdout
        assert all(any(line.split()[:2] == [n, "yes"] for line in matrix.splitlines()) for n in nodes)


def test_a_bound_pod_is_judged_on_its_node_too(tmp_path: Path) -> None:
    """The messages of a rule are about all the nodes that it rejects."""
    objects = [node("n1", labels={"disk": "slow"}), node("n2"), pod("fine", node_name="n2"), pod("lost", node_name="gone")]
    objects.append(pod("moved", node_name="n1", selector={"disk": "fast"}))
    file = written(tmp_path / "bound.json", objects)
    fine = run("explain", file, "--pod", "default/fine", "-f", "table").stdout
    assert fine.startswith("default/fine: runs on n2, and could go there now\ndefault/fine: 2 of 2 nodes feasible\n")
    moved = run("explain", file, "--pod", "default/moved", "-f", "table").stdout
    assert moved.startswith("default/moved: runs on n1, where it could not go now: NodeAffinity (")
    assert run("explain", file, "--pod", "default/lost", "-f", "table").stdout.startswith("default/lost: runs on gone\n")
    (entry,) = json.loads(run("explain", file, "--pod", "default/moved").stdout)["pods"]
    assert (entry["node"], entry["rejectedThere"]) == ("n1", ["NodeAffinity"])
    (entry,) = json.loads(run("explain", file, "--pod", "default/fine", "--per-node").stdout)["pods"]
    assert (entry["node"], entry["feasible"]) == ("n2", ["n1", "n2"])
    (row,) = rows(run("explain", file, "--pod", "default/moved", "-f", "csv").stdout)
    assert (row["runs_on"], row["rule"]) == ("n1", "NodeAffinity")
