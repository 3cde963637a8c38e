"""The benchmark of plans: the moves of the reference heuristics are valid, and the tables show the measurements."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.checker.placement import rejecting_rules
from kubestow.instances.generate.worn import Worn, worn
from kubestow.models.disruption.evictable import exclusions
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.benchmarks import consolidation
from tests.benchmarks.consolidation import Compared, Rival
from tests.benchmarks.consolidation_reference import HEURISTICS, Freed, State, one_by_one, prefix
from tests.objects import node, pod

pytestmark = pytest.mark.slow

Object = dict[str, Any]
CLUSTERS = [Worn(8, 60, seed=1, rules=100), Worn(20, 120, seed=2, fill=60, gone=30, rules=100, tainted=20), Worn(14, 90, seed=3, zones=2)]


def moved(objects: list[Object], where: dict[str, str]) -> Snapshot:
    """The snapshot with pods (by key) on other nodes."""
    moved_pods = []
    for item in objects:
        key = f"{item['metadata'].get('namespace')}/{item['metadata']['name']}"
        if item["kind"] == "Pod" and key in where:
            item = {**item, "spec": {**item["spec"], "nodeName": where[key]}}
        moved_pods.append(item)
    return from_objects(moved_pods)


def broken(snapshot: Snapshot) -> dict[str, list[str]]:
    """The rules that running pods break."""
    rejected = {pod_key(p): rejecting_rules(snapshot, p, p.spec.nodeName or "") for p in snapshot.pods}
    return {key: rules for key, rules in rejected.items() if rules}


@pytest.mark.parametrize("name", HEURISTICS)
@pytest.mark.parametrize("parameters", CLUSTERS, ids=str)
def test_every_step_is_accepted_and_the_nodes_are_free(name: str, parameters: Worn) -> None:
    objects = list(worn(parameters).objects())
    start = from_objects(objects)
    reached = HEURISTICS[name](start)
    staying = exclusions(start)
    where: dict[str, str] = {}
    for i, source, target in reached.steps:
        now = moved(objects, where)
        assert i not in staying
        assert now.pods[i].spec.nodeName == source
        assert rejecting_rules(now, now.pods[i], target) == []
        where[pod_key(now.pods[i])] = target
    end = moved(objects, where)
    assert broken(start) == broken(end) == {}
    occupied = {p.spec.nodeName for i, p in enumerate(end.pods) if staying.get(i) not in ("daemonset", "mirror")}
    assert reached.nodes
    assert occupied.isdisjoint(reached.nodes)
    counted = consolidation.trace(start, ((str(i), source, target) for i, source, target in reached.steps))
    assert len(counted) == reached.moves + 1
    assert counted[-1] == len(reached.nodes)


def tiny(*, label: str | None = None) -> list[Object]:
    """Nodes of four CPUs with one, two and three pods of a CPU, and a full one that must not be emptied."""
    labels = {} if label is None else {label: ""}
    objects = [node("a", labels=labels), node("b"), node("c"), node("full")]
    for name, count in (("a", 1), ("b", 2), ("c", 3), ("full", 4)):
        owner = None if name == "full" else "ReplicaSet/r"
        objects += [pod(f"{name}-{i}", cpu="1", node_name=name, owner=owner) for i in range(count)]
    return objects


@pytest.mark.parametrize("heuristic", [prefix, one_by_one])
def test_a_tiny_cluster(heuristic: Any) -> None:
    snapshot = from_objects(tiny())
    freed: Freed = heuristic(snapshot)
    # Six pods fit on two nodes and not on one; `a` goes to the fullest node with room.
    assert (freed.nodes, freed.moves) == (frozenset({"a"}), 1)
    assert freed.steps[0][1:] == ("a", "c")


@pytest.mark.parametrize("label", ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"])
def test_the_control_plane_is_never_freed(label: str) -> None:
    snapshot = from_objects(tiny(label=label))
    assert one_by_one(snapshot).nodes == {"b"}
    # Nor does a prefix of b alone depend on it.
    assert prefix(snapshot).nodes == {"b"}


def test_a_pod_stays_where_another_needs_it() -> None:
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "store"}}},
    ]}}  # fmt: skip
    objects = [
        node("a"), node("b"),
        pod("store", node_name="a", owner="ReplicaSet/s", labels={"app": "store"}),
        pod("user", node_name="a", affinity=near),
    ]  # fmt: skip
    state = State(from_objects(objects))
    assert not state.move(0, ["b"])
    assert (state.where[0], state.steps) == ("a", [])


def test_a_pod_stays_where_a_spread_needs_it() -> None:
    even = [{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]  # fmt: skip
    objects = [
        node("a"), node("b"),
        pod("held", node_name="b", owner="ReplicaSet/w", labels={"app": "web"}, spread=even),
        pod("loose", node_name="a", owner="ReplicaSet/w", labels={"app": "web"}),
    ]  # fmt: skip
    state = State(from_objects(objects))
    assert not state.move(1, ["b"])  # 0 and 2: too uneven for `held`
    assert state.where[1] == "a"


def test_the_table_compares_equals_with_equals() -> None:
    parameters = Worn(10, 90, seed=5)
    rows = [
        Compared(parameters, 1, 4, 6, 2, "optimal", 0.5, {"prefix": Rival(4, 12, 6), "one by one": Rival(3, 8, 4)}),
        Compared(parameters, 0, 2, 3, 1, "feasible", 0.5, {"prefix": Rival(3, 9, None), "one by one": Rival(2, 3, 3)}),
    ]
    lines = list(consolidation.table(rows))
    assert lines[2] == "| 10 | 45 | 5 | 1 | 4 | 6 | 2 | optimal | 0.5 | 4 | 12 | 6 | 0.50 | 3 | 8 | 4 | 0.50 |"
    assert lines[3] == "| 10 | 45 | 5 | 0 | 2 | 3 | 1 | feasible | 0.5 | 3 | 9 | - | - | 2 | 3 | 3 | 1.00 |"
    said = " ".join(lines[4:])
    assert "fewer nodes freed in 1 of 2 clusters, more in 0." in said
    assert "prefix, median: 0.50 (1 pairs); not reached in 1." in said
    assert "one by one, median: 0.75 (2 pairs); not reached in 0." in said
