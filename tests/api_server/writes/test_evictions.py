"""Tests of evictions and of the arithmetic of budgets against the real API's behaviour."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_server import Behaviour, Refused, SimulatedCluster
from tests.api_server.core import Caller
from tests.api_server.writes.eviction import evict
from tests.objects import node, pod

Object = dict[str, Any]


def _budget(name: str = "web", **spec: Any) -> Object:
    selector = {"matchLabels": {"app": "web"}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": {"selector": selector, **spec}}


def _world(count: int, *budgets: Object, **behaviour: Any) -> SimulatedCluster:
    world = SimulatedCluster(Behaviour(**behaviour))
    nodes = [node(f"n{i}") for i in range(3)]
    pods = [pod(f"web-{i}", labels={"app": "web"}, node_name=f"n{i % 3}", owner="ReplicaSet/web") for i in range(count)]
    world.load([*nodes, *pods, *budgets])
    return world


def _status(world: SimulatedCluster) -> Object:
    found = world.get("PodDisruptionBudget", "default/web")
    assert found is not None
    return dict(found["status"])


@pytest.mark.parametrize(
    ("spec", "count", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 3, 2, 1),
        ({"minAvailable": "50%"}, 5, 3, 2),
        ({"minAvailable": "100%"}, 3, 3, 0),
        ({"maxUnavailable": 1}, 3, 2, 1),
        ({"maxUnavailable": "30%"}, 5, 3, 2),
        ({"maxUnavailable": 9}, 3, 0, 3),
        ({"minAvailable": 4}, 3, 4, 0),
    ],
)
def test_budgets_count_as_the_disruption_controller_does(spec: Object, count: int, desired: int, allowed: int) -> None:
    status = _status(_world(count, _budget(**spec)))
    assert (status["expectedPods"], status["currentHealthy"]) == (count, count)
    assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (desired, allowed)


def test_a_budget_lets_one_go_at_a_time() -> None:
    world = _world(3, _budget(minAvailable=2))
    world.evict("default/web-0")
    with pytest.raises(Refused) as refused:
        world.evict("default/web-1")
    assert (refused.value.code, refused.value.reason) == (429, "TooManyRequests")
    assert refused.value.message == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = {"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods and has 2 currently"}
    assert refused.value.details["causes"] == [cause]
    world.settle()
    assert world.get("Pod", "default/web-0") is None
    world.evict("default/web-1")
    world.settle()
    assert len(world.all("Pod")) == 3
    assert world.budget_violations() == []


def test_an_eviction_of_another_uid_is_refused_and_still_costs_budget() -> None:
    """The budget is checked before the precondition: 409 the first time, 429 when the budget is used up."""
    world = _world(3, _budget(minAvailable=2), budget=60.0)
    world.core.clock.advance(61_000_000)
    body = {"metadata": {"name": "web-0"}, "deleteOptions": {"preconditions": {"uid": "another"}}}
    codes = []
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            evict(world.core, Caller("client"), "default/web-0", body)
        codes.append(refused.value.code)
    assert codes == [409, 429]
    assert (_status(world)["disruptionsAllowed"], list(_status(world)["disruptedPods"])) == (0, ["web-0"])
    assert world.get("Pod", "default/web-0") is not None


def test_what_bypasses_a_budget_is_told() -> None:
    world = _world(3, _budget(minAvailable=3))
    world.delete("Pod", "default/web-0", "client")
    found = world.budget_violations()
    assert [(one.budget, one.healthy, one.desired, one.entry.key) for one in found] == [("default/web", 2, 3, "default/web-0")]


def test_what_controllers_do_is_no_violation() -> None:
    world = _world(3, _budget(minAvailable=3))
    world.patch("ReplicaSet", "default/web", {"spec": {"replicas": 1}})
    world.settle()
    assert len(world.all("Pod")) == 1
    assert world.budget_violations() == []


def test_two_budgets_for_one_pod_are_an_error() -> None:
    world = _world(3, _budget(minAvailable=1), _budget("other", minAvailable=1))
    with pytest.raises(Refused, match="more than one PodDisruptionBudget") as refused:
        world.evict("default/web-0")
    assert refused.value.code == 500


@pytest.mark.parametrize(("policy", "goes"), [(None, False), ("IfHealthyBudget", False), ("AlwaysAllow", True)])
def test_unready_pods_of_a_budget_that_is_not_met(policy: str | None, goes: bool) -> None:
    more = {} if policy is None else {"unhealthyPodEvictionPolicy": policy}
    world = _world(2, _budget(minAvailable=2, **more))
    world.patch("Pod", "default/web-0", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, sub="status")
    assert _status(world)["currentHealthy"] == 1
    if goes:
        world.evict("default/web-0")
    else:
        with pytest.raises(Refused):
            world.evict("default/web-0")


def test_pending_and_terminating_pods_go_without_asking() -> None:
    world = _world(2, _budget(minAvailable=2), stop=1.0, scheduler="off")
    world.create(pod("extra", labels={"app": "web"}))
    world.evict("default/extra")
    assert world.get("Pod", "default/extra") is None
    world.delete("Pod", "default/web-0", "kubelet")
    world.evict("default/web-0")
    assert [one.key for one in world.evicted()] == ["default/extra"]


def test_a_stale_status_does_not_allow_too_much() -> None:
    world = _world(3, _budget(minAvailable=2), budget=60.0)
    world.core.clock.advance(61_000_000)
    world.evict("default/web-0")
    assert _status(world)["disruptedPods"].keys() == {"web-0"}
    with pytest.raises(Refused):
        world.evict("default/web-1")
    assert world.budget_violations() == []
