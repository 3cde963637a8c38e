"""Purchased nodes: names, labels, drivers, and the pods that run on each."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.catalogue.nodes import Newcomers, bought, node
from kubestow.models.documents.catalogue import Shape, ShapeTaint
from kubestow.models.documents.policy import Policy, Topology, TopologyZone, node_topologies
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from tests import objects as make

_ZONE = "topology.kubernetes.io/zone"
_REGION = "topology.kubernetes.io/region"


def shape(name: str = "m", **fields: Any) -> Shape:
    return Shape(name, fields.pop("allocatable", {"cpu": 4, "memory": "8Gi", "pods": 110}), fields.pop("zones", ("a", "b")), 1, **fields)


def daemon_set(name: str, *, cpu: str = "100m", **spec: Any) -> make.Object:
    template = {
        "metadata": {"labels": {"ds": name}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **spec},
    }
    return {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "kube-system", "uid": name},
        "spec": {"selector": {"matchLabels": {"ds": name}}, "template": template},
    }  # fmt: skip


def daemon(name: str, at: str, **spec: Any) -> make.Object:
    """A DaemonSet's pod as its controller makes it: pinned to its node."""
    pinned = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [at]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pinned]}}}
    return make.pod(f"{name}-{at}", namespace="kube-system", node_name=at, owner=f"DaemonSet/{name}", affinity=affinity, **spec)


def static(name: str, at: str) -> make.Object:
    found = make.pod(f"{name}-{at}", namespace="kube-system", node_name=at)
    found["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    found["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": at, "uid": at, "controller": True}]
    return found


def buy(items: list[make.Object], one: Shape, zone: str = "a", count: int = 1) -> tuple[Snapshot, list[str]]:
    original = from_objects(items)
    edited = original.copy()
    return edited, bought(edited, original, one, zone, count)


def running(snapshot: Snapshot, name: str) -> list[str]:
    """Return the pods on a node: owners for DaemonSets' pods, names for others."""
    found = []
    for pod in snapshot.pods:
        if pod.spec.nodeName == name:
            owner = objects.controller_of(pod)
            found.append(owner.name if owner is not None and owner.kind == "DaemonSet" else pod.metadata.name or "")
    return found


# --- the node ---------------------------------------------------------------------------------------------------------


def test_a_node_has_the_labels_of_its_name_place_and_shape() -> None:
    one = shape(
        "m.large", labels={"pool": "x", "kubernetes.io/arch": "arm64"}, taints=(ShapeTaint("gpu", "NoSchedule"),), capacity={"cpu": 5}
    )
    found = node(one, "a", "n")
    assert found.metadata.labels == {
        "kubernetes.io/hostname": "n", _ZONE: "a", "node.kubernetes.io/instance-type": "m.large", "pool": "x",
        "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64",
    }  # fmt: skip
    assert found.spec == objects.NodeSpec(taints=[objects.Taint("gpu", "NoSchedule")])
    assert found.status is not None
    assert found.status.allocatable == {"cpu": 4, "memory": "8Gi", "pods": 110}
    assert found.status.capacity == {"cpu": 5, "memory": "8Gi", "pods": 110}


def test_labels_may_name_another_instance_type_than_the_shape_is_called() -> None:
    found = node(shape("m.spot", labels={"node.kubernetes.io/instance-type": "m"}), "a", "n").metadata.labels or {}
    assert found["node.kubernetes.io/instance-type"] == "m"


@pytest.mark.parametrize(
    ("name", "zone", "first"),
    [("m.large", "a", "m.large-a-1"), ("M_Large", "EU.1", "m-large-eu.1-1"), ("a-.-b", "z", "a.b-z-1"), ("x" * 63, "z", "x" * 55 + "-1")],
)
def test_names_are_valid_names_of_nodes(name: str, zone: str, first: str) -> None:
    edited, names = buy([], shape(name, zones=(zone,)), zone)
    assert names == [first] == [each.metadata.name for each in edited.nodes]


def test_names_are_free_ones() -> None:
    _, names = buy([make.node("m-a-1"), make.node("m-a-3")], shape(), count=3)
    assert names == ["m-a-2", "m-a-4", "m-a-5"]


def test_names_of_removed_nodes_are_not_free() -> None:
    original = from_objects([make.node("m-a-1")])
    edited = original.copy()
    edited.nodes = []
    assert bought(edited, original, shape(), "a", 1) == ["m-a-2"]


def test_the_original_is_left_as_it_is() -> None:
    original = from_objects([make.node("n"), daemon_set("net")])
    edited = original.copy()
    bought(edited, original, shape(volumes={"csi": 3}), "a", 2)
    assert (len(original.nodes), original.pods, original.csi_nodes, original.assumed) == (1, [], {}, [])
    assert (len(edited.nodes), len(edited.pods), len(edited.csi_nodes)) == (3, 2, 2)


# --- the place --------------------------------------------------------------------------------------------------------


def test_a_node_is_in_the_region_of_its_zone() -> None:
    there = [make.node("n1", labels={_ZONE: "a", _REGION: "r"}), make.node("n2", labels={_ZONE: "b", _REGION: "s"})]
    edited, _ = buy(there, shape(), "b")
    assert (edited.nodes[-1].metadata.labels or {})[_REGION] == "s"


def test_a_zone_without_nodes_is_in_the_only_region() -> None:
    edited, _ = buy([make.node("n1", labels={_ZONE: "a", _REGION: "r"})], shape(), "b")
    assert (edited.nodes[-1].metadata.labels or {})[_REGION] == "r"


def test_of_several_regions_none_is_guessed() -> None:
    there = [make.node("n1", labels={_ZONE: "a", _REGION: "r"}), make.node("n2", labels={_ZONE: "c", _REGION: "s"})]
    edited, _ = buy(there, shape(), "b")
    assert _REGION not in (edited.nodes[-1].metadata.labels or {})


def _csi(name: str, **driver: Any) -> make.Object:
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
        "spec": {"drivers": [{"name": "csi.example.com", "nodeID": name, **driver}]},
    }  # fmt: skip


@pytest.mark.parametrize(("zone", "expected"), [("a", "a"), ("b", "b")])
def test_the_topology_of_a_csi_driver_follows_the_zone(zone: str, expected: str) -> None:
    key = "topology.csi.example.com/zone"
    there = [make.node("n1", labels={_ZONE: "a", key: "a"}), _csi("n1", topologyKeys=[key])]
    edited, [name] = buy(there, shape(), zone)
    assert (edited.nodes[-1].metadata.labels or {})[key] == expected
    assert edited.csi_nodes[name].spec is not None


def test_a_topology_that_is_each_nodes_own_is_not_copied() -> None:
    key = "topology.csi.example.com/node"
    there = [make.node("n1", labels={_ZONE: "a", key: "n1"}), _csi("n1", topologyKeys=[key])]
    edited, _ = buy(there, shape(), "a")
    assert key not in (edited.nodes[-1].metadata.labels or {})


def test_volumes_of_a_shape_are_the_limits_of_its_drivers() -> None:
    edited, [name] = buy([], shape(volumes={"csi.example.com": 25}))
    spec = edited.csi_nodes[name].spec
    assert spec is not None
    assert [(d.name, d.nodeID, d.allocatable and d.allocatable.count) for d in spec.drivers or ()] == [("csi.example.com", name, 25)]
    assert not edited.assumed


def test_a_limit_that_the_shape_leaves_open_is_said_to_be_none() -> None:
    edited, [name] = buy([make.node("n1"), _csi("n1", allocatable={"count": 9})], shape())
    spec = edited.csi_nodes[name].spec
    assert spec is not None
    assert [d.allocatable for d in spec.drivers or ()] == [None]
    assert edited.assumed == ["nodes of shape m can attach any number of volumes of csi.example.com: its field volumes sets no limit"]


def test_a_node_runs_the_newest_kubelet_of_the_cluster() -> None:
    there = [make.node("n1"), make.node("n2"), make.node("n3")]
    for item, version in zip(there, ("v1.9.1", "v1.35.2", "v1.34.9"), strict=True):
        item["status"]["nodeInfo"] = {"kubeletVersion": version}
    there[1]["status"]["declaredFeatures"] = ["F"]
    edited, _ = buy(there, shape())
    status = edited.nodes[-1].status
    assert status is not None
    assert status.nodeInfo is not None
    assert (status.nodeInfo.kubeletVersion, status.declaredFeatures) == ("v1.35.2", ["F"])


# --- what runs there --------------------------------------------------------------------------------------------------


def test_daemon_sets_run_where_their_controller_lets_them() -> None:
    items = [
        daemon_set("everywhere"),
        daemon_set("tolerant", tolerations=[{"operator": "Exists"}]),
        daemon_set("ssd", nodeSelector={"disk": "ssd"}),
        daemon_set("in-b", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": _ZONE, "operator": "In", "values": ["b"]}]}]}}}),
    ]  # fmt: skip
    plain, tainted = shape(), shape("t", labels={"disk": "ssd"}, taints=(ShapeTaint("k", "NoSchedule"),))
    edited, [name] = buy(items, plain)
    assert running(edited, name) == ["everywhere", "tolerant"]
    edited, [name] = buy(items, plain, "b")
    assert running(edited, name) == ["everywhere", "tolerant", "in-b"]
    edited, [name] = buy(items, tainted)
    assert running(edited, name) == ["tolerant"]


def test_a_daemon_sets_pod_on_a_node_is_as_the_api_server_has_it() -> None:
    edited, names = buy([make.node("n1"), daemon_set("net"), daemon("net", "n1", labels={"ds": "net"})], shape(), count=2)
    pods = [pod for pod in edited.pods if pod.spec.nodeName in names]
    assert len({pod.metadata.name for pod in pods}) == 2
    for pod, name in zip(pods, names, strict=True):
        assert objects.controller_of(pod) == objects.OwnerReference("DaemonSet", "net", "apps/v1", "net", True)
        assert pod.status == objects.PodStatus(phase="Running")
        affinity = pod.spec.affinity and pod.spec.affinity.nodeAffinity
        assert affinity
        required = affinity.requiredDuringSchedulingIgnoredDuringExecution
        assert required is not None
        assert required.nodeSelectorTerms == [
            objects.NodeSelectorTerm(matchFields=[objects.NodeSelectorRequirement("metadata.name", "In", [name])])
        ]


def test_nodes_that_lack_a_daemon_sets_pod_get_none() -> None:
    edited, _ = buy([make.node("n1"), daemon_set("net")], shape())
    assert running(edited, "n1") == []


def test_a_daemon_set_of_which_there_are_only_pods_is_known_by_them() -> None:
    items = [make.node("n1"), make.node("n2"), daemon("log", "n1"), daemon("log", "n2"), daemon("ssd", "n1", selector={"disk": "ssd"})]
    items[0]["metadata"]["labels"]["disk"] = "ssd"
    edited, [name] = buy(items, shape())
    assert running(edited, name) == ["log"]
    assert not edited.assumed
    edited, [name] = buy(items, shape(labels={"disk": "ssd"}))
    assert running(edited, name) == ["log", "ssd"]


def test_where_such_pods_run_is_guessed_by_labels_and_said() -> None:
    """The controller's affinity replaces that of the pods, which allows one of two nodes only."""
    items = [make.node("n1", labels={"gpu": "yes", "x": "1"}), make.node("n2", labels={"x": "1"}), daemon("gpu", "n1")]
    edited, [name] = buy(items, shape())
    assert running(edited, name) == []
    edited, [name] = buy(items, shape(labels={"gpu": "yes"}))
    assert running(edited, name) == ["gpu"]
    assert edited.assumed == [
        "the purchased nodes that run DaemonSet kube-system/gpu are guessed from labels: the snapshot lacks the object"
    ]


def test_finished_and_leaving_daemons_tell_nothing() -> None:
    gone, leaving = daemon("gone", "n1"), daemon("leaving", "n1")
    gone["status"]["phase"] = "Succeeded"
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    edited, [name] = buy([make.node("n1"), gone, leaving], shape())
    assert running(edited, name) == []


def test_static_pods_of_every_worker_run_on_new_ones() -> None:
    control = {"node-role.kubernetes.io/control-plane": ""}
    items = [make.node("c", labels=control), make.node("w1"), make.node("w2")]
    items += [static("apiserver", "c"), static("proxy", "c"), static("proxy", "w1"), static("proxy", "w2"), static("cache", "w1")]
    edited, [name] = buy(items, shape())
    assert running(edited, name) == [f"proxy-{name}"]
    [pod] = [pod for pod in edited.pods if pod.spec.nodeName == name]
    assert pod.metadata.ownerReferences == [objects.OwnerReference("Node", name, "v1", None, True)]


def test_a_shape_that_is_too_small_for_its_daemons_is_named() -> None:
    edited, _ = buy([daemon_set("big", cpu="3"), daemon_set("bigger", cpu="2")], shape())
    assert edited.assumed == ["nodes of shape m are too small for the DaemonSet pods and static pods on each node: cpu"]


def test_a_daemon_set_of_an_unknown_priority_class_is_refused() -> None:
    with pytest.raises(InputError, match="DaemonSet kube-system/net: no PriorityClass 'vip' in the input"):
        buy([daemon_set("net", priorityClassName="vip")], shape())


def test_residents_can_be_asked_for_without_buying() -> None:
    original = from_objects([daemon_set("net", cpu="200m")])
    newcomers = Newcomers(original.copy(), original)
    found = newcomers.residents(newcomers.node(shape(), "a", "n"))
    assert [(pod.metadata.namespace, pod.spec.nodeName) for pod in found] == [("kube-system", "n")]


def test_the_policys_topologies_cover_bought_nodes_by_their_labels() -> None:
    zones = tuple(TopologyZone(f"node-{i}", {"cpu": 2, "memory": "4Gi"}) for i in range(2))
    policy = Policy(topologies=(Topology(zones, nodeLabels={"node.kubernetes.io/instance-type": "m"}),))
    edited, [name] = buy([make.node("n1")], shape())
    assert list(node_topologies(policy, edited)) == [name]
