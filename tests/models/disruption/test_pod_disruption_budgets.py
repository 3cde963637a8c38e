"""PodDisruptionBudgets: selection, allowance, and pods that may be evicted without their consent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kubestow.models.disruption import pod_disruption_budgets
from kubestow.models.disruption.pod_disruption_budgets import DisruptionBudget
from kubestow.models.kube.selectors import Selector, selector_matches
from kubestow.models.snapshot.snapshot import from_objects, load
from tests.objects import Object, node, pod

WEB = {"app": "web"}
CLUSTERS = sorted((Path(__file__).resolve().parents[4] / "shared" / "data" / "clusters").glob("*.json"))


def running(name: str, *, owner: str | None = "ReplicaSet/web", ready: str | None = None, phase: str = "Running", **fields: Any) -> Object:
    """A pod on a node; ``ready``: the status of its condition Ready, None: no conditions."""
    made = pod(name, node_name="n", owner=owner, labels=fields.pop("labels", WEB), **fields)
    made["status"] = {"phase": phase}
    if ready is not None:
        made["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": ready}]
    return made


def terminating(made: Object) -> Object:
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


def budget(
    name: str = "b", *, selector: Object | None = None, status: Object | None = None, namespace: str = "default", **spec: Any
) -> Object:
    spec["selector"] = {"matchLabels": WEB} if selector is None else selector
    made = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
    return made if status is None else {**made, "status": status}


def controlled(kind: str, name: str, replicas: int | None, owner: str | None = None) -> Object:
    metadata: Object = {"name": name, "namespace": "default"}
    if owner is not None:
        above, _, called = owner.partition("/")
        metadata["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": above, "name": called, "uid": called, "controller": True}]
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {} if replicas is None else {"replicas": replicas}}


def found(*objects: Object, validate: bool = True) -> list[DisruptionBudget]:
    return pod_disruption_budgets.budgets(from_objects([node("n"), *objects], validate=validate))


def only(*objects: Object, validate: bool = True) -> DisruptionBudget:
    (one,) = found(*objects, validate=validate)
    return one


def test_selects_running_pods_of_its_own_namespace() -> None:
    pods = [
        running("a"),
        running("elsewhere", namespace="other"),
        running("other-label", labels={"app": "db"}),
        pod("pending", labels=WEB, owner="ReplicaSet/web"),
        running("over", phase="Succeeded"),
        terminating(running("leaving")),
        running("b"),
    ]
    assert only(*pods, budget(minAvailable=1)) == DisruptionBudget("default/b", (0, 6), frozenset(), 1)


def test_no_selector_selects_none_and_an_empty_one_all() -> None:
    pods = [running("a"), running("b", labels={})]
    nil = budget("nil", minAvailable=1)
    del nil["spec"]["selector"]
    bare = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "no-spec", "namespace": "default"}}
    assert [(b.name, b.pods) for b in found(*pods, nil, bare, budget("all", selector={}, minAvailable=1))] == [("default/all", (0, 1))]


@pytest.mark.parametrize(
    ("expression", "pods"),
    [
        ({"key": "app", "operator": "In", "values": ["web", "db", "none"]}, (0, 1)),
        ({"key": "app", "operator": "Exists"}, (0, 1)),
        ({"key": "app", "operator": "NotIn", "values": ["web"]}, (1, 2)),
        ({"key": "app", "operator": "DoesNotExist"}, (2,)),
    ],
)
def test_expressions(expression: Object, pods: tuple[int, ...]) -> None:
    made = [running("a"), running("b", labels={"app": "db"}), running("c", labels={"tier": "x"})]
    assert only(*made, budget(selector={"matchExpressions": [expression]}, minAvailable=0)).pods == pods


def test_budgets_without_running_pods_are_left_out() -> None:
    assert found(pod("pending", labels=WEB), budget(minAvailable=1)) == []


def test_pods_of_nodes_that_the_snapshot_lacks_are_guarded_too() -> None:
    away = running("away")
    away["spec"]["nodeName"] = "gone"
    assert only(away, running("here"), budget(minAvailable=1)) == DisruptionBudget("default/b", (0, 1), frozenset(), 1)


# --- allowed evictions ------------------------------------------------------------------------------------------------


def test_the_status_decides() -> None:
    assert only(running("a"), running("b"), budget(minAvailable=2, status={"disruptionsAllowed": 1})).allowed == 1
    assert only(running("a"), running("b"), budget(minAvailable=0, status={"disruptionsAllowed": 0})).allowed == 0


def test_parts_of_a_status_are_used() -> None:
    pods = [running("a"), running("b"), running("c")]
    assert only(*pods, budget(minAvailable=1, status={"currentHealthy": 2})).allowed == 1
    assert only(*pods, budget(minAvailable=1, status={"desiredHealthy": 3})).allowed == 0
    assert only(*pods, budget(minAvailable=1, status={"currentHealthy": 3, "desiredHealthy": 2})).allowed == 1
    assert only(*pods, budget(minAvailable=1, status={})).allowed == 2


def test_a_number_of_available_pods_looks_at_no_controller() -> None:
    pods = [running("a", owner=None), running("b", owner="DaemonSet/d"), running("c", owner="Job/j")]
    assert only(*pods, budget(minAvailable=1)).allowed == 2
    assert only(*pods, budget(minAvailable=3)).allowed == 0
    assert only(*pods, budget(minAvailable=7)).allowed == 0


def test_healthy_are_running_pods_that_are_ready() -> None:
    pods = [
        running("ready", ready="True"),
        running("not-ready", ready="False"),
        running("unknown", ready="Unknown"),
        running("starting", phase="Pending"),
        running("no-conditions"),
        pod("pending", labels=WEB),
        running("over", phase="Failed"),
        terminating(running("leaving", ready="True")),
    ]
    scheduled_only = running("scheduled")
    scheduled_only["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
    assert only(*pods, scheduled_only, budget(minAvailable=0)).allowed == 2


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"maxUnavailable": 1}, 0),  # 5 wanted, 4 there
        ({"maxUnavailable": 3}, 2),
        ({"maxUnavailable": 9}, 4),  # none need be healthy
        ({"maxUnavailable": "0%"}, 0),
        ({"maxUnavailable": "21%"}, 1),  # 1.05, rounded up: 2
        ({"minAvailable": "41%"}, 1),  # 2.05, rounded up: 3
        ({"minAvailable": "40%"}, 2),
        ({"minAvailable": "100%"}, 0),
        ({}, 0),
    ],
)
def test_shares_are_of_the_scale(spec: Object, allowed: int) -> None:
    pods = [running(f"p{i}") for i in range(4)]
    assert only(*pods, controlled("ReplicaSet", "web", 5), budget(**spec)).allowed == allowed


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
def test_controllers_with_a_scale(kind: str) -> None:
    pods = [running(f"p{i}", owner=f"{kind}/web") for i in range(3)]
    assert only(*pods, controlled(kind, "web", 3), budget(maxUnavailable=2)).allowed == 2
    assert only(*pods, controlled(kind, "web", 4), budget(maxUnavailable=2)).allowed == 1
    assert only(*pods, controlled(kind, "web", None), budget(maxUnavailable=0)).allowed == 2  # one replica by default


def test_a_deployment_counts_through_its_replica_sets() -> None:
    pods = [running("a", owner="ReplicaSet/web-1"), running("b", owner="ReplicaSet/web-1"), running("c", owner="ReplicaSet/web-2")]
    sets = [controlled("ReplicaSet", "web-1", 2, "Deployment/web"), controlled("ReplicaSet", "web-2", 9, "Deployment/web")]
    assert only(*pods, *sets, controlled("Deployment", "web", 3), budget(maxUnavailable=1)).allowed == 1
    # Without the Deployment, and under another controller, the ReplicaSets' own scales count: 11 wanted, of which 9 may be missing.
    assert only(*pods, *sets, budget(maxUnavailable=9)).allowed == 1
    rollouts = [controlled("ReplicaSet", "web-1", 2, "Rollout/web"), controlled("ReplicaSet", "web-2", 1, "Rollout/web")]
    assert only(*pods, *rollouts, controlled("Deployment", "web", 9), budget(maxUnavailable=1)).allowed == 1


def test_a_replica_set_that_is_missing_is_known_by_its_hash() -> None:
    labels = {**WEB, "pod-template-hash": "5f"}
    pods = [running(f"p{i}", owner="ReplicaSet/web-5f", labels=labels) for i in range(2)]
    assert only(*pods, controlled("Deployment", "web", 4), budget(maxUnavailable=3)).allowed == 1
    assert only(*pods, controlled("Deployment", "other", 4), budget(maxUnavailable=1)).allowed == 1


def test_pods_stand_for_a_controller_that_is_missing() -> None:
    pods = [running("a"), running("b"), running("unlike", labels={}), running("over", phase="Failed")]
    assert only(*pods, budget(maxUnavailable=2)).allowed == 1  # 3 there, 1 has to stay, 2 of those selected are healthy
    assert only(*pods, terminating(running("leaving")), budget(maxUnavailable=2)).allowed == 0


def test_pods_without_a_controller_are_skipped() -> None:
    assert only(running("a"), running("bare", owner=None), controlled("ReplicaSet", "web", 1), budget(maxUnavailable=0)).allowed == 1
    assert only(running("bare", owner=None), budget(maxUnavailable=1)).allowed == 0  # nothing is expected


@pytest.mark.parametrize("owner", ["DaemonSet/d", "Job/j", "Node/n", "Anything/x"])
def test_controllers_without_a_scale_fail_safe(owner: str) -> None:
    pods = [running("a"), running("odd", owner=owner, ready="False")]
    for spec in ({"maxUnavailable": 1}, {"maxUnavailable": "50%"}, {"minAvailable": "50%"}):
        assert only(*pods, budget(**spec)) == DisruptionBudget("default/b", (0, 1), frozenset(), 0)


@pytest.mark.parametrize(
    ("status", "never"),
    [
        (None, False),  # the intended number of pods is unknown
        ({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 2}, False),
        ({"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2}, True),
        ({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}, False),  # the fail-safe
        ({"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}, False),
    ],
)
def test_of_controllers_that_are_not_known_the_status_tells_what_never_moves(status: Object | None, never: bool) -> None:
    one = only(budget(maxUnavailable="50%", status=status), *(running(f"p{i}", owner="Rollout/web") for i in range(2)))
    assert one.never == never


def test_a_budget_of_all_pods_never_allows_anything() -> None:
    pods = [running(f"p{i}", ready="False") for i in range(2)]
    assert only(controlled("ReplicaSet", "web", 2), budget(maxUnavailable=0), *pods).never
    assert only(budget(minAvailable=2), *pods).never
    assert not only(budget(minAvailable=1), *pods).never


def test_what_is_no_percentage_fails_safe() -> None:
    assert only(running("a"), budget(maxUnavailable="lots"), validate=False).allowed == 0


@pytest.mark.skipif(not CLUSTERS, reason="the shared data are not here")
@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_what_real_controllers_wrote_is_computed_again(path: Path) -> None:
    snapshot = load([str(path)])
    written = [(b.metadata.name, b.status.disruptionsAllowed) for b in snapshot.pod_disruption_budgets if b.status is not None]
    for each in snapshot.pod_disruption_budgets:
        each.status = None
    computed = {b.name.partition("/")[2]: b.allowed for b in pod_disruption_budgets.budgets(snapshot)}
    assert len(computed) > 5
    assert computed == {name: allowed for name, allowed in written if name in computed}


# --- pods that need no permission -------------------------------------------------------------------------------------


def test_pods_that_do_not_run_yet_go_freely() -> None:
    assert only(running("a"), running("starting", phase="Pending"), budget(minAvailable=1)).free == {1}


def test_unhealthy_pods_go_freely_while_the_budget_is_met() -> None:
    pods = [running("a", ready="True"), running("b", ready="False")]
    assert only(*pods, budget(minAvailable=1)).free == {1}
    assert only(*pods, budget(minAvailable=1, unhealthyPodEvictionPolicy="IfHealthyBudget")).free == {1}
    assert only(*pods, budget(minAvailable=2)).free == frozenset()
    assert only(*pods, budget(minAvailable=0)).free == frozenset()  # nothing is desired: the ordinary way


def test_always_allow_lets_unhealthy_pods_go() -> None:
    pods = [running("a", ready="True"), running("b", ready="False"), running("c")]
    one = only(*pods, budget(minAvailable=3, unhealthyPodEvictionPolicy="AlwaysAllow"))
    assert one == DisruptionBudget("default/b", (0, 1, 2), frozenset({1}), 0)


def test_free_pods_go_by_the_status_too() -> None:
    pods = [running("a", ready="True"), running("b", ready="False")]
    assert (
        only(*pods, budget(minAvailable=1, status={"currentHealthy": 0, "desiredHealthy": 1, "disruptionsAllowed": 0})).free == frozenset()
    )
    met = {"currentHealthy": 2, "desiredHealthy": 2, "disruptionsAllowed": 0}
    assert only(*pods, budget(minAvailable=9, status=met)) == DisruptionBudget("default/b", (0, 1), frozenset({1}), 0)


# --- many -------------------------------------------------------------------------------------------------------------


def test_selectors_look_at_few_pods_that_they_do_not_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time goes with pods and budgets, not with their product; counted, not measured."""
    workloads = 200
    labels = [{"app": f"w{i}", "tier": "web"} for i in range(workloads)]
    pods = [running(f"p{i}-{k}", owner=f"ReplicaSet/w{i}", labels=labels[i]) for i in range(workloads) for k in range(5)]
    guards = [budget(f"b{i}", selector={"matchLabels": labels[i]}, maxUnavailable=1) for i in range(workloads)]
    calls: list[object] = []

    def count(selector: Selector | None, labels: Mapping[str, str]) -> bool:
        calls.append(selector)
        return selector_matches(selector, labels)

    monkeypatch.setattr(pod_disruption_budgets, "selector_matches", count)
    assert [(len(each.pods), each.allowed) for each in found(*pods, *guards)] == [(5, 1)] * workloads
    assert len(calls) == workloads  # of 200 x 1000 pairs
