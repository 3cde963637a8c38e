"""Tests that each controller replaces missing pods in its own way."""

from __future__ import annotations

from typing import Any

from tests.api_server import Behaviour, SimulatedCluster
from tests.objects import node, pod

Object = dict[str, Any]
_SPEC = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}


def _owner(kind: str, name: str, version: str = "apps/v1", **spec: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": _SPEC}
    spec = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _world(*objects: Object, **behaviour: Any) -> SimulatedCluster:
    world = SimulatedCluster(Behaviour(**behaviour))
    world.load([node("n1"), node("n2"), *objects])
    world.settle()
    return world


def _names(world: SimulatedCluster) -> list[str]:
    return sorted(one["metadata"]["name"] for one in world.all("Pod"))


def test_a_replica_set_replaces_a_pod_at_once_under_a_new_name() -> None:
    world = _world(_owner("ReplicaSet", "web", replicas=2))
    first = _names(world)
    assert len(first) == 2
    world.evict(f"default/{first[0]}")
    now = _names(world)
    assert len(now) == 3
    assert first[0] in now
    world.settle()
    assert len(_names(world)) == 2
    assert first[0] not in _names(world)


def test_the_same_seed_gives_the_same_names() -> None:
    assert _names(_world(_owner("ReplicaSet", "web", replicas=3))) == _names(_world(_owner("ReplicaSet", "web", replicas=3)))
    assert _names(_world(_owner("ReplicaSet", "web", replicas=3))) != _names(_world(_owner("ReplicaSet", "web", replicas=3), seed=1))


def test_owners_that_a_snapshot_lacks_are_made_of_their_pods() -> None:
    world = _world(*(pod(f"p{i}", node_name="n1", owner="ReplicaSet/web", cpu="300m") for i in range(2)))
    world.evict("default/p0")
    world.settle()
    new = next(one for one in world.all("Pod") if one["metadata"]["name"] != "p1")
    assert new["metadata"]["name"].startswith("web-")
    assert new["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "300m"
    assert new["status"]["phase"] == "Running"


def test_bare_pods_are_not_replaced() -> None:
    world = _world(pod("alone", node_name="n1"))
    world.evict("default/alone")
    world.settle()
    assert _names(world) == []


def test_a_stateful_set_waits_until_the_old_pod_is_gone() -> None:
    world = _world(_owner("StatefulSet", "db", replicas=3))
    assert _names(world) == ["db-0", "db-1", "db-2"]
    before = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.all("Pod")}
    world.evict("default/db-1")
    assert _names(world) == ["db-0", "db-1", "db-2"]
    world.settle()
    after = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.all("Pod")}
    assert after.keys() == before.keys()
    assert [name for name in before if before[name] != after[name]] == ["db-1"]


def test_an_ordered_set_creates_nothing_while_one_before_is_not_ready() -> None:
    world = _world(_owner("StatefulSet", "db", replicas=3), scheduler="off")
    assert _names(world) == ["db-0"]
    assert _names(_world(_owner("StatefulSet", "db", replicas=3, podManagementPolicy="Parallel"), scheduler="off")) == [
        "db-0",
        "db-1",
        "db-2",
    ]


def test_a_job_keeps_its_parallelism_and_its_indices() -> None:
    world = _world(_owner("Job", "sum", "batch/v1", parallelism=2, completions=3, completionMode="Indexed"))
    indices = [one["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for one in world.all("Pod")]
    assert sorted(indices) == ["0", "1"]
    first = next(one for one in world.all("Pod") if one["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "0")
    world.patch("Pod", f"default/{first['metadata']['name']}", {"status": {"phase": "Succeeded"}}, sub="status")
    world.settle()
    job = world.get("Job", "default/sum")
    assert job is not None
    assert (job["status"]["completedIndexes"], job["status"]["active"]) == ("0", 2)


def test_a_deployment_rolls_a_new_template_out() -> None:
    world = _world(_owner("Deployment", "web", replicas=4))
    old = _names(world)
    assert len(old) == 4
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "new"}]}}
    world.patch("Deployment", "default/web", {"spec": {"template": template}})
    world.settle()
    new = _names(world)
    assert len(new) == 4
    assert not set(old) & set(new)
    assert sorted(one["spec"]["replicas"] for one in world.all("ReplicaSet")) == [0, 4]


def test_what_an_owner_owned_goes_with_it() -> None:
    world = _world(_owner("Deployment", "web", replicas=2))
    world.delete("Deployment", "default/web")
    world.settle()
    assert world.all("ReplicaSet") == []
    assert world.all("Pod") == []


def test_a_cordon_gets_its_taint_and_loses_it() -> None:
    world = _world()
    world.patch("Node", "n1", {"spec": {"unschedulable": True}}, "client")
    world.settle()
    assert world.tainted("node.kubernetes.io/unschedulable") == ["n1"]
    world.patch("Node", "n1", {"spec": {"unschedulable": None}}, "client")
    world.settle()
    assert world.tainted("node.kubernetes.io/unschedulable") == []
    assert [(one.node, one.closed, one.actor) for one in world.cordons()] == [("n1", True, "client"), ("n1", False, "client")]


def test_pods_of_a_missing_node_go() -> None:
    world = _world(pod("a", node_name="n1", owner="ReplicaSet/web"))
    world.delete("Node", "n1")
    world.settle()
    assert list(world.where().values()) == ["n2"]


def test_a_kubelet_refuses_what_does_not_fit() -> None:
    world = _world(pod("big", node_name="n1", cpu="3"), scheduler="off")
    world.create(pod("more", cpu="1"))
    world.create(pod("late", cpu="1"))
    world.create(pod("picky", selector={"disk": "ssd"}))
    for name, where in (("more", "n1"), ("late", "n1"), ("picky", "n2")):
        world.bind(f"default/{name}", where)
    world.settle()
    found = {one["metadata"]["name"]: (one["status"]["phase"], one["status"].get("reason")) for one in world.all("Pod")}
    assert found["more"] == ("Running", None)
    assert found["late"] == ("Failed", "OutOfcpu")
    assert found["picky"] == ("Failed", "NodeAffinity")


def test_pods_of_a_snapshot_stay_as_they_are() -> None:
    stuck = pod("stuck", node_name="n1", cpu="9") | {"status": {"phase": "Pending"}}
    world = _world(stuck)
    assert [one["status"] for one in world.all("Pod")] == [{"phase": "Pending"}]
