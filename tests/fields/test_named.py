"""Every field that verdicts.txt calls named as unmodelled is named by a run that has the field."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest

from kubestow.models.cluster import unmodelled
from kubestow.models.kube.feature_gates import FeatureGates, feature_gates
from kubestow.models.snapshot import settling
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from tests.fields.table import KEYS, ROWS
from tests.models.gangs.test_gangs import grouped, native
from tests.objects import Object, node, pod

_GATE: Final = "DRANodeAllocatableResources"


class Example(NamedTuple):
    """Objects, and the field that they cause to be named. ``kubernetes``, ``gate``: the version and the gate."""

    objects: tuple[Object, ...]
    named: str
    kubernetes: str = "1.36"
    gate: str | None = None


def _context(**fields: Any) -> Example:
    return Example((pod("a", securityContext=fields),), f"spec.securityContext.{next(iter(fields))}")


def _volume(kind: str) -> Example:
    return Example((pod("a", volumes=[{"name": "v", kind: {"volumeID": "x"}}]),), f"spec.volumes[0].{kind}")


def _annotation(key: str) -> Example:
    found = pod("a")
    found["metadata"]["annotations"] = {key: "1"}
    return Example((found,), f"metadata.annotations[{key}]")


def _provisioned() -> Example:
    storage = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
        "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip
    waits = pod("a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    return Example((storage, claim, waits), "claim default/data")


_CLAIMS: Final = Example((pod("a", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]),), "spec.resourceClaims", "1.36", _GATE)


def _devices(slice_more: Object, device_more: Object, requests: list[Object]) -> Example:
    """A pod with a claim, next to a slice of devices. The fields are of Kubernetes 1.37."""
    api = "resource.k8s.io/v1"
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": [{"name": "d", **device_more}], **slice_more}
    return Example(
        (
            {"apiVersion": api, "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec},
            {"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
            {"apiVersion": api, "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}},
            pod("a", resourceClaims=[{"name": "c", "resourceClaimName": "c"}]),
        ),
        "spec.resourceClaims",
        "1.37",
    )


_ONE: Final = {"deviceClassName": "gpu"}
_DERIVED: Final = {**_ONE, "derivedAttributes": [{"name": "a"}]}
_STRICT: Final = _context(supplementalGroupsPolicy="Strict")
_PARENT: Final = Example(
    (native("train", schedulingPolicy={"gang": {"minCount": 1}}, parentCompositePodGroupName="all"), grouped("a")),
    "PodGroup default/train: spec.parentCompositePodGroupName",
)
#: By kind and path; keys of annotations below "".
EXAMPLES: Final[dict[tuple[str, str], Example]] = {
    ("Pod", "spec.schedulerName"): Example((pod("a", schedulerName="mine"),), "spec.schedulerName"),
    ("Pod", "spec.securityContext.sysctls"): _context(sysctls=[{"name": "net.core.somaxconn", "value": "1"}]),
    ("Pod", "spec.securityContext.supplementalGroupsPolicy"): _STRICT,
    ("Pod", "spec.securityContext.appArmorProfile"): _context(appArmorProfile={"type": "RuntimeDefault"}),
    ("Pod", "status.nodeAllocatableResourceClaimStatuses"): _CLAIMS,
    **{("Pod", f"spec.volumes.{kind}"): _volume(kind) for kind in unmodelled._IN_TREE},
    ("Node", "status.features"): _STRICT,
    ("CSIDriver", "spec.storageCapacity"): _provisioned(),
    **{("CSIStorageCapacity", f): _provisioned() for f in ("capacity", "maximumVolumeSize", "nodeTopology", "storageClassName")},
    ("ResourceSlice", "spec.devices.nodeAllocatableResources"): _CLAIMS,
    ("ResourceSlice", "spec.devices.consumesCounters.compatibilityGroups"): _devices(
        {}, {"consumesCounters": [{"counterSet": "c", "compatibilityGroups": ["a"]}]}, [{"name": "r", "exactly": _ONE}]
    ),
    ("ResourceSlice", "spec.skipNodeOperations"): _devices({"skipNodeOperations": ["*"]}, {}, [{"name": "r", "exactly": _ONE}]),
    ("ResourceClaim", "spec.devices.requests.exactly.derivedAttributes"): _devices({}, {}, [{"name": "r", "exactly": _DERIVED}]),
    ("ResourceClaim", "spec.devices.requests.firstAvailable.derivedAttributes"): _devices(
        {}, {}, [{"name": "r", "firstAvailable": [{"name": "x", **_DERIVED}]}]
    ),
    ("PodGroup", "spec.parentCompositePodGroupName"): _PARENT,
}
#: Named in a note, not at a pod.
IN_NOTES: Final = {("HorizontalPodAutoscaler", "spec.minReplicas"), ("HorizontalPodAutoscaler", "spec.maxReplicas")}


def _gates(example: Example) -> FeatureGates:
    return feature_gates(example.kubernetes, {example.gate: True} if example.gate else {})


def _said(example: Example) -> list[str]:
    snapshot = from_objects([node("n1"), *example.objects])
    snapshot.gates = _gates(example)
    pending = [snapshot.pods[i] for i in select(snapshot).pending]
    return [each.field for each in unmodelled.find(snapshot, pending)]


def test_each_field_that_is_said_to_be_named_has_an_example() -> None:
    said = {(kind, path) for row in ROWS if row.verdict == "named" and row.kinds != (KEYS,) for kind in row.kinds for path in row.paths}
    assert said == EXAMPLES.keys() | IN_NOTES


@pytest.mark.parametrize(("kind", "path"), EXAMPLES)
def test_it_is_named(kind: str, path: str) -> None:
    example = EXAMPLES[kind, path]
    assert example.named in _said(example)


@pytest.mark.parametrize("key", [key for row in ROWS if row.verdict == "named" and row.kinds == (KEYS,) for key in row.paths])
def test_annotations_that_are_said_to_be_named_are_named(key: str) -> None:
    example = _annotation(key.replace("…", "size"))
    assert example.named in _said(example)


def test_autoscalers_are_in_a_note() -> None:
    assert settling.without_pods({}, {"HorizontalPodAutoscaler": 2}) == [
        "replicas set by 2 HorizontalPodAutoscalers: spec.replicas counts instead"
    ]
