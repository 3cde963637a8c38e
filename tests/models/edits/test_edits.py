"""What-if edits: added and removed nodes, replicas, and messages about bad edits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.placement import Edits
from kubestow.models.edits.edits import apply, describe
from kubestow.models.gangs.gangs import GANG
from kubestow.models.kube import objects as kube_objects
from kubestow.models.kube import topology_objects
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from tests.models.workloads.test_workloads import names, owner, storage, template, workload
from tests.objects import node, pod

Object = dict[str, Any]


def edited(objects: list[Object], manifests: list[Object] | None = None, **edits: Any) -> Snapshot:
    snapshot = from_objects(objects)
    before = msgspec.json.encode((snapshot.nodes, snapshot.pods))
    found = apply(snapshot, None if manifests is None else from_objects(manifests, manifests=True), Edits(**edits)).snapshot
    assert msgspec.json.encode((snapshot.nodes, snapshot.pods)) == before, "the input is not changed"
    assert len({kube_objects.pod_key(p) for p in found.pods}) == len(found.pods)
    compile_cluster(found, select(found))
    return found


def problems(objects: list[Object], manifests: list[Object] | None = None, **edits: Any) -> list[str]:
    with pytest.raises(InputError) as error:
        edited(objects, manifests, **edits)
    assert all("\n" not in line for line in error.value.problems)
    return error.value.problems


def mirror(name: str, at: str) -> Object:
    found = pod(f"{name}-{at}", namespace="kube-system", owner=f"Node/{at}", node_name=at)
    found["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    return found


CLUSTER = [node("a", labels={"zone": "1"}), node("b", labels={"zone": "1"}), node("c", labels={"zone": "2"})]


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_no_edits_change_nothing() -> None:
    objects = [*CLUSTER, pod("p", node_name="a")]
    found = edited(objects)
    assert found == from_objects(objects)


def test_added_nodes_are_like_the_other_and_empty() -> None:
    taints = [
        {"key": "dedicated", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    ]
    like = node("a", cpu="7", labels={"zone": "1", "csi.example.org/node": "a"}, unschedulable=True, taints=taints)
    daemon = pod("ds-aaaaa", owner="DaemonSet/ds", node_name="a", labels={"app": "ds"})
    daemon["metadata"]["generateName"] = "ds-"
    daemon["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "tmp", "emptyDir": {}}]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
    daemon["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    others = [mirror("proxy", "a"), pod("web", owner="ReplicaSet/web", node_name="a"), node("a-added-1")]
    csi = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": [{"name": "d"}]}}
    resources = [{"name": "cpu", "capacity": "7", "allocatable": "7", "available": "1"}]
    zones = [{"name": "node-0", "type": "Node", "resources": resources}]
    nrt = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": "a"}, "zones": zones}
    found = edited([like, daemon, *others, csi, nrt], addNodes=["2:a"])
    made = {n.metadata.name: n for n in found.nodes}
    assert list(made) == ["a", "a-added-1", "a-added-2", "a-added-3"]
    clone = made["a-added-3"]
    assert clone.metadata.labels == {"kubernetes.io/hostname": "a-added-3", "zone": "1", "csi.example.org/node": "a-added-3"}
    assert clone.spec is not None
    assert clone.spec.unschedulable is None
    assert [t.key for t in clone.spec.taints or ()] == ["dedicated"]
    assert clone.status is not None
    assert (clone.status.allocatable or {})["cpu"] == "7"
    assert made["a"].spec is not None
    assert made["a"].spec.unschedulable
    assert set(found.csi_nodes) == set(found.node_topologies) == {"a", "a-added-2", "a-added-3"}
    assert (found.node_topologies["a-added-2"].zones or [])[0].resources == [topology_objects.TopologyResource("cpu", "7", "7", "7")]
    here = {owner(p).kind: p for p in found.pods if p.spec.nodeName == "a-added-2"}
    assert set(here) == {"DaemonSet", "Node"}
    assert here["Node"].metadata.name == "proxy-a-added-2"
    assert owner(here["Node"]).name == "a-added-2"
    assert [v.name for v in here["DaemonSet"].spec.volumes or ()] == ["tmp"]
    affinity = here["DaemonSet"].spec.affinity
    assert affinity is not None
    assert b"a-added-2" in msgspec.json.encode(affinity)
    assert len(found.pods) == 3 + 2 * 2


@pytest.mark.parametrize(
    "edits", [{"removeNodes": ["a", "b"]}, {"removeDomains": ["zone=1"]}, {"removeNodes": ["a"], "removeDomains": ["zone=1"]}]
)
def test_removed_nodes_take_their_own_pods_along(edits: Object) -> None:
    leaving = pod("leaving", owner="ReplicaSet/web", node_name="a")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    objects = [
        *CLUSTER,
        pod("rs", owner="ReplicaSet/web", node_name="a"),
        pod("sts", owner="StatefulSet/db", node_name="b"),
        pod("job", owner="Job/j", node_name="b"),
        pod("ds", owner="DaemonSet/ds", node_name="a"),
        mirror("proxy", "a"),
        pod("bare", node_name="a"),
        pod("operated", owner="Operator/o", node_name="b"),
        pod("stays", node_name="c"),
        pod("waits"),
        leaving,
    ]
    found = edited(objects, **edits)
    assert [n.metadata.name for n in found.nodes] == ["c"]
    assert names(found.pods) == ["rs", "sts", "job", "stays", "waits"]
    assert [p.spec.nodeName for p in found.pods] == [None, None, None, "c", None]
    assert found.pods[0].status is None
    assert found.warnings == ["2 pods that no controller replaces go with the removed nodes: default/bare, default/operated"]
    assert select(found).pending == [0, 1, 2, 4]


def test_pods_of_removed_nodes_are_rehoused_where_asked_even_from_all_nodes() -> None:
    leaving = pod("leaving", node_name="b")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    own = [pod("ds", owner="DaemonSet/ds", node_name="a"), mirror("proxy", "a"), leaving]
    objects = [*CLUSTER, pod("rs", owner="ReplicaSet/web", node_name="a"), pod("bare", node_name="b"), *own]
    found = edited(objects, removeNodes=["a", "b", "c"], rehouse=True)
    assert (found.nodes, names(found.pods), found.warnings) == ([], ["rs", "bare"], [])
    assert select(found).pending == [0, 1]


def test_a_clone_stays_in_its_zone_even_if_the_node_is_called_like_it() -> None:
    zone = "topology.kubernetes.io/zone"
    found = edited([node("east", labels={zone: "east", "rack": "east"})], addNodes=["1:east"])
    labels = found.nodes[1].metadata.labels or {}
    assert (labels[zone], labels["rack"], labels["kubernetes.io/hostname"]) == ("east", "east-added-1", "east-added-1")


def test_a_clone_can_have_other_labels() -> None:
    found = edited([node("a", labels={"zone": "1", "disk": "ssd"})], addNodes=["2:a,zone=2,rack="])
    expected = {"zone": "2", "disk": "ssd", "rack": ""}
    assert [n.metadata.labels for n in found.nodes[1:]] == [{"kubernetes.io/hostname": f"a-added-{i}", **expected} for i in (1, 2)]
    assert found.nodes[0].metadata.labels == {"kubernetes.io/hostname": "a", "zone": "1", "disk": "ssd"}


def test_clones_of_a_removed_node_stay() -> None:
    found = edited([*CLUSTER, pod("rs", owner="ReplicaSet/web", node_name="a")], addNodes=["2:a"], removeDomains=["zone=1"])
    assert [n.metadata.name for n in found.nodes] == ["c", "a-added-1", "a-added-2"]


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ({"addNodes": ["2:x"]}, "--add-nodes '2:x': no node 'x' in the snapshot"),
        ({"addNodes": ["a"]}, "--add-nodes 'a': expected N:LIKE_NODE, N a whole number within 1..100000"),
        ({"addNodes": ["0:a"]}, "--add-nodes '0:a': expected N:LIKE_NODE, N a whole number within 1..100000"),
        ({"addNodes": ["-1:a"]}, "--add-nodes '-1:a': expected N:LIKE_NODE, N a whole number within 1..100000"),
        ({"addNodes": ["1:a,zone"]}, "--add-nodes '1:a,zone': expected KEY=VALUE of a node label after each comma"),
        ({"addNodes": ["99999999999:a"]}, "--add-nodes '99999999999:a': expected N:LIKE_NODE, N a whole number within 1..100000"),
        ({"removeNodes": ["x"]}, "--remove-node 'x': no such node in the snapshot"),
        ({"removeDomains": ["zone"]}, "--remove-domain 'zone': expected KEY=VALUE of a node label"),
        ({"removeDomains": ["zone=9"]}, "--remove-domain 'zone=9': no node of the snapshot has this label"),
        ({"removeNodes": ["a", "b", "c"]}, "--remove-node, --remove-domain: no node of the snapshot is left, expected at least one"),
        ({"replicas": ["web"]}, "--replicas 'web': expected NAME=N, N a whole number within 0..1000000"),
        ({"replicas": ["web=-1"]}, "--replicas 'web=-1': expected NAME=N, N a whole number within 0..1000000"),
        ({"replicas": ["web=1.5"]}, "--replicas 'web=1.5': expected NAME=N, N a whole number within 0..1000000"),
        ({"replicas": ["api=1"]}, "--replicas: workload 'api': no such workload in the input"),
        (
            {"replicas": ["web=1"]},
            "--replicas: workload 'web': is ambiguous, expected one of Deployment/default/web, StatefulSet/default/web",
        ),
        ({"replicas": ["ds=1"]}, "--replicas: workload 'ds': a DaemonSet cannot be scaled, it has a pod per node"),
        (
            {"replicas": ["sts/web=1", "StatefulSet/web=2"]},
            "--replicas: workload 'StatefulSet/web': is given twice, expected each workload once",
        ),
    ],
)
def test_bad_edits(edits: Object, message: str) -> None:
    objects = [*CLUSTER, workload("Deployment"), workload("DaemonSet", "ds")]
    assert problems(objects, [workload("StatefulSet")], **edits) == [message]


def test_all_problems_are_told() -> None:
    assert len(problems(CLUSTER, addNodes=["x"], removeNodes=["x"], removeDomains=["x"], replicas=["x", "y=1"])) == 5


# --- replicas ---------------------------------------------------------------------------------------------------------


def running(name: str, at: str | None, born: int = 0, kind: str = "ReplicaSet") -> Object:
    found = pod(name, owner=f"{kind}/web", node_name=at, labels={"app": "web"})
    found["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{born:02}Z"
    return found


def test_a_workload_of_the_snapshot_is_topped_up_without_a_gang() -> None:
    found = edited([*CLUSTER, workload("ReplicaSet", replicas=1), running("web-a", "a")], replicas=["web=3"])
    assert len(found.pods) == 3
    assert all(GANG not in (p.metadata.annotations or {}) for p in found.pods)
    assert found.workloads["ReplicaSet"][0].spec.replicas == 3
    assert found.sha256 == from_objects([*CLUSTER, workload("ReplicaSet", replicas=1), running("web-a", "a")]).sha256


def test_a_stateful_set_grows_with_its_claims() -> None:
    manifest = workload("StatefulSet", replicas=1, volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {}}])
    found = edited(
        [*CLUSTER, manifest, running("web-0", "a", kind="StatefulSet"), storage("s", "WaitForFirstConsumer", default=True)],
        replicas=["web=2"],
    )
    assert names(found.pods) == ["web-0", "web-1"]
    assert set(found.persistent_volume_claims) == {"default/data-web-1"}


def test_surplus_goes_as_a_replica_set_would_have_it() -> None:
    pods = [running("p1", "a", 1), running("p2", "a", 3), running("p3", "a", 2), running("p4", "b", 9), running("p5", None, 0)]
    objects = [*CLUSTER, workload("ReplicaSet", replicas=5), *pods, pod("other", node_name="a")]
    remaining = [names(edited(objects, replicas=[f"web={n}"]).pods) for n in (4, 3, 2, 1, 0)]
    assert remaining == [
        ["p1", "p2", "p3", "p4", "other"],  # no node
        ["p1", "p3", "p4", "other"],  # the youngest where most are
        ["p1", "p4", "other"],
        ["p4", "other"],
        ["other"],
    ]


def test_a_stateful_set_loses_its_highest_ordinals() -> None:
    pods = [running(f"web-{i}", "a" if i != 1 else None, kind="StatefulSet") for i in (0, 1, 2, 10)]
    found = edited([*CLUSTER, workload("StatefulSet", replicas=11), *pods], replicas=["statefulset/default/web=2"])
    assert names(found.pods) == ["web-0", "web-1"]


def test_replicas_of_manifests_are_part_of_their_gang() -> None:
    found = edited(CLUSTER, [workload("Deployment", replicas=1)], replicas=["deploy/web=3"])
    assert [(p.metadata.annotations or {}).get(GANG) for p in found.pods] == ["web"] * 3
    none = edited(CLUSTER, [workload("Deployment", replicas=3)], replicas=["web=0"])
    assert not none.pods
    objects = [*CLUSTER, *(running(f"p{i}", "a", i) for i in range(3))]
    less = edited(objects, [workload("ReplicaSet", replicas=5)], replicas=["web=1"])
    assert names(less.pods) == ["p0"]
    assert not less.warnings


@pytest.mark.parametrize("kind", ["Job", "CronJob", "PodTemplate", "ReplicationController", "Deployment"])
def test_every_kind_that_has_numbers_can_be_scaled(kind: str) -> None:
    assert len(edited(CLUSTER, [workload(kind)], replicas=["web=4"]).pods) == 4
    assert len(edited([*CLUSTER, workload(kind)], replicas=["web=4"]).pods) == 4


def test_order_nodes_then_manifests_then_replicas() -> None:
    found = edited(
        CLUSTER, [workload("DaemonSet", "ds", of=template({"app": "ds"})), workload("Deployment")], addNodes=["2:a"], removeNodes=["c"]
    )
    assert Counter(owner(p).kind for p in found.pods) == {"DaemonSet": 4, "ReplicaSet": 1}


def test_near_names_are_suggested() -> None:
    objects = [node("worker"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "storage"}}]
    assert problems(objects, removeNodes=["wroker"]) == ["--remove-node 'wroker': no such node in the snapshot; did you mean worker?"]
    for name, said in (("sotrage", ["-n sotrage: no such namespace in the snapshot; did you mean storage?"]), ("new", [])):
        assert edited(objects, [workload("Deployment")], namespace=name).warnings == said


def test_names_and_hash_of_the_result() -> None:
    snapshot, manifests = from_objects(CLUSTER), from_objects([workload("Deployment")], manifests=True)
    expansion = apply(snapshot, manifests, Edits(removeNodes=["a"]))
    assert expansion.workloads == ["Deployment default/web"]
    assert expansion.snapshot.sha256 == apply(snapshot, manifests, Edits()).snapshot.sha256
    assert expansion.snapshot.sha256 not in (snapshot.sha256, manifests.sha256)


def test_edits_in_words() -> None:
    edits = Edits(
        addNodes=["2:a", "1:b,zone=2,rack=x"], removeNodes=["c"], removeDomains=["zone=1"], replicas=["deploy/web=1", "db=0"], partial=True
    )
    assert describe(edits) == [
        "without node c",
        "without the nodes labelled zone=1",
        "with 2 more nodes like a",
        "with 1 more node like b with zone=2, rack=x",
        "manifests may be placed in part",
        "with 1 replica of deploy/web",
        "with 0 replicas of db",
    ]
    assert describe(Edits()) == []
