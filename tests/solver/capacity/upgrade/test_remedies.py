"""Remedies of a blocked upgrade: each is offered only if it lets the node be drained."""

from __future__ import annotations

from typing import Any

from tests.objects import node, pod
from tests.solver.capacity.upgrade.test_upgrade import budget, find, nodes, web

Object = dict[str, Any]
UNREADY = [{"type": "Ready", "status": "False"}]
READY = [{"type": "Ready", "status": "True"}]


def _web(i: int, at: str, *, ready: bool) -> Object:
    found = web(i, at, cpu="100m")
    found["status"] |= {"conditions": READY if ready else UNREADY}
    return found


def _remedies(objects: list[Object]) -> list[list[str]]:
    return [blocker.remedies for blocker in find(objects).blocked]


def test_of_pods_that_crash_only_the_eviction_policy_helps() -> None:
    """One replica more would fail, too, and nothing is healthy that a larger budget could count."""
    objects = [*nodes(2), node("n9"), *(_web(i, f"n{i}", ready=False) for i in range(2)), budget(maxUnavailable=1)]
    expected = ["set unhealthyPodEvictionPolicy: AlwaysAllow in PodDisruptionBudget default/web"]
    assert _remedies(objects) == [expected, expected]


def test_with_a_policy_that_allows_all_such_pods_go() -> None:
    objects = [*nodes(2), *(_web(i, f"n{i}", ready=False) for i in range(2))]
    assert find([*objects, budget(maxUnavailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")]).complete


def test_a_budget_of_one_healthy_pod_is_loosened_or_gets_a_replica_more() -> None:
    objects = [*nodes(1), node("n9"), _web(0, "n0", ready=True)]
    assert _remedies([*objects, budget(minAvailable=1)]) == [
        ["lower minAvailable of PodDisruptionBudget default/web from 1 to 0", "add one replica to ReplicaSet default/web"]
    ]


def test_a_replica_more_is_not_offered_where_no_node_takes_it() -> None:
    full = [*nodes(1, cpu="2"), web(0, "n0")]
    assert _remedies([*full, budget(minAvailable=1)]) == [["lower minAvailable of PodDisruptionBudget default/web from 1 to 0"]]


def test_a_replica_more_is_not_offered_where_the_budget_asks_for_all() -> None:
    assert _remedies([*nodes(1), node("n9"), _web(0, "n0", ready=True), budget(minAvailable="100%")]) == [
        ["lower minAvailable of PodDisruptionBudget default/web from 100% to 0"]
    ]


def test_of_two_budgets_either_may_be_deleted() -> None:
    objects = [*nodes(1), node("n9"), _web(0, "n0", ready=True), budget(maxUnavailable=1), budget("other", maxUnavailable=1)]
    assert sorted(remedy for remedies in _remedies(objects) for remedy in remedies) == [
        "delete PodDisruptionBudget default/other",
        "delete PodDisruptionBudget default/web",
    ]


def test_a_bare_pod_is_deleted_and_an_annotation_taken_away() -> None:
    assert _remedies([*nodes(1), pod("bare", node_name="n0")]) == [["delete pod default/bare"]]
    annotated = web(0, "n0")
    annotated["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    assert _remedies([*nodes(1), annotated]) == [
        ["remove the annotation karpenter.sh/do-not-disrupt from pod default/web-0", "delete pod default/web-0"]
    ]


def test_what_does_not_help_is_not_offered() -> None:
    """The budget gone, the pod still has no other node."""
    bound = {**_web(0, "n0", ready=False)}
    bound["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n0"}
    assert [r for remedies in _remedies([*nodes(1), bound, budget(maxUnavailable=1)]) for r in remedies] == []
