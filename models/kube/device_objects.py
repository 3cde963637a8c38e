"""Objects of dynamic resource allocation (resource.k8s.io): slices, classes, claims and their templates. See :mod:`models.kube.objects`.

Field names and shapes are those of resource.k8s.io/v1.
"""

from __future__ import annotations

from typing import TypeAlias

from models.kube.objects import NodeSelector, ObjectMeta, RawQuantity, Struct

_Int: TypeAlias = int  # the fields of a DeviceAttribute hide both names
_Bool: TypeAlias = bool

# --- what a node has ----------------------------------------------------------------------------------------------------


class DeviceAttribute(Struct):
    """One value of a type; a version is a semantic version as text."""

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


# --- what pods ask for --------------------------------------------------------------------------------------------------


class DeviceToleration(Struct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    tolerationSeconds: int | None = None


class CapacityRequirements(Struct):
    requests: dict[str, RawQuantity] | None = None


class ExactDeviceRequest(Struct):
    deviceClassName: str = ""
    selectors: list[DeviceSelector] | None = None
    allocationMode: str | None = None
    count: int | None = None
    adminAccess: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Struct):
    name: str
    deviceClassName: str = ""
    selectors: list[DeviceSelector] | None = None
    allocationMode: str | None = None
    count: int | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None


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
