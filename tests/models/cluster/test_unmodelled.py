"""Unmodelled fields are named, and modelled ones are not."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.cluster import unmodelled
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.gangs import gangs
from kubestow.models.kube import objects as kube_objects
from kubestow.models.kube import workload_objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.models.workloads.template import fingerprint
from tests.models.gangs.test_gangs import (
    COSCHEDULING,
    KUEUE,
    VOLCANO,
    coscheduling,
    grouped,
    member,
    native,
    own,
    queued,
    refers,
    volcano,
    workload,
)
from tests.objects import Object, node, pod


def named(*objects: Object, tiers: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    snapshot = from_objects([node("n1"), *objects])
    pending = (snapshot.pods[i] for i in select(snapshot).pending)
    return [(u.pod.removeprefix("default/"), u.field, u.effect) for u in unmodelled.find(snapshot, pending, tiers=tiers)]


def found(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    return [(u.pod.removeprefix("default/"), u.field, u.effect) for u in unmodelled.find(snapshot, snapshot.pods)]


def volcanic(name: str) -> Object:
    return member(name, {VOLCANO: "train"})


def plugged(name: str) -> Object:
    return member(name, labels={COSCHEDULING: "train"})


GANG_OF_TWO = {"gang": {"minCount": 2}}


@pytest.mark.parametrize(
    "objects",
    [
        (own("a", min_member="2", required_topology="rack"), own("b")),
        (workload("job", workers=GANG_OF_TWO), refers("a", key="0"), refers("b", key="1")),
        (native("train", schedulingPolicy=GANG_OF_TWO, schedulingConstraints={"topology": [{"key": "rack"}]}), grouped("a")),
        (native("train", schedulingPolicy={"basic": {}}), grouped("a")),
        (coscheduling("train", 2), plugged("a")),
        (volcano("train", minMember=2, networkTopology={"mode": "hard", "highestTierAllowed": 1}), volcanic("a")),
        (queued("a", podset_required_topology="rack"), queued("b", podset_required_topology="rack")),
        (queued("a", podset_unconstrained_topology="true"), queued("b")),
        (volcano("train", minMember=2, networkTopology={"highestTierAllowed": 9}), own("o", node_name="n1"), pod("b")),
    ],
)
def test_what_is_honoured_is_not_named(objects: tuple[Object, ...]) -> None:
    assert named(*objects, tiers=("rack",)) == []


@pytest.mark.parametrize(
    ("objects", "field", "effect"),
    [
        ((refers("a"),), "spec.workloadRef", "no Workload default/job in the snapshot"),
        (
            (workload("job", x={"basic": {}}), refers("a")),
            "spec.workloadRef",
            "no pod group 'workers' in Workload default/job in the snapshot",
        ),
        ((grouped("a"), volcano("train")), "spec.schedulingGroup", "no PodGroup default/train of scheduling.k8s.io in the snapshot"),
        ((plugged("a"),), f"metadata.labels[{COSCHEDULING}]", "no PodGroup default/train of scheduling.x-k8s.io in the snapshot"),
        (
            (member("a", labels={"pod-group.scheduling.sigs.k8s.io": "train"}),),
            "metadata.labels[pod-group.scheduling.sigs.k8s.io]",
            "no PodGroup default/train of scheduling.x-k8s.io in the snapshot",
        ),
        ((volcanic("a"),), f"metadata.annotations[{VOLCANO}]", "no PodGroup default/train of scheduling.volcano.sh in the snapshot"),
    ],
)
def test_a_group_without_its_object_is_named(objects: tuple[Object, ...], field: str, effect: str) -> None:
    assert named(*objects) == [("a", field, f"{effect}: all of its pods are placed, or none")]


@pytest.mark.parametrize(
    ("group", "field", "effect"),
    [
        (volcano("train", minMember=2, minResources={"cpu": 4}), "minResources", "ignored"),
        (volcano("train", minMember=2, minTaskMember={"ps": 1}), "minTaskMember", "ignored"),
        (volcano("train", minMember=2, subGroupPolicy=[{"name": "x"}]), "subGroupPolicy", "ignored"),
        (
            volcano("train", minMember=2, networkTopology={"mode": "hard", "highestTierAllowed": 2}),
            "networkTopology",
            "ignored: networkTiers of the policy has no node label for tier 2",
        ),
        (
            volcano("train", minMember=2, networkTopology={"highestTierName": "spine"}),
            "networkTopology",
            "ignored: tiers are read by number, not by name (spine)",
        ),
    ],
)
def test_what_is_ignored_of_a_pod_group_is_named_for_each_pod(group: Object, field: str, effect: str) -> None:
    where = f"PodGroup default/train: spec.{field}"
    assert named(group, volcanic("a"), volcanic("b"), pod("c"), tiers=("rack",)) == [("a", where, effect), ("b", where, effect)]


def test_a_parent_group_and_a_second_topology_are_named() -> None:
    constraints = {"topology": [{"key": "rack"}, {"key": "zone"}]}
    group = native("train", schedulingPolicy=GANG_OF_TWO, schedulingConstraints=constraints, parentCompositePodGroupName="all")
    assert [(field, effect) for _, field, effect in named(group, grouped("a"))] == [
        ("PodGroup default/train: spec.parentCompositePodGroupName", "ignored"),
        ("PodGroup default/train: spec.schedulingConstraints.topology", "ignored except for the first"),
    ]


def test_a_topology_that_an_own_annotation_replaces_is_not_named() -> None:
    group = volcano("train", minMember=2, networkTopology={"highestTierAllowed": 5})
    assert named(group, member("a", {VOLCANO: "train", "kubestow.dev/required-topology": "rack"}), volcanic("b")) == []


def test_a_topology_of_parts_of_a_gang_is_named_where_it_is_asked_for() -> None:
    effect = "ignored: it applies to parts of the gang, and only a topology of the whole gang is honoured"
    expected = ("a", f"metadata.annotations[{KUEUE}/podset-required-topology]", effect)
    assert named(queued("a", podset_required_topology="rack"), queued("b")) == [expected]


def test_kueues_topology_of_slices_is_named() -> None:
    pods = [queued(name, podset_slice_required_topology="rack", podset_slice_size="2") for name in "ab"]
    fields = [f"metadata.annotations[{KUEUE}/podset-slice-{key}]" for key in ("required-topology", "size")]
    assert named(*pods) == [(name, field, "ignored") for name in "ab" for field in fields]


def test_a_total_count_that_is_no_count_is_named() -> None:
    effect = "got 'many', expected a whole number of at least 1: all of its pods are placed, or none"
    assert named(queued("a", "many")) == [("a", f"metadata.annotations[{KUEUE}/pod-group-total-count]", effect)]


def test_a_pod_set_group_across_own_gangs_is_named() -> None:
    effect = "ignored: kubestow.dev/gang defines the gang"
    found = named(member("a", {"kubestow.dev/gang": "g", f"{KUEUE}/podset-group-name": "all"}))
    assert found == [("a", f"metadata.annotations[{KUEUE}/podset-group-name]", effect)]


@pytest.mark.parametrize("annotation", ["kubestow.dev/min-member", "kubestow.dev/required-topology", f"{KUEUE}/podset-preferred-topology"])
def test_annotations_of_a_gang_on_a_pod_of_none_are_named(annotation: str) -> None:
    assert named(member("a", {annotation: "2"})) == [("a", f"metadata.annotations[{annotation}]", "ignored: the pod names no gang")]


def test_volcanos_annotations_are_named_where_they_are_not_honoured() -> None:
    annotations = {gangs.GANG: "g", "volcano.sh/network-topology-mode": "hard", "volcano.sh/network-topology-highest-tier": "2"}
    pods = [kube_objects.Pod(kube_objects.ObjectMeta(name="a", annotations=annotations), kube_objects.PodSpec())]
    (found,) = unmodelled.find(Snapshot(pods=pods), pods, tiers=("rack",))
    assert found.field == "metadata.annotations[volcano.sh/network-topology-mode]"
    assert found.effect == "ignored: networkTiers of the policy has no node label for tier 2"
    assert unmodelled.find(Snapshot(pods=pods), pods, tiers=("rack", "row")) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"schedulerName": "volcano"}, "spec.schedulerName"),
        ({"volumes": [{"name": "v", "rbd": {}}]}, "spec.volumes[0].rbd"),
    ],
)
def test_other_fields_of_pods_are_named(spec: Any, field: str) -> None:
    assert [entry[:2] for entry in named(pod("a", **spec))] == [("a", field)]
    assert named(pod("a", node_name="n1", **spec)) == []


def test_provisioned_claims_are_named() -> None:
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "csi.example.com"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}
    using = pod("a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    assert named(storage | {"volumeBindingMode": "WaitForFirstConsumer"}, claim, using) == [
        ("a", "claim default/data", "CSIStorageCapacity is ignored")
    ]
    assert named(storage | {"volumeBindingMode": "Immediate"}, claim, using) == []


def test_devices_are_named_where_no_library_evaluates_selectors(monkeypatch: pytest.MonkeyPatch) -> None:
    named_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    selected = {**named_class, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu'"}}]}}
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    }  # fmt: skip
    using = pod("a", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
    assert named(selected, claim, using) == []
    monkeypatch.setattr("kubestow.models.cel.selectors.available", lambda: False)
    assert [entry[:2] for entry in named(selected, claim, using)] == [("a", "devices")]
    assert named(named_class, claim, using) == []


@pytest.mark.parametrize("key", ["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"])
def test_shares_of_gpus_are_named_unless_the_policy_has_them_read(key: str) -> None:
    asking = pod("p")
    asking["metadata"]["annotations"] = {key: "1"}
    snapshot = from_objects([asking])
    assert found(snapshot) == [("p", f"metadata.annotations[{key}]", "ignored: the policy's sharedGPUs is not kai")]
    snapshot.shared_gpus = "hami"
    assert len(found(snapshot)) == 1
    snapshot.shared_gpus = "kai"
    assert found(snapshot) == []


def test_a_label_by_which_kubelets_refuse_pods_is_named() -> None:
    snapshot = from_objects([pod("p", labels={"kubernetes.io/os": "linux"})])
    effect = "ignored: a kubelet of another operating system refuses the pod"
    assert found(snapshot) == [("p", "metadata.labels[kubernetes.io/os]", effect)]


@pytest.mark.parametrize("gate", ["CompositePodGroup", "PodGroupPreemptionPolicy"])
def test_gates_that_change_what_a_pod_group_means_are_named(gate: str) -> None:
    snapshot = from_objects([node("n1"), native("train", schedulingPolicy=GANG_OF_TWO), grouped("a"), pod("b")])
    snapshot.gates = FeatureGates("1.37", ((gate, True),))
    found = unmodelled.find(snapshot, snapshot.pods)
    assert [(each.pod, each.field) for each in found] == [("default/a", "spec.schedulingGroup")]


@pytest.mark.parametrize(
    ("slice_more", "device_more", "derives", "words"),
    [
        ({}, {}, False, []),
        ({"skipNodeOperations": ["*"]}, {}, False, ["skipNodeOperations of slices is ignored"]),
        ({}, {"consumesCounters": [{"counterSet": "c", "compatibilityGroups": ["a"]}]}, False, ["compatibilityGroups of devices"]),
        ({}, {}, True, ["derivedAttributes are ignored"]),
    ],
)
def test_fields_of_devices_that_1_37_brought_are_named(slice_more: Object, device_more: Object, derives: bool, words: list[str]) -> None:
    api, driver = "resource.k8s.io/v1", "gpu.example.com"
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    exactly = {"deviceClassName": "gpu", **({"derivedAttributes": [{"name": "a"}]} if derives else {})}
    listed = [
        {"apiVersion": api, "kind": "ResourceSlice", "metadata": {"name": "s"},
         "spec": {"driver": driver, "nodeName": "n1", "pool": pool, "devices": [{"name": "d", **device_more}], **slice_more}},
        {"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}},
        {"apiVersion": api, "kind": "ResourceClaim", "metadata": {"name": "c"},
         "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}},
    ]  # fmt: skip
    claiming = pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    extended = pod("e", containers=[{"name": "a", "image": "i", "resources": {"limits": {"example.com/gpu": "1"}}}])
    found = named(*listed, claiming, extended, pod("q"))
    assert [(name, field) for name, field, _ in found if name == "p"] == [("p", "spec.resourceClaims")] * len(words)
    assert [(name, field) for name, field, _ in found if name == "e"] == [("e", "devices")] * (len(words) - derives)
    assert all(effect.startswith(word) for (_, _, effect), word in zip(found, words, strict=False))
    assert "q" not in {name for name, _, _ in found}


@pytest.mark.parametrize(
    ("context", "field"),
    [
        ({"sysctls": [{"name": "net.core.somaxconn", "value": "1024"}]}, "sysctls"),
        ({"sysctls": [{"name": "kernel/msgmax", "value": "1"}, {"name": "net.ipv4.tcp_syncookies", "value": "1"}]}, "sysctls"),
        ({"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}, {"name": "net/ipv4/tcp_rmem", "value": "1"}]}, None),
        ({"supplementalGroupsPolicy": "Strict"}, "supplementalGroupsPolicy"),
        ({"supplementalGroupsPolicy": "Merge"}, None),
        ({"appArmorProfile": {"type": "RuntimeDefault"}}, "appArmorProfile"),
        ({"appArmorProfile": {"type": "Unconfined"}}, None),
        ({"fsGroup": 1000, "runAsUser": 1000}, None),
    ],
)
def test_what_a_kubelet_may_refuse_a_pod_for_is_named(context: Object, field: str | None) -> None:
    found = [each[1] for each in named(pod("a", securityContext=context))]
    assert found == ([] if field is None else [f"spec.securityContext.{field}"])


def test_what_only_the_kubelet_reads_tells_no_pods_apart() -> None:
    """Admission plugins fill security contexts in, each pod's its own."""
    plain, strict = pod("a"), pod("b", securityContext={"supplementalGroupsPolicy": "Strict"})
    snapshot = from_objects([node("n1"), plain, strict])
    specs = [workload_objects.PodTemplateSpec(spec=each.spec) for each in snapshot.pods]
    assert fingerprint(specs[0]) == fingerprint(specs[1])
    cluster = compile_cluster(snapshot, select(snapshot))
    assert cluster.count.tolist() == [2]
