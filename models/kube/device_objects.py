"""Objects of dynamic resource allocation (resource.k8s.io): slices, classes, claims and their templates.

Field names and shapes are those of resource.k8s.io/v1. See :mod:`kubestow.models.kube.objects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from kubestow.models.kube.objects import NodeSelector, ObjectMeta, Pod, RawQuantity, Struct

#: Versions of resource.k8s.io with older shapes: see :func:`as_v1`.
OLDER: Final = ("resource.k8s.io/v1alpha3", "resource.k8s.io/v1beta1")

_Int: TypeAlias = int  # the fields of a DeviceAttribute shadow both names
_Bool: TypeAlias = bool

# --- published devices --------------------------------------------------------------------------------------------------


class DeviceAttribute(Struct):
    """One typed value. A version is a semantic version as text."""

    int: _Int | None = None
    bool: _Bool | None = None
    string: str | None = None
    version: str | None = None
    ints: list[_Int] | None = None
    bools: list[_Bool] | None = None
    strings: list[str] | None = None
    versions: list[str] | None = None


class CapacityRequestPolicyRange(Struct):
    min: RawQuantity | None = None
    max: RawQuantity | None = None
    step: RawQuantity | None = None


class CapacityRequestPolicy(Struct):
    default: RawQuantity | None = None
    validValues: list[RawQuantity] | None = None
    validRange: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Struct):
    value: RawQuantity
    requestPolicy: CapacityRequestPolicy | None = None


class Counter(Struct):
    value: RawQuantity


class CounterSet(Struct):
    name: str
    counters: dict[str, Counter] | None = None


class DeviceCounterConsumption(Struct):
    counterSet: str
    counters: dict[str, Counter] | None = None
    compatibilityGroups: list[str] | None = None


class DeviceTaint(Struct):
    key: str
    effect: str
    value: str | None = None
    timeAdded: str | None = None


class Device(Struct):
    name: str
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumesCounters: list[DeviceCounterConsumption] | None = None
    nodeName: str | None = None
    nodeSelector: NodeSelector | None = None
    allNodes: bool | None = None
    taints: list[DeviceTaint] | None = None
    bindsToNode: bool | None = None
    bindingConditions: list[str] | None = None
    bindingFailureConditions: list[str] | None = None
    allowMultipleAllocations: bool | None = None


class ResourcePool(Struct):
    name: str
    generation: int = 0
    resourceSliceCount: int = 0


class ResourceSliceSpec(Struct):
    driver: str
    pool: ResourcePool
    nodeName: str | None = None
    nodeSelector: NodeSelector | None = None
    allNodes: bool | None = None
    perDeviceNodeSelection: bool | None = None
    devices: list[Device] | None = None
    sharedCounters: list[CounterSet] | None = None
    skipNodeOperations: list[str] | None = None


class ResourceSlice(Struct):
    metadata: ObjectMeta
    spec: ResourceSliceSpec


class CELDeviceSelector(Struct):
    expression: str


class DeviceSelector(Struct):
    cel: CELDeviceSelector | None = None


class DeviceClassSpec(Struct):
    selectors: list[DeviceSelector] | None = None
    extendedResourceName: str | None = None


class DeviceClass(Struct):
    metadata: ObjectMeta
    spec: DeviceClassSpec | None = None


class DeviceTaintSelector(Struct):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct):
    taint: DeviceTaint
    deviceSelector: DeviceTaintSelector | None = None


class DeviceTaintRule(Struct):
    metadata: ObjectMeta
    spec: DeviceTaintRuleSpec


# --- requests and claims ------------------------------------------------------------------------------------------------


class DeviceToleration(Struct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    tolerationSeconds: int | None = None


class CapacityRequirements(Struct):
    requests: dict[str, RawQuantity] | None = None


class DeviceDerivedAttribute(Struct):
    """An attribute that an expression computes from others (KEP-6080). Only its presence is read."""

    name: str | None = None


class ExactDeviceRequest(Struct):
    deviceClassName: str = ""
    selectors: list[DeviceSelector] | None = None
    allocationMode: str | None = None
    count: int | None = None
    adminAccess: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None
    derivedAttributes: list[DeviceDerivedAttribute] | None = None


class DeviceSubRequest(Struct):
    name: str
    deviceClassName: str = ""
    selectors: list[DeviceSelector] | None = None
    allocationMode: str | None = None
    count: int | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None
    derivedAttributes: list[DeviceDerivedAttribute] | None = None


class DeviceRequest(Struct):
    name: str
    exactly: ExactDeviceRequest | None = None
    firstAvailable: list[DeviceSubRequest] | None = None


class DeviceConstraint(Struct):
    requests: list[str] | None = None
    matchAttribute: str | None = None
    distinctAttribute: str | None = None


class DeviceClaim(Struct):
    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None


class ResourceClaimSpec(Struct):
    devices: DeviceClaim | None = None


class DeviceRequestAllocationResult(Struct):
    request: str
    driver: str
    pool: str
    device: str
    adminAccess: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    bindingConditions: list[str] | None = None
    bindingFailureConditions: list[str] | None = None
    shareID: str | None = None
    consumedCapacity: dict[str, RawQuantity] | None = None


class DeviceAllocationResult(Struct):
    results: list[DeviceRequestAllocationResult] | None = None


class AllocationResult(Struct):
    devices: DeviceAllocationResult | None = None
    nodeSelector: NodeSelector | None = None
    allocationTimestamp: str | None = None


class DeviceCondition(Struct):
    type: str | None = None
    status: str | None = None


class AllocatedDeviceStatus(Struct):
    driver: str
    pool: str
    device: str
    shareID: str | None = None
    conditions: list[DeviceCondition] | None = None


class ResourceClaimConsumerReference(Struct):
    resource: str = ""
    name: str = ""
    uid: str = ""
    apiGroup: str | None = None


class ResourceClaimStatus(Struct):
    allocation: AllocationResult | None = None
    devices: list[AllocatedDeviceStatus] | None = None
    reservedFor: list[ResourceClaimConsumerReference] | None = None


class ResourceClaim(Struct):
    metadata: ObjectMeta
    spec: ResourceClaimSpec | None = None
    status: ResourceClaimStatus | None = None


class ResourceClaimTemplateSpec(Struct):
    metadata: ObjectMeta | None = None
    spec: ResourceClaimSpec | None = None


class ResourceClaimTemplate(Struct):
    metadata: ObjectMeta
    spec: ResourceClaimTemplateSpec | None = None


# --- owners of claims ---------------------------------------------------------------------------------------------------


def pod_identity(pod: Pod) -> tuple[str, str, str | None]:
    """Return namespace, name and uid of a pod, in the form of :func:`owning_pod`."""
    return pod.metadata.namespace or "default", pod.metadata.name or "", pod.metadata.uid


def owning_pod(claim: ResourceClaim) -> tuple[str, str, str | None] | None:
    """Return namespace, name and uid of the pod that controls a claim, or None."""
    owners = (each for each in claim.metadata.ownerReferences or () if each.controller and each.kind == "Pod")
    return next(((claim.metadata.namespace or "default", owner.name, owner.uid) for owner in owners), None)


def made_for(claims: Mapping[str, ResourceClaim], pods: Iterable[Pod]) -> set[str]:
    """Return the keys of the claims that any of the pods controls."""
    identities = {pod_identity(pod) for pod in pods}
    return {key for key, claim in claims.items() if owning_pod(claim) in identities}


# --- older versions -----------------------------------------------------------------------------------------------------


def as_v1(kind: str, value: Any) -> Any:
    """Convert an object of one of the versions :data:`OLDER`, as plain data, to the shape of v1. Other shapes stay unchanged.

    Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/api/resource/v1beta1/types.go
    """
    if not isinstance(value, Mapping):
        return value
    if kind == "ResourceSlice":
        return _changed(value, "spec", lambda spec: _changed(spec, "devices", lambda devices: [_device(each) for each in devices]))
    if kind == "ResourceClaim":
        return _changed(value, "spec", _claim_spec)
    if kind == "ResourceClaimTemplate":
        return _changed(value, "spec", lambda spec: _changed(spec, "spec", _claim_spec))
    return value


def _changed(value: Any, field: str, change: Any) -> Any:
    if not isinstance(value, Mapping) or not isinstance(value.get(field), Mapping | list):
        return value
    return {**value, field: change(value[field])}


def _device(value: Any) -> Any:
    if not isinstance(value, Mapping) or not isinstance(value.get("basic"), Mapping):
        return value
    capacity = value["basic"].get("capacity")
    flat = {**{key: each for key, each in value.items() if key != "basic"}, **value["basic"]}
    if isinstance(capacity, Mapping):  # v1alpha3 has a plain quantity
        flat["capacity"] = {name: each if isinstance(each, Mapping) else {"value": each} for name, each in capacity.items()}
    return flat


def _claim_spec(value: Any) -> Any:
    def request(stated: Any) -> Any:
        if not isinstance(stated, Mapping) or "exactly" in stated or stated.get("firstAvailable"):
            return stated
        return {"name": stated.get("name"), "exactly": {key: each for key, each in stated.items() if key not in ("name", "firstAvailable")}}

    return _changed(value, "devices", lambda devices: _changed(devices, "requests", lambda found: [request(each) for each in found]))
