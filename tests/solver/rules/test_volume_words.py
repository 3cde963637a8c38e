"""The states of claims and volumes in words."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.rules.volumes.claim_words import details, is_first, reason, where
from tests.objects import Object, node, pod


def storage_class(name: str, provisioner: str = "disk.example.com", mode: str = "WaitForFirstConsumer", **more: Any) -> Object:
    kind: Object = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    return {**kind, "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def claim(name: str = "data", of: str | None = "disk", **more: Any) -> Object:
    metadata: Object = {"name": name, "namespace": "default", **more.pop("metadata", {})}
    status = more.pop("status", {"phase": "Pending"})
    spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}, **more}
    if of is not None:
        spec["storageClassName"] = of
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": status}


def volume(name: str, of: str = "disk", phase: str = "Available", size: str = "10Gi", **more: Any) -> Object:
    spec = {"storageClassName": of, "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **more}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}


def compiled(*objects: Object, mounts: Object | None = None) -> Cluster:
    volumes = [{"name": "v", **(mounts or {"persistentVolumeClaim": {"claimName": "data"}})}]
    snapshot = from_objects([node("a"), node("b"), pod("p", volumes=volumes), *objects])
    return compile_cluster(snapshot, select(snapshot))


def only_at(host: str) -> Object:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


LOCAL = storage_class("local", "kubernetes.io/no-provisioner")


@pytest.mark.parametrize(
    ("objects", "words", "first"),
    [
        ([], "claim default/data does not exist", True),
        ([claim("date")], "claim default/data does not exist: did you mean date (not bound)?", True),
        ([claim(metadata={"namespace": "prod"})], "claim default/data does not exist in this namespace, only in prod", True),
        (
            [claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), storage_class("disk")],
            "claim default/data is being deleted",
            True,
        ),
        ([claim(volumeName="v", status={"phase": "Lost"}), volume("v")], "claim default/data has lost its volume v", True),
        (
            [claim(of="dusk"), storage_class("disk")],
            "claim default/data is not bound, and its StorageClass dusk does not exist: did you mean disk (0 claims)?; "
            "kube-scheduler does nothing until it is bound",
            True,
        ),
        (
            [claim(of=""), volume("v", "", size="5Gi")],
            "claim default/data waits for a PersistentVolume without a class (claim default/data asks for 10Gi; the largest free volume "
            "without a class is v, 5Gi); kube-scheduler does nothing until it is bound",
            True,
        ),
        (
            [claim(of="by-hand"), storage_class("by-hand", "kubernetes.io/no-provisioner", "Immediate")],
            "claim default/data waits for a PersistentVolume of class by-hand, which provisions none; "
            "kube-scheduler does nothing until it is bound",
            True,
        ),
        (
            [claim(metadata={"annotations": {"volume.kubernetes.io/selected-node": "b"}}), storage_class("disk")],
            "the volume of claim default/data is being created for node b",
            False,
        ),
        ([claim(), storage_class("disk")], "claim default/data is not bound yet and needs a new volume", False),
        (
            [claim(), storage_class("disk"), volume("v")],
            "claim default/data is not bound yet and needs the volume v, or a new volume",
            False,
        ),
        (
            [claim(), storage_class("disk"), *(volume(f"v{i}", nodeAffinity=only_at("b")) for i in range(6))],
            "claim default/data is not bound yet and needs one of the volumes v0 (b), v1 (b), v2 (b) and 3 more, or a new volume",
            False,
        ),
        (
            [claim(of="local", volumeMode="Block"), LOCAL, volume("v", "local")],
            "claim default/data: no free volume of class local has volumeMode Block (v)",
            False,
        ),
        (
            [claim(of="local", selector={"matchLabels": {"tier": "fast"}}), LOCAL, volume("v", "local")],
            "claim default/data: no free volume of class local has the labels of its selector (v)",
            False,
        ),
        (
            [claim(of="local"), LOCAL, volume("v", "local", "Failed")],
            "claim default/data needs a free PersistentVolume of class local: v is Failed",
            False,
        ),
    ],
)
def test_a_claim_says_why_it_keeps_pods_off_nodes(objects: list[Object], words: str, first: bool) -> None:
    cluster = compiled(*objects)
    there = cluster.volumes.claim("default/data")
    assert details(cluster, there) == words
    assert is_first(cluster, there) is first
    assert "kube-scheduler" not in reason(cluster, there)


def test_a_claim_of_an_ephemeral_volume_is_created_by_its_controller() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster = compiled(mounts={"ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
    words = "claim default/p-v does not exist yet; the controller for ephemeral volumes creates it"
    assert details(cluster, cluster.volumes.claim("default/p-v")) == words


def test_only_one_rule_says_that_a_claim_does_not_exist() -> None:
    cluster = compiled()
    said = {rule.name: rule.message(0, rule.rejects(0)) for rule in rules.build(cluster) if rule.rejects(0).any()}
    others = dict.fromkeys(("NodeVolumeLimits", "VolumeRestrictions", "VolumeZone"), "see VolumeBinding")
    assert said == {"VolumeBinding": "claim default/data does not exist", **others}
    assert [rule.name for rule in rules.build(cluster) if any(mask.any() for _, mask in rule.bars(0))] == ["VolumeBinding"]


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        (("zone", "In", ["a"]), "zone=a"),
        (("zone", "In", ["a", "b"]), "zone in (a, b)"),
        (("zone", "NotIn", ["a"]), "zone not in (a)"),
        (("zone", "Exists", None), "zone"),
        (("zone", "DoesNotExist", None), "!zone"),
        (("cores", "Gt", ["4"]), "cores > 4"),
    ],
)
def test_the_labels_that_a_volume_requires(requirement: tuple[str, str, list[str] | None], words: str) -> None:
    assert where(NodeSelector([NodeSelectorTerm([NodeSelectorRequirement(*requirement)])])) == words
