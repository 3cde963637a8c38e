"""``kubestow size`` as a user calls it: what to buy, the forms of the answer, exit codes, and catalogues that are none."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.models.catalogue import money
from tests.commands.test_tables import written
from tests.objects import Object, node, pod

ZONE, TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
CATALOGUE = str(Path(__file__).parents[2] / "instances" / "catalogue.yaml")
EMPTY: list[Object] = []


def shape(name: str, cpu: int, price: object, **more: object) -> Object:
    amounts = {"cpu": cpu, "memory": f"{4 * cpu}Gi", "pods": 20}
    return {"name": name, "allocatable": amounts, "zones": ["a", "b"], "price": price, **more}


@pytest.fixture
def catalogue(tmp_path: Path) -> str:
    """Two shapes, of which the larger is the cheaper by CPU."""
    return catalogue_file(tmp_path, shape("small", 2, 0.1), shape("large", 8, "0.38"))


def catalogue_file(folder: Path, *shapes: Object) -> str:
    path = folder / "catalogue.json"
    path.write_text(json.dumps({"apiVersion": "kubestow.dev/v1alpha1", "kind": "Catalogue", "shapes": shapes}))
    return str(path)


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.main, ["size", *arguments, "--deterministic"], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.stderr
    return result


def sized(*arguments: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "-q", "-f", "json", code=code).stdout)
    return found


def bought(sizing: dict[str, Any]) -> dict[str, int]:
    """Nodes by shape."""
    found: dict[str, int] = {}
    for each in sizing["buy"]:
        found[each["shape"]] = found.get(each["shape"], 0) + each["count"]
    return found


# --- purchases ----------------------------------------------------------------------------------------------------------------


def test_what_waits_is_bought_for_at_the_least_cost(tmp_path: Path, catalogue: str) -> None:
    snapshot = written(tmp_path / "cluster.json", [node("n1", cpu="1"), *(pod(f"p{i}", cpu="1") for i in range(11))])
    found = sized(snapshot, "--catalogue", catalogue)
    assert (found["mode"], found["status"]) == ("add", "optimal")
    assert bought(found) == {"large": 1, "small": 1}  # one pod stays on an existing node
    assert found["cost"] == {"value": 0.48, "bound": 0.48, "unit": "per hour"}
    assert found["nodes"]["value"] == 2
    assert len(found["placement"]["assignments"]) == 11


def test_manifests_need_no_cluster(tmp_path: Path, catalogue: str) -> None:
    manifest = written(tmp_path / "app.json", [_deployment("web", 3, "3")])
    found = sized(written(tmp_path / "empty.json", EMPTY), "-w", manifest, "--catalogue", catalogue)
    assert bought(found) == {"large": 2}
    assert found["snapshot"]["workloads"] == ["Deployment default/web"]


def test_a_pool_is_replaced_and_the_rest_stays(tmp_path: Path, catalogue: str) -> None:
    old = [node(f"old-{i}", cpu="8", labels={"pool": "old", ZONE: "a", TYPE: "large"}) for i in range(3)]
    stays = node("keep", cpu="2", labels={"pool": "new", ZONE: "b"})
    pods = [pod(f"p{i}", cpu="2", node_name=f"old-{i}", owner="ReplicaSet/r") for i in range(3)]
    found = sized(written(tmp_path / "c.json", [*old, stays, *pods]), "--pool", "pool=old", "--catalogue", catalogue)
    assert found["removed"] == ["old-0", "old-1", "old-2"]
    assert bought(found) == {"small": 2}
    assert found["replaced"] == {"nodes": 3, "priced": 3, "cost": 1.14}
    assert {a["node"] for a in found["placement"]["assignments"]} >= {"keep"}


def test_from_scratch_everything_that_can_move_is_bought_for(tmp_path: Path, catalogue: str) -> None:
    nodes = [node(f"n{i}", cpu="8", labels={ZONE: "a"}) for i in range(4)]
    pods = [pod(f"p{i}", cpu="2", node_name=f"n{i}", owner="ReplicaSet/r") for i in range(4)]
    found = sized(written(tmp_path / "c.json", [*nodes, *pods]), "--from-scratch", "--catalogue", catalogue)
    assert found["mode"] == "from-scratch"
    assert bought(found) == {"large": 1}
    assert found["replaced"] == {"nodes": 4, "priced": 0, "cost": 0}


def test_daemon_sets_come_with_nodes_though_their_objects_tell_no_template(tmp_path: Path, catalogue: str) -> None:
    agent = pod("agent-1", cpu="1", node_name="n1", owner="DaemonSet/agent")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}}
    found = sized(written(tmp_path / "c.json", [node("n1", cpu="2"), agent, owner, pod("p", cpu="2")]), "--catalogue", catalogue)
    assert bought(found) == {"large": 1}  # next to the agent, a small node has one CPU free
    assert [(w["workload"], w["pods"]) for w in found["workloads"] if w.get("daemon")] == [("DaemonSet default/agent", 1)]


def test_pods_that_nobody_makes_anew_or_buys_for_are_named(tmp_path: Path, catalogue: str) -> None:
    gated = pod("gated", cpu="1", schedulingGates=[{"name": "example.com/wait"}])
    pods = [pod("bare", cpu="1", node_name="n1"), pod("kept", cpu="1", node_name="n1", owner="ReplicaSet/r"), gated]
    snapshot = written(tmp_path / "c.json", [node("n1"), *pods])
    found = sized(snapshot, "--from-scratch", "--catalogue", catalogue)
    assert found["notes"] == [
        "nodes are bought for these pods, but no known controller recreates them when their nodes go: default/bare",
        "nothing is bought for pods with scheduling gates (use --include-gated): default/gated",
    ]
    assert {a["pod"] for a in found["placement"]["assignments"]} == {"default/bare", "default/kept"}
    assert len(sized(snapshot, "--from-scratch", "--catalogue", catalogue, "--include-gated")["placement"]["assignments"]) == 3


def test_fewer_kinds_may_cost_more(tmp_path: Path, catalogue: str) -> None:
    snapshot = written(tmp_path / "c.json", [pod(f"p{i}", cpu="1") for i in range(10)])
    assert bought(sized(snapshot, "--catalogue", catalogue)) == {"large": 1, "small": 1}
    found = sized(snapshot, "--catalogue", catalogue, "--kinds", "1")
    assert found["kinds"] == 1
    assert len(bought(found)) == 1
    assert found["cost"]["value"] == 0.5


def test_costs_of_workloads_add_up_to_what_is_paid(tmp_path: Path) -> None:
    manifest = written(tmp_path / "app.json", [_deployment("a", 5, "700m"), _deployment("b", 3, "1300m"), _deployment("c", 2, "100m")])
    found = sized(written(tmp_path / "empty.json", EMPTY), "-w", manifest, "--catalogue", CATALOGUE)
    paid = sum(money.parse(each["price"]) * each["count"] for each in found["buy"])
    assert sum(money.parse(each["cost"]) for each in found["workloads"]) == paid == money.parse(found["cost"]["value"])


def _deployment(name: str, replicas: int, cpu: str) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


# --- forms and exit codes -----------------------------------------------------------------------------------------------------


def test_the_table_begins_with_the_answer(tmp_path: Path, catalogue: str) -> None:
    snapshot = written(tmp_path / "c.json", [pod(f"p{i}", cpu="1") for i in range(10)])
    result = run(snapshot, "--catalogue", catalogue, "-f", "table")
    assert result.stdout.splitlines()[0] == "buy 2 nodes of 2 shapes for 0.48 per hour, proved the least"
    assert "350.40" in result.stdout  # a month of 730 hours
    assert result.stderr.startswith("buy 2 nodes of 2 shapes for 0.48 per hour, proved the least; optimal; ")


def test_rows_have_purchase_utilisation_and_workloads(tmp_path: Path, catalogue: str) -> None:
    snapshot = written(tmp_path / "c.json", [pod(f"p{i}", cpu="1") for i in range(2)])
    rows = list(csv.DictReader(run(snapshot, "--catalogue", catalogue, "-f", "csv").stdout.splitlines()))
    buys = [row for row in rows if row["row"] == "buy"]
    assert [(row["shape"], row["nodes"], row["price"], row["cost"]) for row in buys] == [("small", "1", "0.1", "0.1")]
    cpu = next(row for row in rows if row["row"] == "utilisation" and row["shape"] == "small" and row["resource"] == "cpu")
    assert (cpu["requested"], cpu["daemons"], cpu["allocatable"]) == ("2000", "0", "2000")
    assert {row["workload"]: row["cost"] for row in rows if row["row"] == "workload"} == {
        "Pod default/p0": "0.05",
        "Pod default/p1": "0.05",
    }


def test_the_nodes_bought_are_a_what_if(tmp_path: Path, catalogue: str) -> None:
    snapshot = written(tmp_path / "c.json", [node("n1", cpu="1"), *(pod(f"p{i}", cpu="1") for i in range(4))])
    target = tmp_path / "nodes.yaml"
    run(snapshot, "--catalogue", catalogue, "-f", f"nodes={target}")
    assert CliRunner().invoke(cli.main, ["solve", snapshot, "-q"]).exit_code == 3
    assert CliRunner().invoke(cli.main, ["solve", snapshot, str(target), "-q"]).exit_code == 0


def test_what_fits_on_no_shape_is_named_with_what_each_lacks(tmp_path: Path, catalogue: str) -> None:
    pods = [pod("huge", cpu="9"), pod("elsewhere", cpu="1", selector={"disk": "ssd"}), pod("fine", cpu="1")]
    snapshot = written(tmp_path / "c.json", pods)
    found = sized(snapshot, "--catalogue", catalogue, code=3)
    assert found["status"] == "infeasible"
    reasons = {misfit["pods"][0]: [(r["shape"], r["rule"], r["message"]) for r in misfit["reasons"]] for misfit in found["misfits"]}
    assert reasons["default/huge"] == [(name, "NodeResourcesFit", "insufficient cpu") for name in ("small", "large")]
    assert [rule for _, rule, _ in reasons["default/elsewhere"]] == ["NodeAffinity"] * 2
    assert "default/fine" not in reasons
    table = run(snapshot, "--catalogue", catalogue, "-f", "table", code=3).stdout
    assert table.startswith("no purchase places everything (proved): 2 pods fit on no shape")
    assert "NodeResourcesFit on small, large: insufficient cpu" in table


def test_where_nothing_waits_nothing_is_bought(tmp_path: Path, catalogue: str) -> None:
    result = run(written(tmp_path / "c.json", [node("n1", cpu="4"), pod("p", cpu="1")]), "--catalogue", catalogue, "-f", "table")
    assert result.stdout.startswith("buy nothing: everything has a place on the nodes that stay")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--pool", "x=y", "--from-scratch"], "--pool and --from-scratch exclude each other"),
        (["--at-once", "2"], "require --survive"),
        (["--priority", "2"], "require --survive"),
        (["--survive", ""], "expected node, zone or the key of a node label"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(arguments: list[str], said: str, tmp_path: Path, catalogue: str) -> None:
    snapshot = written(tmp_path / "c.json", [node("n1")])
    assert said in " ".join(run(snapshot, "--catalogue", catalogue, *arguments, code=2).stderr.split())


def test_a_catalogue_is_needed(tmp_path: Path) -> None:
    assert "--catalogue" in run(written(tmp_path / "c.json", [node("n1")]), code=2).stderr


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("pool=none", "no node of the snapshot has such labels"),
        ("a b", "not a label selector, expected one such as pool=old,zone!=a"),
        ("", "not a label selector, expected one such as pool=old,zone!=a"),
    ],
)
def test_a_pool_that_is_none_is_bad_input(pool: str, said: str, tmp_path: Path, catalogue: str) -> None:
    result = run(written(tmp_path / "c.json", [node("n1")]), "--catalogue", catalogue, "--pool", pool, code=1)
    assert result.stderr.splitlines() == [f"kubestow: --pool {pool!r}: {said}"]


def test_failures_of_a_label_that_no_node_has_nor_can_have_are_bad_input(tmp_path: Path, catalogue: str) -> None:
    snapshot = written(tmp_path / "c.json", [node("n1")])
    result = run(snapshot, "--catalogue", catalogue, "--survive", "rack", code=1)
    assert result.stdout == ""
    assert result.stderr.splitlines() == ["kubestow: --survive 'rack' --at-once 1: the snapshot has no values of the node label 'rack'"]
    offered = catalogue_file(tmp_path, shape("s", 2, 1, labels={"rack": "r1"}))
    assert run(snapshot, "--catalogue", offered, "--survive", "rack", code=3).stdout


# --- catalogues that are none -------------------------------------------------------------------------------------------------

#: By fault: the shapes, and the words of the line.
BAD: dict[str, tuple[list[Object], tuple[str, ...]]] = {
    "no price": ([{k: v for k, v in shape("s", 2, 1).items() if k != "price"}], ("'s'", "price", "missing")),
    "a negative price": ([shape("s", 2, -0.1)], ("'s'", "price", "-0.1")),
    "a price that is no number": ([shape("s", 2, "cheap")], ("'s'", "price", "cheap")),
    "a negative fixed price": ([shape("s", 2, 1, fixedPrice=-1)], ("'s'", "fixedPrice", "-1")),
    "no price in a zone": ([shape("s", 2, {"a": 1})], ("'s'", "price", "b")),
    "an unknown quantity": (
        [shape("s", 2, 1) | {"allocatable": {"cpu": "two", "memory": "1Gi", "pods": 9}}],
        ("'s'", "allocatable", "two"),
    ),
    "a shape twice": ([shape("s", 2, 1), shape("s", 4, 2)], ("'s'", "twice")),
    "no zone": ([shape("s", 2, 1) | {"zones": []}], ("'s'", "zones")),
    "no zones at all": ([{k: v for k, v in shape("s", 2, 1).items() if k != "zones"}], ("'s'", "zones", "missing")),
    "a field that there is not": ([shape("s", 2, 1, prize=3)], ("'s'", "prize", "price")),
    "no shapes": ([], ("shapes", "empty")),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_catalogue_is_one_line_and_nothing_is_written(what: str, tmp_path: Path) -> None:
    shapes, words = BAD[what]
    target = tmp_path / "answer.json"
    target.write_text("as it was")
    path = catalogue_file(tmp_path, *shapes)
    result = run(written(tmp_path / "c.json", [pod("p")]), "--catalogue", path, "-o", str(target), code=1)
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert result.stderr.startswith(f"kubestow: {path}: ")
    assert all(word in result.stderr for word in words), result.stderr
    assert not result.stdout
    assert target.read_text() == "as it was"


def test_every_problem_of_a_catalogue_has_its_line(tmp_path: Path) -> None:
    path = catalogue_file(tmp_path, shape("s", 2, -1), shape("t", 2, 1) | {"zones": []})
    result = run(written(tmp_path / "c.json", [pod("p")]), "--catalogue", path, code=1)
    assert len(result.stderr.splitlines()) == 2


# --- messages about the input -------------------------------------------------------------------------------------------------


def test_a_policy_and_what_is_not_modelled_stand_in_the_document_whether_there_is_a_purchase_or_not(tmp_path: Path, catalogue: str) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"strategy": "pack"}')
    for cpu, code in (1, 0), (99, 3):
        pods = [pod("p", cpu=str(cpu), schedulerName="other")]
        words = [written(tmp_path / "cluster.json", [node("n1", labels={ZONE: "a"}), *pods]), "--catalogue", catalogue]
        found = sized(*words, "--policy", str(policy), code=code)
        assert found["policy"]["strategy"] == "pack"
        assert [(each["pod"], each["field"]) for each in found["unmodelled"]] == [("default/p", "spec.schedulerName")]
        assert run(*words, "--strict", code=4).stdout == ""
