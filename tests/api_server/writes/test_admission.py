"""Tests of the admission of new pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_server import Behaviour, Refused, SimulatedCluster
from tests.objects import node, pod

Object = dict[str, Any]


def _namespaced(kind: str, name: str, **spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _world(*objects: Object) -> SimulatedCluster:
    world = SimulatedCluster(Behaviour())
    world.load([node("n1"), *objects])
    return world


def test_priority_comes_from_the_class() -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    world = _world(high)
    assert world.create(pod("p", priorityClassName="high"))["spec"]["priority"] == 7
    with pytest.raises(Refused, match="no PriorityClass with name low was found"):
        world.create(pod("q", priorityClassName="low"))


def test_limit_ranges_give_defaults() -> None:
    item = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1", "memory": "1Gi"}}
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    made = _world(_namespaced("LimitRange", "sizes", limits=[item])).create(bare)
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "2"}, "requests": {"cpu": "1", "memory": "1Gi"}}


def test_a_quota_holds_a_replacement_back_until_the_old_pod_is_gone() -> None:
    quota = _namespaced("ResourceQuota", "team", hard={"pods": "2", "requests.cpu": "1"})
    world = _world(quota, *(pod(f"web-{i}", node_name="n1", owner="ReplicaSet/web") for i in range(2)))
    world.evict("default/web-0")
    assert sorted(world.where()) == ["default/web-0", "default/web-1"]
    world.settle()
    assert len(world.where()) == 2
    assert "default/web-0" not in world.where()
    with pytest.raises(Refused, match="exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2") as refused:
        world.create(pod("more"))
    assert refused.value.code == 403


def test_new_pods_tolerate_failing_nodes_for_a_while() -> None:
    tolerations = _world().create(pod("p"))["spec"]["tolerations"]
    assert [one["key"] for one in tolerations] == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
