"""Worn clusters: everything runs by the rules, loosely and unevenly, and always the same for the same parameters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kubestow.checker.placement import verify
from kubestow.checker.reading import resources
from kubestow.instances.generate.generator import Generated
from kubestow.instances.generate.worn import MAX_PEAK_PERCENT, Worn, worn
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef, TierResult
from kubestow.models.kube import objects as kube_objects
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot, from_objects

Object = dict[str, Any]
SOME = [
    Worn(4, 20),
    Worn(12, 80, seed=1, zones=1, fill=30, gone=60, rules=100),
    Worn(25, 220, seed=2, fill=65, gone=30, rules=100, tainted=20, numa=40),
    Worn(40, 360, seed=3, zones=5, rules=80, bare=30, local=30),
    Worn(60, 540, seed=4, fill=50, gone=45, priorities=0),
]


def read(made: Generated) -> Snapshot:
    found = from_objects(made.objects())
    assert found.warnings == []
    assert found.ignored == {}
    return found


def waiting(item: Object) -> Object:
    """A running pod back in the queue."""
    if item["kind"] != "Pod":
        return item
    return {**item, "spec": {key: value for key, value in item["spec"].items() if key != "nodeName"}}


@pytest.mark.parametrize("parameters", SOME, ids=str)
def test_all_run_as_many_as_asked(parameters: Worn) -> None:
    snapshot = read(worn(parameters))
    nodes = {node.metadata.name for node in snapshot.nodes}
    assert len(nodes) == parameters.nodes
    assert len(snapshot.pods) == parameters.pods
    assert {pod.spec.nodeName for pod in snapshot.pods} <= nodes
    assert len({pod_key(pod) for pod in snapshot.pods}) == len(snapshot.pods)


@pytest.mark.parametrize("parameters", SOME, ids=str)
def test_every_hard_rule_holds(parameters: Worn) -> None:
    """The checker takes the cluster as a placement of all of its pods: every filter at its turn, and spreads in the end."""
    made = worn(parameters)
    snapshot = from_objects(waiting(item) for item in made.objects())
    pending = Counter(pod.spec.priority or 0 for pod in snapshot.pods)
    document = Placement(
        SnapshotRef("", len(snapshot.nodes), len(snapshot.pods), len(snapshot.pods)), "greedy", "feasible",
        [TierResult("placed", count, count, priority) for priority, count in sorted(pending.items(), reverse=True)],
        [Assignment(pod, node, order) for order, (pod, node) in enumerate(made.assignments(), 1)],
    )  # fmt: skip
    assert len(document.assignments) == parameters.pods
    assert verify(snapshot, document) == []


def shares(snapshot: Snapshot) -> list[int]:
    """Percent of CPU requested on each node, ascending."""
    used: Counter[str] = Counter()
    for pod in snapshot.pods:
        used[pod.spec.nodeName or ""] += resources.pod_requests(pod, snapshot.gates, bound=True).get("cpu", 0)
    return sorted(used[node.metadata.name or ""] * 100 // resources.node_capacity(node)["cpu"] for node in snapshot.nodes)


@pytest.mark.parametrize("fill", [30, 45, 60])
def test_nodes_are_unevenly_filled_as_much_as_asked(fill: int) -> None:
    found = shares(read(worn(Worn(100, 900, seed=5, fill=fill, gone=35))))
    assert abs(sum(found) // len(found) - fill) <= 8
    assert found[9] * 3 < found[90]


def test_what_stays_is_marked_and_little() -> None:
    snapshot = read(worn(Worn(64, 600, seed=6, bare=40, local=40)))
    own = [pod for pod in snapshot.pods if kube_objects.controller_of(pod) is None]
    local = [pod for pod in snapshot.pods if pod.spec.volumes]
    assert own
    assert local
    assert len(own) + len(local) <= 64 // 8
    assert {(pod.metadata.labels or {})["app"] for pod in own}.isdisjoint(
        (budget.metadata.labels or {}).get("app") for budget in snapshot.pod_disruption_budgets
    )


def test_controllers_count_what_is_left() -> None:
    made = worn(Worn(30, 300, seed=7))
    objects = list(made.objects())
    running = Counter(
        (owner["kind"], item["metadata"]["namespace"], owner["name"])
        for item in objects
        if item["kind"] == "Pod"
        for owner in item["metadata"].get("ownerReferences", [])
    )
    wanted = {
        (item["kind"], item["metadata"]["namespace"], item["metadata"]["name"]): item["spec"].get(
            "replicas", item["spec"].get("parallelism")
        )
        for item in objects
        if item["kind"] in ("ReplicaSet", "StatefulSet", "Job")
    }
    assert wanted
    assert {key: running[key] for key in wanted} == wanted
    assert {kind for kind, _, _ in running} - {"DaemonSet"} == {kind for kind, _, _ in wanted}


def test_the_same_parameters_give_the_same_objects_and_another_seed_others() -> None:
    first, again, other = (list(worn(Worn(20, 150, seed=seed)).objects()) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_too_full_a_peak_is_refused() -> None:
    with pytest.raises(ValueError, match=f"65 % of the CPUs after 40 % of the pods went: more than {MAX_PEAK_PERCENT} % before"):
        worn(Worn(10, 80, fill=65, gone=40))
    assert len(read(worn(Worn(10, 80, fill=57, gone=40))).pods) == 80
