"""Objects of resource.k8s.io: refused fields of new ones, defaults, and older versions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_json, from_objects

Object = dict[str, Any]


def named(kind: str, spec: Object, version: str = "v1") -> Object:
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def piece(**more: Any) -> Object:
    return named("ResourceSlice", {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n"} | more)


def claim(*requests: Object, **more: Any) -> Object:
    return named("ResourceClaim", {"devices": {"requests": list(requests), **more}})


def exactly(**fields: Any) -> Object:
    return {"name": "r", "exactly": {"deviceClassName": "c", **fields}}


SHARED = {"name": "g", "capacity": {"memory": {"value": "1Gi", "requestPolicy": {"default": "1Mi"}}}}
REFUSED: dict[str, Object] = {
    "spec.devices: got 129, expected at most 128": piece(devices=[{"name": f"d{i}"} for i in range(129)]),
    "spec.devices: got 65, expected at most 64": piece(
        devices=[{"name": f"d{i}", "taints": [{"key": "k", "effect": "NoSchedule"}]} for i in range(65)]
    ),
    "spec.devices[1]: got 'g' twice, expected each name once": piece(devices=[{"name": "g"}, {"name": "g"}]),
    "spec: got nodeName and allNodes, expected exactly one of": piece(allNodes=True),
    "spec: got sharedCounters and devices, expected only one": piece(sharedCounters=[{"name": "c"}], devices=[{"name": "g"}]),
    "spec.devices[0].capacity[memory].requestPolicy: expected together with allowMultipleAllocations only": piece(devices=[SHARED]),
    "spec.devices[0].attributes[a]: got int and string, expected exactly one value": piece(
        devices=[{"name": "g", "attributes": {"a": {"int": 1, "string": "x"}}}]
    ),
    "spec.devices[0]: nodeName, nodeSelector and allNodes are expected together with": piece(devices=[{"name": "g", "nodeName": "n"}]),
    "spec.devices.requests[0]: got neither, expected exactly one of exactly and firstAvailable": claim({"name": "r"}),
    "spec.devices.requests[0]: got both, expected exactly one of exactly and firstAvailable": claim(
        exactly() | {"firstAvailable": [{"name": "a", "deviceClassName": "c"}]}
    ),
    "spec.devices.requests[1]: got 'r' twice, expected each name once": claim(exactly(), exactly()),
    "spec.devices.requests[0].exactly.count: got 2, expected none with allocationMode All": claim(exactly(allocationMode="All", count=2)),
    "spec.devices.requests[0].exactly.count: got -1, expected a whole number of at least 1": claim(exactly(count=-1)),
    "spec.devices.requests[0].exactly.allocationMode: got 'Some', expected ExactCount or All": claim(exactly(allocationMode="Some")),
    "spec.devices.requests[0].exactly.deviceClassName: missing": claim({"name": "r", "exactly": {}}),
    "spec.devices.constraints[0].requests[0]: got 'other', expected REQUEST or REQUEST/ALTERNATIVE of the claim": claim(
        exactly(), constraints=[{"requests": ["other"], "matchAttribute": "d/a"}]
    ),
    "spec.devices.constraints[0]: got matchAttribute and distinctAttribute, expected exactly one": claim(
        exactly(), constraints=[{"matchAttribute": "d/a", "distinctAttribute": "d/a"}]
    ),
    "spec.devices.constraints[0].matchAttribute: got 'a', expected an attribute with its domain": claim(
        exactly(), constraints=[{"matchAttribute": "a"}]
    ),
    "spec.extendedResourceName: got 'gpu', expected an extended resource": named("DeviceClass", {"extendedResourceName": "gpu"}),
    "spec.taint.effect: got 'PreferNoSchedule', expected NoSchedule, NoExecute or None": named(
        "DeviceTaintRule", {"taint": {"key": "k", "effect": "PreferNoSchedule"}}
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_new_objects_are_refused_and_stored_ones_are_not(message: str) -> None:
    with pytest.raises(InputError) as caught:
        from_objects([REFUSED[message]], manifests=True)
    assert message in str(caught.value)
    from_objects([REFUSED[message]])


@pytest.mark.parametrize(
    "found",
    [
        piece(devices=[{"name": "g", "capacity": {"memory": {"value": "much"}}}]),
        piece(sharedCounters=[{"name": "c", "counters": {"m": {"value": "much"}}}]),
        claim(exactly(capacity={"requests": {"memory": "much"}})),
    ],
)
def test_quantities_that_cannot_be_read_are_refused_of_stored_objects_too(found: Object) -> None:
    with pytest.raises(InputError, match="is not a quantity"):
        from_objects([found])


def test_defaults_of_requests() -> None:
    found = from_objects(
        [
            claim(
                exactly(tolerations=[{"key": "k"}]),
                {"name": "s", "firstAvailable": [{"name": "a", "deviceClassName": "c", "allocationMode": "All"}]},
            )
        ]
    )
    first, second = _requests(found)
    assert (first.exactly.allocationMode, first.exactly.count, first.exactly.tolerations[0].operator) == ("ExactCount", 1, "Equal")
    assert (second.firstAvailable[0].allocationMode, second.firstAvailable[0].count) == ("All", None)


def _requests(found: Snapshot) -> list[Any]:
    spec = found.resource_claims["default/x"].spec
    assert spec is not None
    assert spec.devices is not None
    return spec.devices.requests or []


@pytest.mark.parametrize("read", ["plain", "json"])
def test_objects_of_v1beta1_are_read_in_the_shape_of_v1(read: str) -> None:
    old = named("ResourceClaim", {"devices": {"requests": [{"name": "r", "deviceClassName": "c", "count": 2}]}}, "v1beta1")
    basic = {"name": "g", "basic": {"attributes": {"a": {"int": 1}}, "capacity": {"m": {"value": "1Gi"}}}}
    slices = piece(devices=[basic]) | {"apiVersion": "resource.k8s.io/v1beta1"}
    found = from_objects([old, slices]) if read == "plain" else from_json(msgspec.json.encode([old, slices]), "file")
    (request,) = _requests(found)
    assert (request.name, request.exactly.deviceClassName, request.exactly.count) == ("r", "c", 2)
    (device,) = found.resource_slices["x"].spec.devices or []
    assert device.attributes is not None
    assert device.capacity is not None
    assert (device.name, device.attributes["a"].int, device.capacity["m"].value) == ("g", 1, "1Gi")
    newer = claim({"name": "r", "exactly": {"deviceClassName": "c", "count": 2}}) | {"apiVersion": "resource.k8s.io/v1beta2"}
    assert _requests(from_objects([newer])) == [request]


def test_capacity_of_v1alpha3_is_the_quantity_itself() -> None:
    slices = piece(devices=[{"name": "g", "basic": {"capacity": {"m": "1Gi"}}}]) | {"apiVersion": "resource.k8s.io/v1alpha3"}
    (device,) = from_objects([slices]).resource_slices["x"].spec.devices or []
    assert device.capacity is not None
    assert device.capacity["m"].value == "1Gi"
