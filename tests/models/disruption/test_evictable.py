"""Which running pods a plan leaves where they are: every reason, and their order."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.disruption.evictable import exclusions
from kubestow.models.kube import objects as kube_objects
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.objects import Object, node, pod

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
EVICT = "descheduler.alpha.kubernetes.io/evict"
LOCAL: list[Object] = [{"name": "scratch", "emptyDir": {}}]


def running(name: str, *, annotations: dict[str, str] | None = None, owner: str | None = "ReplicaSet/web", **fields: Any) -> Object:
    made = pod(name, node_name=fields.pop("node_name", "n"), owner=owner, **fields)
    made["metadata"]["annotations"] = annotations or {}
    return made


def leaving(made: Object) -> Object:
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


def cluster(*objects: Object) -> Snapshot:
    return from_objects([node("n"), *objects])


def reason(made: Object, *also_move: str) -> str | None:
    return exclusions(cluster(made), also_move).get(0)


def budget(name: str, available: int = 0, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default"}
    spec |= {"selector": {}, "minAvailable": available}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("owner", ["ReplicaSet/a", "ReplicationController/a", "StatefulSet/a", "Job/a"])
def test_pods_that_are_replaced_may_move(owner: str) -> None:
    assert reason(running("p", owner=owner)) is None


def test_pods_that_do_not_run_here_are_no_subject() -> None:
    over = running("over", owner=None)
    over["status"]["phase"] = "Failed"
    assert exclusions(cluster(pod("pending"), over, running("away", owner=None, node_name="gone"))) == {}


def test_terminating() -> None:
    assert reason(leaving(running("p"))) == "terminating"


def test_mirror() -> None:
    assert reason(running("p", owner="Node/n")) == "mirror"
    assert reason(running("p", annotations={"kubernetes.io/config.mirror": "x"})) == "mirror"


def test_daemonset() -> None:
    assert reason(running("p", owner="DaemonSet/d")) == "daemonset"


@pytest.mark.parametrize(
    ("key", "value", "stays"),
    [
        (SAFE, "false", True),
        (SAFE, "true", False),
        ("karpenter.sh/do-not-disrupt", "true", True),
        ("karpenter.sh/do-not-disrupt", "false", False),
        ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "true", True),
        ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "", True),
    ],
)
def test_do_not_disrupt(key: str, value: str, stays: bool) -> None:
    assert reason(running("p", annotations={key: value})) == ("do-not-disrupt" if stays else None)


def test_bare() -> None:
    assert reason(running("p", owner=None)) == "bare"
    assert reason(running("p", owner=None), "local-storage") == "bare"
    assert reason(running("p", owner=None), "bare") is None
    assert reason(running("p", owner=None, annotations={EVICT: "true"})) is None


def test_an_owner_that_does_not_control_leaves_a_pod_bare() -> None:
    made = running("p")
    made["metadata"]["ownerReferences"][0]["controller"] = False
    assert reason(made) == "bare"


def test_owner() -> None:
    assert reason(running("p", owner="Etcd/e")) == "owner"
    assert reason(running("p", owner="Etcd/e"), "bare", "local-storage") == "owner"


@pytest.mark.parametrize(
    ("volumes", "stays"),
    [
        (LOCAL, True),
        ([{"name": "h", "hostPath": {"path": "/data"}}], True),
        ([{"name": "c", "configMap": {"name": "x"}}, {"name": "d", "persistentVolumeClaim": {"claimName": "x"}}], False),
    ],
)
def test_local_storage(volumes: list[Object], stays: bool) -> None:
    assert reason(running("p", volumes=volumes)) == ("local-storage" if stays else None)
    assert reason(running("p", volumes=volumes), "local-storage") is None


def claim(owner: Object | None = None) -> Object:
    metadata: Object = {"name": "c", "namespace": "default"}
    if owner is not None:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True, **owner}]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": {}}}


def test_devices() -> None:
    assert reason(running("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])) == "devices"
    assert reason(running("p", volumes=LOCAL, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])) == "local-storage"


@pytest.mark.parametrize(("owner", "stays"), [({"uid": "u"}, True), ({"uid": "v"}, False), ({"uid": "u", "controller": False}, False)])
def test_devices_of_claims_that_the_spec_does_not_name(owner: Object, stays: bool) -> None:
    """As for extended resources that a DeviceClass backs."""
    made = running("p")
    made["metadata"]["uid"] = "u"
    assert exclusions(cluster(made, claim(owner))).get(0) == ("devices" if stays else None)
    assert exclusions(cluster(made, claim())) == {}


def test_local_storage_that_its_owner_gives_up() -> None:
    assert reason(running("p", volumes=LOCAL, annotations={SAFE: "true"})) is None
    assert reason(running("p", volumes=LOCAL, annotations={EVICT: ""})) is None


@pytest.mark.parametrize(("medium", "stays"), [("", True), ("HugePages-2Mi", True), ("Memory", False)])
def test_memory_is_no_local_storage(medium: str, stays: bool) -> None:
    snapshot = cluster(running("p"))
    snapshot.pods[0].spec.volumes = [kube_objects.Volume("m", emptyDir=kube_objects.EmptyDirVolumeSource(medium))]
    assert exclusions(snapshot) == ({0: "local-storage"} if stays else {})


def gang(name: str, **annotations: str) -> Object:
    keys = {f"kubestow.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return running(name, owner="Job/j", annotations={"kubestow.dev/gang": "train", **keys})


def test_gangs_that_need_more_than_one() -> None:
    assert exclusions(cluster(gang("a"), gang("b"), running("c"))) == {0: "gang", 1: "gang"}
    assert exclusions(cluster(gang("a", min_member="2"), gang("b"), gang("c"))) == {0: "gang", 1: "gang", 2: "gang"}
    assert exclusions(cluster(gang("a", min_member="1"), gang("b", min_member="1"))) == {}
    assert exclusions(cluster(gang("a"))) == {}


def test_gangs_of_other_dialects() -> None:
    spec = {"minMember": 2}
    metadata = {"name": "train", "namespace": "default"}
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    pods = [running(n, labels={"scheduling.x-k8s.io/pod-group": "train"}) for n in ("a", "b")]
    assert exclusions(cluster(*pods, group)) == {0: "gang", 1: "gang"}
    assert exclusions(cluster(*pods, {**group, "spec": {"minMember": 1}})) == {}


def test_members_that_wait_belong_and_those_that_leave_do_not() -> None:
    waiting = gang("b")
    del waiting["spec"]["nodeName"]
    assert exclusions(cluster(gang("a"), waiting)) == {0: "gang"}
    assert exclusions(cluster(gang("a"), leaving(gang("b")))) == {1: "terminating"}


def test_gangs_that_keep_to_one_domain() -> None:
    zone = "topology.kubernetes.io/zone"
    assert exclusions(cluster(*(gang(n, min_member="1", required_topology=zone) for n in "ab"))) == {0: "gang", 1: "gang"}
    assert exclusions(cluster(*(gang(n, min_member="1", preferred_topology=zone) for n in "ab"))) == {}


def test_a_gang_that_cannot_be_read_stays_together() -> None:
    assert exclusions(cluster(gang("a", min_member="some"), gang("b"))) == {0: "gang", 1: "gang"}


def starting(name: str) -> Object:
    made = running(name)
    made["status"]["phase"] = "Pending"  # the Eviction API looks at no budget
    return made


def test_several_budgets() -> None:
    assert exclusions(cluster(running("a"), starting("b"), budget("one"))) == {}
    assert exclusions(cluster(running("a"), starting("b"), budget("one"), budget("two"))) == {0: "budgets"}


def test_a_budget_that_allows_nothing() -> None:
    assert exclusions(cluster(running("a"), running("b"), starting("c"), budget("one", 1))) == {}
    assert exclusions(cluster(running("a"), running("b"), starting("c"), budget("one", 2))) == {0: "budgets", 1: "budgets"}
    sick = running("sick")
    sick["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert exclusions(cluster(running("a"), sick, budget("one", 9))) == {0: "budgets", 1: "budgets"}
    assert exclusions(cluster(running("a"), sick, budget("one", 9, unhealthyPodEvictionPolicy="AlwaysAllow"))) == {0: "budgets"}


def test_the_first_reason_is_given() -> None:
    """Each pod has the reasons from its own place on; all of the last four are shared by the whole chain."""
    stay = {SAFE: "false"}
    in_gang = {"kubestow.dev/gang": "train"}
    pods = [
        leaving(running("terminating", owner="Node/n", annotations=stay, volumes=LOCAL)),
        running("mirror", owner="DaemonSet/d", annotations={"kubernetes.io/config.mirror": "x", **stay}, volumes=LOCAL),
        running("daemonset", owner="DaemonSet/d", annotations=stay, volumes=LOCAL),
        running("disrupt", owner=None, annotations={**stay, **in_gang}, volumes=LOCAL),
        running("bare", owner=None, annotations=in_gang, volumes=LOCAL),
        running("owner", owner="Etcd/e", annotations=in_gang, volumes=LOCAL),
        running("gang", annotations=in_gang, volumes=LOCAL),
        running("local", volumes=LOCAL),
        running("budgets"),
    ]
    expected = ["terminating", "mirror", "daemonset", "do-not-disrupt", "bare", "owner", "gang", "local-storage", "budgets"]
    assert list(exclusions(cluster(*pods, budget("one"), budget("two"))).values()) == expected
