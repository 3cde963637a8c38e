"""Tests of the competing scheduler: it binds pods that fit immediately, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_server import Behaviour, SimulatedCluster
from tests.api_server.behaviour import Scheduler
from tests.objects import node, pod

Object = dict[str, Any]
_HOST = "kubernetes.io/hostname"


def _world(*objects: Object, **behaviour: Any) -> SimulatedCluster:
    world = SimulatedCluster(Behaviour(**behaviour))
    world.load(objects)
    return world


def _claim(name: str, storage_class: str) -> Object:
    spec = {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def _class(name: str, mode: str, provisioner: str = "d.example.com") -> Object:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    return kind | {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def _using(name: str, claim: str, **others: Any) -> Object:
    return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}], **others)


def test_a_pod_that_fits_is_bound_before_the_request_is_answered() -> None:
    world = _world(node("n1"))
    world.create(pod("p"))
    assert [(one.actor, one.node) for one in world.bound()] == [("scheduler", "n1")]


def test_room_that_comes_free_is_taken_at_once_by_whoever_waited() -> None:
    world = _world(node("n1", cpu="1"), pod("a", cpu="1", node_name="n1"), pod("low", cpu="1"), pod("high", cpu="1", priority=7))
    assert world.bound() == []
    world.delete("Pod", "default/a", grace=0)
    assert [one.key for one in world.bound("scheduler")] == ["default/high"]


def test_a_cordon_keeps_pods_off_until_it_goes() -> None:
    world = _world(node("n1", unschedulable=True), pod("p"))
    assert world.bound() == []
    world.patch("Node", "n1", {"spec": {"unschedulable": False}})
    assert world.where() == {"default/p": "n1"}


def test_a_taint_lets_only_the_pod_in_that_tolerates_it() -> None:
    toleration = {"key": "kubestow.dev/let-in", "operator": "Equal", "value": "x", "effect": "NoSchedule"}
    world = _world(node("n1", unschedulable=True), pod("p"), pod("q"))
    world.patch("Pod", "default/q", {"spec": {"tolerations": [*_tolerations(world, "q"), toleration]}})
    taints = [{"key": "kubestow.dev/let-in", "value": "x", "effect": "NoSchedule"}]
    world.patch("Node", "n1", {"spec": {"unschedulable": None, "taints": taints}})
    assert world.where() == {"default/q": "n1"}


def _tolerations(world: SimulatedCluster, name: str) -> list[Object]:
    found = world.get("Pod", f"default/{name}")
    assert found is not None
    return list(found["spec"].get("tolerations") or ())


def test_gated_pods_wait_for_their_gates() -> None:
    world = _world(node("n1"), pod("p", schedulingGates=[{"name": "g"}]))
    assert world.bound() == []
    world.patch("Pod", "default/p", {"spec": {"schedulingGates": None}})
    assert world.where() == {"default/p": "n1"}


@pytest.mark.parametrize(
    "spec",
    [
        {"selector": {"disk": "ssd"}},
        {"cpu": "5"},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}]}}}},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": _HOST, "labelSelector": {"matchLabels": {"app": "there"}}}]}}},
        {"labels": {"app": "unwanted"}},
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": _HOST, "labelSelector": {"matchLabels": {"app": "absent"}}}]}}},
        {"labels": {"app": "there"}, "spread": [
            {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]},
    ],
)  # fmt: skip
def test_what_does_not_fit_waits(spec: dict[str, Any]) -> None:
    term = {"topologyKey": _HOST, "labelSelector": {"matchLabels": {"app": "unwanted"}}}
    hostile = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    there = pod("there", labels={"app": "there"}, node_name="n1", affinity=hostile)
    world = _world(node("n1"), there, pod("p", **spec))
    world.settle()
    assert world.bound() == []


def test_host_ports_are_taken_once() -> None:
    port = [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    world = _world(node("n1"), pod("a", containers=port), pod("b", containers=port))
    assert len(world.bound()) == 1


@pytest.mark.parametrize("temper", ["slow", "random"])
def test_other_tempers_bind_later(temper: Scheduler) -> None:
    world = _world(node("n1"), node("n2"), *(pod(f"p{i}") for i in range(6)), scheduler=temper)
    assert world.bound() == []
    world.settle()
    assert len(world.bound()) == 6


def test_a_claim_that_waits_for_its_consumer_is_provisioned_where_the_pod_goes() -> None:
    zone = {"topology.kubernetes.io/zone": "a"}
    world = _world(node("n1", labels=zone), _class("late", "WaitForFirstConsumer"), _claim("c", "late"), _using("p", "c"))
    assert world.bound() == []
    world.settle()
    claim = world.get("PersistentVolumeClaim", "default/c")
    assert claim is not None
    assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "n1"
    assert claim["status"]["phase"] == "Bound"
    found = world.get("Pod", "default/p")
    assert found is not None
    assert found["status"]["phase"] == "Running"


def test_a_binding_that_bypasses_the_scheduler_strands_the_claim() -> None:
    world = _world(node("n1", unschedulable=True), _class("late", "WaitForFirstConsumer"), _claim("c", "late"), _using("p", "c"))
    world.bind("default/p", "n1", "client")
    world.settle()
    pods, claims = world.all("Pod"), world.all("PersistentVolumeClaim")
    assert pods[0]["status"]["phase"] == "Pending"
    assert "volumeName" not in claims[0]["spec"]
    note = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}
    world.patch("PersistentVolumeClaim", "default/c", note, "client")
    world.settle()
    assert world.all("Pod")[0]["status"]["phase"] == "Running"


def test_volumes_that_are_there_are_taken_where_they_are() -> None:
    term = {"matchExpressions": [{"key": _HOST, "operator": "In", "values": ["n2"]}]}
    spec = {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": spec}
    local = _class("local", "WaitForFirstConsumer", "kubernetes.io/no-provisioner")
    world = _world(node("n1"), node("n2"), local, volume, _claim("c", "local"), _claim("d", "local"), _using("p", "c"), _using("q", "d"))
    world.settle()
    assert world.where() == {"default/p": "n2"}


def test_ephemeral_volumes_get_their_claims() -> None:
    template = {"spec": _claim("x", "late")["spec"]}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    world = _world(node("n1"), _class("late", "WaitForFirstConsumer"), pod("p", volumes=volumes))
    world.settle()
    assert [one["metadata"]["name"] for one in world.all("PersistentVolumeClaim")] == ["p-scratch"]
    assert world.where() == {"default/p": "n1"}
    world.delete("Pod", "default/p")
    world.settle()
    assert world.all("PersistentVolumeClaim") == []
    assert world.all("PersistentVolume") == []


def test_devices_are_allocated_by_the_scheduler_only() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    world = _world(node("n1"), node("n2", unschedulable=True), pod("p", resourceClaims=claims))
    world.settle()
    assert {one["metadata"]["name"]: one["status"]["phase"] for one in world.all("Pod")} == {"p": "Running"}
    world.patch("Node", "n1", {"spec": {"unschedulable": True}})
    world.create(pod("q", resourceClaims=claims))
    world.bind("default/q", "n2", "client")
    world.settle()
    assert {one["metadata"]["name"]: one["status"]["phase"] for one in world.all("Pod")} == {"p": "Running", "q": "Pending"}


def test_a_scheduler_that_begins_late_finds_who_waits() -> None:
    world = SimulatedCluster(Behaviour(scheduler="off"))
    world.load([node("n1"), pod("p")])
    world.settle()
    assert world.where() == {}
    world.begin_scheduling()
    world.settle()
    assert world.where() == {"default/p": "n1"}
