"""Tests of device claims: created from templates, allocated with a node, and released."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_server import Behaviour, SimulatedCluster
from tests.devices import claim, claim_template, device, device_class, devices, exactly, published
from tests.objects import node, pod

Object = dict[str, Any]
GPU = [{"name": "gpu", "resourceClaimTemplateName": "t"}]


def _world(*objects: Object) -> SimulatedCluster:
    world = SimulatedCluster(Behaviour())
    world.load(objects)
    return world


def test_claims_get_the_first_devices_of_the_node_and_give_them_back() -> None:
    slices = [published(name, devices("b", "a"), of=name) for name in ("n1", "n2")]
    world = _world(node("n1"), node("n2", unschedulable=True), *slices, device_class(), claim_template("t", exactly(count=2)))
    world.create(pod("p", resourceClaims=GPU))
    world.create(pod("q", resourceClaims=GPU))
    world.settle()
    assert world.where() == {"default/p": "n1"}
    (held,) = (one["status"] for one in world.all("ResourceClaim") if "status" in one)
    assert [one["device"] for one in held["allocation"]["devices"]["results"]] == ["b", "a"]
    assert held["allocation"]["nodeSelector"]["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    ]
    assert [one["name"] for one in held["reservedFor"]] == ["p"]
    world.delete("Pod", "default/p", grace=0)
    world.settle()
    assert world.where() == {"default/q": "n1"}
    assert len(world.all("ResourceClaim")) == 1


def test_a_shared_claim_stays_until_its_last_pod_goes() -> None:
    slices = [published(name, devices("a"), of=name) for name in ("n1", "n2")]
    shared = [{"name": "gpu", "resourceClaimName": "ours"}]
    pods = [pod(name, resourceClaims=shared) for name in "pq"]
    world = _world(node("n1"), node("n2"), *slices, device_class(), claim("ours", exactly()), *pods)
    world.settle()
    assert len(set(world.where().values())) == 1
    for name, left in (("p", ["q"]), ("q", [])):
        world.delete("Pod", f"default/{name}", grace=0)
        world.settle()
        (found,) = world.all("ResourceClaim")
        assert ([one["name"] for one in found["status"]["reservedFor"]], "allocation" in found["status"]) == (left, bool(left))


def test_capacity_is_shared_as_far_as_it_goes_and_searched_for_in_full() -> None:
    """The larger request comes second, and fits only on the device that the first one does not use."""
    small, large = ({"requests": {"memory": size}} for size in ("10Gi", "30Gi"))
    shared = [
        device(name, allowMultipleAllocations=True, capacity={"memory": {"value": size}}) for name, size in (("a", "30Gi"), ("b", "20Gi"))
    ]
    requests = exactly("s", capacity=small), exactly("l", capacity=large)
    world = _world(
        node("n1"), published("n1", shared, of="n1"), device_class(), claim_template("t", *requests), pod("p", resourceClaims=GPU)
    )
    world.create(pod("q", resourceClaims=GPU))
    world.settle()
    assert world.where() == {"default/p": "n1"}
    (held,) = (one["status"]["allocation"] for one in world.all("ResourceClaim") if "status" in one)
    results = held["devices"]["results"]
    assert [(one["device"], one["consumedCapacity"]) for one in results] == [("b", {"memory": "10Gi"}), ("a", {"memory": "30Gi"})]
    assert len({one["shareID"] for one in results}) == 2


@pytest.mark.parametrize(
    ("pool", "asked"),
    [
        ({"slices": 2}, {}),  # not all of the pool is published
        ({}, {"of": "another"}),
        ({}, {"count": 3}),
        ({}, {"tolerations": [{"operator": "Exists"}]}),  # not supported by the stand-in
        ({"listed": [device("a", taints=[{"key": "k", "effect": "NoSchedule"}])]}, {}),
    ],
)
def test_where_devices_do_not_serve_pods_wait(pool: Object, asked: Object) -> None:
    listed = pool.pop("listed", devices("a", "b"))
    asked = dict(asked)
    request = exactly(count=asked.pop("count", 1), **asked)
    world = _world(
        node("n1"), published("n1", listed, of="n1", **pool), device_class(), claim_template("t", request), pod("p", resourceClaims=GPU)
    )
    world.settle()
    assert world.where() == {}
