"""The devices that a pod requests, from its spec and the ResourceClaims of the snapshot.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (PreFilter) and
k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go
(validateDeviceRequest), as of v1.36.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from kubestow.models.devices import extended_resources
from kubestow.models.devices.demand import DemandedClaim, DemandedConstraint, DemandedRequest, DeviceDemand, Extended
from kubestow.models.kube import device_objects, pod_requests, quantity
from kubestow.models.kube.lenient_decode import near_names
from kubestow.models.kube.objects import Pod
from kubestow.models.snapshot.snapshot import Snapshot

#: Largest number of devices of a claim (AllocationResultsMaxSize).
MAX_CLAIM_DEVICES: Final = 32


class _Refused(Exception):
    """No node accepts the pod; the message has the reason."""


class DemandReader:
    """Reads the device requests of pods.

    Attributes:
        released: ``namespace/name`` of claims that count as unallocated because their pod is placed again.
    """

    def __init__(self, snapshot: Snapshot, released: Collection[str] = ()) -> None:
        self.snapshot, self.gates, self.released = snapshot, snapshot.gates, frozenset(released)
        self.backed = extended_resources.backed(snapshot.device_classes) if self.gates.enabled("DRAExtendedResource") else {}
        #: Claims that pods name themselves. Other pods may use them, too.
        self._named = {
            f"{pod.metadata.namespace or 'default'}/{entry.resourceClaimName}"
            for pod in snapshot.pods
            for entry in pod.spec.resourceClaims or ()
            if entry.resourceClaimName
        }
        self._left = {
            (owner.uid, owner.name): key
            for key, claim in snapshot.resource_claims.items()
            if (claim.metadata.annotations or {}).get(extended_resources.ANNOTATION) == "true" and key not in self.released
            for owner in claim.metadata.ownerReferences or ()
            if owner.controller
        }
        self._claims: dict[str, DemandedClaim | _Refused] = {}

    def asks(self, pod: Pod) -> bool:
        """Return True if a pod requests devices."""
        return bool(pod.spec.resourceClaims) or (bool(self.backed) and not self.backed.keys().isdisjoint(self._extended(pod)))

    def _extended(self, pod: Pod) -> set[str]:
        found: set[str] = set()
        for container in (*(pod.spec.initContainers or ()), *(pod.spec.containers or ())):
            if container.resources is not None:
                found.update(container.resources.requests or ())
        return found

    def read(self, pod: Pod) -> tuple[DeviceDemand, tuple[str, ...]]:
        """Return a pod's requests, and the names in documents of its claims that are to be allocated."""
        claims: list[DemandedClaim] = []
        names: list[str] = []
        allocated: list[str] = []
        own = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name or ''}"
        extended, unbacked = self._of_resources(pod)  # these decide which resources NodeResourcesFit leaves out, even if the pod is refused
        try:
            for entry, key in self._keys(pod):
                if self._allocation(key) is not None:
                    allocated.append(key)
                else:
                    claims.append(self._claim(key, entry))
                    names.append(key)
            self._check_left(pod, extended)
        except _Refused as refused:
            return DeviceDemand(refusal=str(refused), extended=extended), ()
        names += [f"{own}/extended-resources"] if extended else []
        return DeviceDemand(tuple(claims), tuple(dict.fromkeys(allocated)), None, extended, unbacked), tuple(names)

    def _allocation(self, key: str) -> device_objects.AllocationResult | None:
        status = self.snapshot.resource_claims[key].status
        return status.allocation if status is not None and key not in self.released else None

    def _keys(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """Yield the name of each claim entry of a pod with its claim, except for entries that need none."""
        space = pod.metadata.namespace or "default"
        made = {each.name: each.resourceClaimName for each in (pod.status.resourceClaimStatuses if pod.status else None) or ()}
        for entry in pod.spec.resourceClaims or ():
            name = entry.resourceClaimName
            if name is None:
                if entry.resourceClaimTemplateName is None:
                    raise _Refused(f"claim entry {entry.name} names neither a claim nor a template")
                if entry.name not in made:
                    raise _Refused(f"the claim of entry {entry.name} is not created yet")
                name = made[entry.name]
                if name is None:
                    continue
            key = f"{space}/{name}"
            claim = self.snapshot.resource_claims.get(key)
            called = self._called(key, entry.name)
            if claim is None:
                known = (each.removeprefix(f"{space}/") for each in self.snapshot.resource_claims)
                raise _Refused(f"{called} does not exist{near_names(name, known)}")
            if claim.metadata.deletionTimestamp is not None:
                raise _Refused(f"{called} is being deleted")
            owners = [owner.uid for owner in claim.metadata.ownerReferences or () if owner.controller]
            if entry.resourceClaimName is None and pod.metadata.uid not in owners:
                raise _Refused(f"{called} was made for another pod")
            yield entry.name, key

    def _called(self, key: str, entry: str) -> str:
        """Return the name of a claim in messages. It is equal for the pods' own claims of one template."""
        return f"claim {key}" if key in self._named else f"the claim of entry {entry}"

    def _claim(self, key: str, entry: str) -> DemandedClaim:
        demanded = self._claims.get(key)
        if demanded is None:
            try:
                demanded = self._resolve(key, entry)
            except _Refused as refused:
                demanded = refused
            self._claims[key] = demanded
        if isinstance(demanded, _Refused):
            raise demanded
        return demanded

    def _resolve(self, key: str, entry: str) -> DemandedClaim:
        spec, called = self.snapshot.resource_claims[key].spec, self._called(key, entry)
        devices = spec.devices if spec is not None else None
        listed = (devices.requests if devices is not None else None) or []
        for request in listed:  # check the classes of all requests before anything else
            if request.exactly is None and request.firstAvailable and not self.gates.enabled("DRAPrioritizedList"):
                raise _Refused(f"{called} has alternatives, and feature gate DRAPrioritizedList is off")
            for part in (request.exactly,) if request.exactly is not None else request.firstAvailable or ():
                if part.deviceClassName not in self.snapshot.device_classes:
                    near = near_names(part.deviceClassName, self.snapshot.device_classes)
                    raise _Refused(f"device class {part.deviceClassName} does not exist{near}")
        requests = tuple(self._alternatives(called, request) for request in listed)
        constraints = tuple(self._constraint(called, each) for each in (devices.constraints if devices is not None else None) or ())
        return DemandedClaim(requests, constraints, key if key in self._named else None, entry)

    def _alternatives(self, called: str, request: device_objects.DeviceRequest) -> tuple[DemandedRequest, ...]:
        if request.exactly is not None:
            return (self._request(called, request.name, request.exactly),)
        if not request.firstAvailable:
            raise _Refused(f"{called}: request {request.name} is of an unknown kind")
        return tuple(self._request(called, f"{request.name}/{part.name}", part) for part in request.firstAvailable)

    def _request(
        self, called: str, name: str, part: device_objects.ExactDeviceRequest | device_objects.DeviceSubRequest
    ) -> DemandedRequest:
        admin = getattr(part, "adminAccess", None)
        if part.capacity is not None and not self.gates.enabled("DRAConsumableCapacity"):
            raise _Refused(f"{called}: request {name} asks for capacity, and feature gate DRAConsumableCapacity is off")
        if admin is not None and not self.gates.enabled("DRAAdminAccess"):
            raise _Refused(f"{called}: request {name} has adminAccess, and feature gate DRAAdminAccess is off")
        mode = part.allocationMode or "ExactCount"
        if mode not in ("ExactCount", "All"):
            raise _Refused(f"{called}: request {name} has allocation mode {mode}, which is unknown")
        selectors = self.selectors(part.deviceClassName)
        for selector in part.selectors or ():
            if selector.cel is None:
                raise _Refused(f"{called}: a selector of request {name} is of an unknown kind")
            selectors = (*selectors, selector.cel.expression)
        requested = (part.capacity.requests if part.capacity is not None else None) or {}
        capacity = tuple(sorted((n, quantity.parse(raw)) for n, raw in requested.items()))
        count = None if mode == "All" else 1 if part.count is None else part.count
        tolerations = tuple((t.key or "", t.operator or "Equal", t.value or "", t.effect or "") for t in part.tolerations or ())
        return DemandedRequest(name, part.deviceClassName, count, selectors, tolerations, capacity, bool(admin))

    def _constraint(self, called: str, each: device_objects.DeviceConstraint) -> DemandedConstraint:
        requests = tuple(sorted(each.requests or ()))
        if each.matchAttribute is not None:
            return DemandedConstraint(each.matchAttribute, False, requests)
        if each.distinctAttribute is None:
            raise _Refused(f"{called}: a constraint is of an unknown kind")
        if not self.gates.enabled("DRAConsumableCapacity"):
            raise _Refused(f"{called} has distinctAttribute, and feature gate DRAConsumableCapacity is off")
        return DemandedConstraint(each.distinctAttribute, True, requests)

    def selectors(self, device_class: str) -> tuple[str, ...]:
        """Return the selector expressions of a device class."""
        spec = self.snapshot.device_classes[device_class].spec
        return tuple(each.cel.expression for each in (spec.selectors if spec is not None else None) or () if each.cel is not None)

    def _of_resources(self, pod: Pod) -> tuple[tuple[Extended, ...], tuple[str, ...]]:
        """Return a pod's extended resources backed by classes, and, if there are any, its other extended resources."""
        if not self.backed or self.backed.keys().isdisjoint(self._extended(pod)):
            return (), ()
        requests = sorted(pod_requests.pod_request(pod, self.snapshot.gates).items())
        requested = {name: amount for name, amount in requests if extended_resources.is_extended(name)}
        device_requests = tuple(
            Extended(name, own, amount, extended_resources.requests(pod.spec, name, own, self.selectors(own)))
            for name, amount in requested.items()
            if (own := self.backed.get(name)) is not None
        )
        if not device_requests:
            return (), ()
        return device_requests, tuple(name for name in requested if name not in self.backed)

    def _check_left(self, pod: Pod, extended: tuple[Extended, ...]) -> None:
        leftover = self._left.get((pod.metadata.uid, pod.metadata.name or "")) if extended else None
        spec = self.snapshot.resource_claims[leftover].spec if leftover is not None else None
        if spec is not None and spec.devices is not None and spec.devices.requests:
            raise _Refused(f"claim {leftover} remains from an earlier attempt to place the pod")
