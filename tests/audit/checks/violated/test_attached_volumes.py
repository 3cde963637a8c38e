"""Volumes that pods wait for: claims that nobody binds, and volumes that another node has."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.audit.checks.violated import check
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node, pod

MOUNT: dict[str, Any] = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}
DISK: Object = {
    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"}, "provisioner": "disk.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}  # fmt: skip
CSI: Object = {"csi": {"driver": "disk.example.com", "volumeHandle": "h"}}
PENDING: Object = {"phase": "Pending"}
READY: Object = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def claim(mode: str = "ReadWriteOnce", volume: str | None = None, **annotations: str) -> Object:
    spec = {"accessModes": [mode], "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}}
    spec |= {"volumeName": volume} if volume else {}
    metadata = {"name": "data", "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": PENDING}


def volume(mode: str = "ReadWriteOnce", claimed: str | None = "data", **source: Object) -> Object:
    spec: Object = {"accessModes": [mode], "storageClassName": "disk", "capacity": {"storage": "1Gi"}, **(source or CSI)}
    spec |= {"claimRef": {"namespace": "default", "name": claimed}} if claimed else {}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": spec, "status": {"phase": "Bound"}}


def mounting(name: str, at: str | None, status: Object = READY, cpu: str = "1") -> Object:
    return {**pod(name, node_name=at, cpu=cpu, **MOUNT), "status": status if at else PENDING}


def found(*things: Object) -> list[Finding]:
    return [f for f in check.check(ClusterView(from_objects([node("n1"), node("n2"), DISK, *things]))) if f.code >= "KS116"]


def test_a_pod_that_names_its_node_waits_for_its_claim() -> None:
    (finding,) = found(claim(), mounting("a", "n1", PENDING))
    assert (finding.code, finding.object, finding.pods, finding.nodes) == ("KS116", "Pod default/a", ["default/a"], ["n1"])
    assert finding.message == "claim default/data of class disk waits for its first consumer, and default/a names node n1"


@pytest.mark.parametrize(
    "things",
    [
        [claim(), mounting("a", "n1", PENDING), mounting("b", None)],  # the scheduler has the claim bound for b
        [claim(), mounting("a", "n1", READY)],
        [claim(), mounting("a", None)],
        [claim(**{"volume.kubernetes.io/selected-node": "n1"}), mounting("a", "n1", PENDING)],
        [claim(), volume(), mounting("a", "n1", PENDING)],  # the volume names the claim
        [claim(volume="pv"), volume(), mounting("a", "n1", PENDING)],
        [{**claim(), "spec": {**claim()["spec"], "storageClassName": "other"}}, mounting("a", "n1", PENDING)],
    ],
)
def test_claims_that_somebody_binds(things: list[Object]) -> None:
    assert "KS116" not in {finding.code for finding in found(*things)}


def test_pods_on_two_nodes_use_a_volume_of_one() -> None:
    (finding,) = found(claim(volume="pv"), volume(), mounting("a", "n1", PENDING), mounting("b", "n2"), mounting("c", "n2"))
    assert (finding.code, finding.object) == ("KS117", "PersistentVolumeClaim default/data")
    assert finding.message == "volume pv attaches to one node at a time; its pods are on n2, n1: while n2 has it, default/a waits"
    assert finding.pods == ["default/a", "default/b", "default/c"]


@pytest.mark.parametrize(
    "things",
    [
        [claim(volume="pv"), volume(), mounting("a", "n1"), mounting("b", "n1")],
        [claim("ReadWriteMany", "pv"), volume("ReadWriteMany"), mounting("a", "n1"), mounting("b", "n2")],
        [claim(volume="pv"), volume(nfs={"server": "s", "path": "/"}), mounting("a", "n1"), mounting("b", "n2")],
        [claim(volume="pv"), volume(local={"path": "/data"}), mounting("a", "n1"), mounting("b", "n2")],
    ],
)
def test_volumes_that_keep_nobody_waiting(things: list[Object]) -> None:
    assert found(*things) == []


def test_a_leaving_pod_frees_its_volume() -> None:
    leaving = mounting("a", "n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert found(claim(volume="pv"), volume(), leaving, mounting("b", "n2")) == []


def test_a_claim_of_one_pod_is_another_finding() -> None:
    once = [claim("ReadWriteOncePod", "pv"), volume("ReadWriteOncePod"), mounting("a", "n1"), mounting("b", "n2")]
    assert [f.code for f in check.check(ClusterView(from_objects([node("n1"), node("n2"), DISK, *once])))] == ["KS111"]


def test_a_pod_that_waits_fits_on_another_node_only() -> None:
    (finding,) = found(claim(volume="pv"), volume(), mounting("a", "n1", cpu="3"), mounting("b", None, cpu="3"))
    assert (finding.code, finding.pods, finding.nodes) == ("KS118", ["default/b"], ["n2"])
    assert finding.message == "default/b can only go to n2, and volume pv of claim default/data is on n1, with default/a"
    assert found(claim(volume="pv"), volume(), mounting("a", "n1"), mounting("b", None)) == []  # there is room where it is
    assert found(claim(volume="pv"), volume(), mounting("a", "n1", cpu="3"), mounting("b", None, cpu="5")) == []  # it fits nowhere
