"""Domains that tie: the nodes are filled evenly, with default engine and limits, for every rule that makes domains."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import kubestow
from kubestow.models.documents.placement import Placement
from tests.benchmarks.bench_evenness import HOST, ZONE, nodes, pending, workload
from tests.objects import Object, node, pod

#: Rules over the pods of a workload: by default constraints (None), or of its own.
RULES = {
    "by default": None,
    "none": [],
    "soft zone": [(ZONE, "ScheduleAnyway")],
    "soft zone and host": [(ZONE, "ScheduleAnyway"), (HOST, "ScheduleAnyway")],
    "hard zone": [(ZONE, "DoNotSchedule")],
    "hard zone, soft host": [(ZONE, "DoNotSchedule"), (HOST, "ScheduleAnyway")],
}
#: Thirty workloads leave no node emptier than another by more pods than this: some ends are as good as others.
MOST = 2


def solved(folder: Path, snapshot: list[Object], manifests: list[Object] | None = None) -> Placement:
    """Solve as the command does, with default options."""
    paths = [folder / "snapshot.json", folder / "manifests.json"]
    for path, objects in zip(paths, (snapshot, manifests or []), strict=True):
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), encoding="utf-8")
    return kubestow.solve(kubestow.load(paths[0], manifests=paths[1:] if manifests else []))


def spec(app: str, rules: list[tuple[str, str]] | None) -> Object:
    own = {"labelSelector": {"matchLabels": {"app": app}}, "maxSkew": 1}
    made: Object = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}]}
    return made | {"topologySpreadConstraints": [own | {"topologyKey": k, "whenUnsatisfiable": when} for k, when in rules or []]}


def assert_even(placement: Placement, names: list[str], pods: int) -> None:
    result = Counter(dict.fromkeys(names, 0))
    result.update(each.node for each in placement.assignments)
    assert sum(result.values()) == pods
    assert max(result.values()) - min(result.values()) <= MOST, result
    tiers = {tier.tier: tier for tier in placement.objective}
    assert 100 * tiers["strategy"].gap <= 6
    assert all(tier.value == tier.bound for name, tier in tiers.items() if name != "strategy")


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("manifests", [True, False], ids=["manifests", "pending"])
@pytest.mark.parametrize("rule", RULES)
def test_workloads_of_few_pods_fill_all_nodes(tmp_path: Path, rule: str, manifests: bool, replicas: int) -> None:
    """Six equal nodes in three zones."""
    made = [workload("ReplicaSet", f"d{i}", replicas, spec(f"d{i}", RULES[rule])) for i in range(24)]
    given = (nodes(6, 3), made) if manifests else ([*nodes(6, 3), *pending(made)],)
    placement = solved(tmp_path, *given)
    assert_even(placement, [f"n{i}" for i in range(6)], 24 * replicas)


def test_thirty_deployments_of_one_replica(tmp_path: Path) -> None:
    """All thirty were on the two nodes of one zone."""
    placement = solved(tmp_path, nodes(6, 3), [workload("Deployment", f"d{i}", 1, spec(f"d{i}", None)) for i in range(30)])
    assert Counter(each.node for each in placement.assignments) == {f"n{i}": 5 for i in range(6)}
    assert placement.status == "optimal"


def test_running_pods_count(tmp_path: Path) -> None:
    """The zone of the lowest number is the fullest."""
    running = [pod(f"run{i}", cpu="500m", memory="256Mi", node_name=f"n{3 * (i % 2)}") for i in range(12)]
    made = [workload("ReplicaSet", f"d{i}", 1, spec(f"d{i}", None)) for i in range(24)]
    placement = solved(tmp_path, [*nodes(6, 3), *running, *pending(made)])
    assert Counter(each.node for each in placement.assignments) == {"n1": 6, "n2": 6, "n4": 6, "n5": 6}


def test_two_pods_more_than_domains_go_to_the_emptiest_nodes(tmp_path: Path) -> None:
    """Three pods of a workload over two zones: the one that is left over goes where a second node is the emptier one."""
    equal = [node(f"n{i}", cpu="8", labels={ZONE: "ab"[i % 2]}) for i in range(4)]
    running = [pod("run", cpu="2", memory="1Gi", node_name="n2")]
    made = [workload("ReplicaSet", "d", 3, spec("d", RULES["soft zone"]))]
    placement = solved(tmp_path, [*equal, *running, *pending(made)])
    assert sorted(each.node for each in placement.assignments) == ["n0", "n1", "n3"]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_gangs_that_need_one_zone_fill_all_zones(tmp_path: Path, size: int) -> None:
    pods = []
    for i in range(12 * size):
        made = pod(f"p{i}")
        made["metadata"]["annotations"] = {"kubestow.dev/gang": f"g{i // size}", "kubestow.dev/required-topology": ZONE}
        pods.append(made)
    placement = solved(tmp_path, [*nodes(6, 3), *pods])
    assert_even(placement, [f"n{i}" for i in range(6)], 12 * size)
    assert all(gang.domain is not None for gang in placement.gangs)


def test_a_gang_that_needs_a_whole_zone_is_still_placed(tmp_path: Path) -> None:
    """Small gangs of higher priority come first. One in each zone would leave no zone for the large gang."""
    pods = []
    for name, i, cpu in [("s0", 0, "3"), ("s1", 0, "3"), ("large", 0, "6"), ("large", 1, "6")]:
        made = pod(f"{name}-{i}", cpu=cpu, memory="1Gi", priority=0 if name == "large" else 10)
        made["metadata"]["annotations"] = {"kubestow.dev/gang": name, "kubestow.dev/required-topology": ZONE}
        pods.append(made)
    placement = solved(tmp_path, [*nodes(4, 2), *pods])
    assert len(placement.assignments) == 4
    zones = {each.gang: each.node in ("n0", "n2") for each in placement.assignments}
    assert zones["default/s0"] == zones["default/s1"] != zones["default/large"]
