"""Which pods a Binding would strand."""

from __future__ import annotations

import pytest

from kubestow.models.execution.scheduler_needed import scheduler_needed
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node, pod

CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
EPHEMERAL = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}}}


def claim(name: str, volume: str = "") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"volumeName": volume} if volume else {},
    }


@pytest.mark.parametrize(
    ("volume", "claims", "reason"),
    [
        (CLAIM, [], "the snapshot lacks its claim data"),
        (CLAIM, [claim("data")], "its claim data has no volume yet"),
        (CLAIM, [claim("data", "pv-1")], None),
        (EPHEMERAL, [], "the snapshot lacks its claim p-scratch"),
        (EPHEMERAL, [claim("p-scratch")], "its claim p-scratch has no volume yet"),
        (EPHEMERAL, [claim("p-scratch", "pv-1")], None),
        ({"name": "e", "emptyDir": {}}, [], None),
    ],
)
def test_volumes_without_a_place_are_the_schedulers(volume: Object, claims: list[Object], reason: str | None) -> None:
    snapshot = from_objects([node("n"), pod("p", volumes=[volume]), *claims])
    assert scheduler_needed(snapshot.pods[0], snapshot) == reason


def test_devices_are_the_schedulers() -> None:
    snapshot = from_objects([node("n"), pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}]), pod("q")])
    assert [scheduler_needed(p, snapshot) for p in snapshot.pods] == ["it has resource claims", None]


def _requesting(name: str, resource: str) -> Object:
    return pod(name, containers=[{"name": "c", "image": "i", "resources": {"requests": {resource: "1"}, "limits": {resource: "1"}}}])


def test_extended_resources_that_a_class_backs_are_the_schedulers() -> None:
    """This holds if their gate is on; other extended resources do not need the scheduler."""
    cls = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "a.b/gpu"},
    }
    names = ["a.b/gpu", "deviceclass.resource.kubernetes.io/gpu", "a.b/nic"]
    snapshot = from_objects([node("n"), cls, *(_requesting(f"p{i}", name) for i, name in enumerate(names))])
    assert [scheduler_needed(p, snapshot) for p in snapshot.pods] == [
        "it requests a.b/gpu, which devices may provide",
        "it requests deviceclass.resource.kubernetes.io/gpu, which devices may provide",
        None,
    ]
    snapshot.gates = FeatureGates("1.35")
    assert [scheduler_needed(p, snapshot) for p in snapshot.pods] == [None] * 3
