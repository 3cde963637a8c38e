"""The requests of claims, with their alternatives and the constraints between the allocated devices.

Source: api/resource/v1 and structured/internal/incubating/allocator_incubating.go (v1.36.2); for attributes that
are lists KEP-5491.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.checker.rules.dynamic_resources.capacity import Amounts, amounts
from kubestow.checker.rules.dynamic_resources.pools import DeviceError, Published
from kubestow.models.kube import device_objects as api
from kubestow.models.kube.feature_gates import FeatureGates

#: Largest number of devices in one allocation.
MAX_RESULTS: Final = 32
_TYPES: Final = ("int", "bool", "string", "version")

#: Type and value of an attribute, None if the type is unknown. With list attributes, the value is a set.
Value = tuple[str, object] | None


@dataclass(eq=False, slots=True)
class RequestAlternative:
    """A request, or one alternative of a request.

    Attributes:
        number: Identifier in the search.
        request: Name of the request.
        alternative: Name of the alternative, or None.
        expressions: Selectors of the device class, then those of the request.
        everything: True if all matching devices are requested (allocation mode All).
        count: Number of devices.
        admin: True for admin access.
        tolerations: Tolerations of device taints.
        amounts: Requested capacity, by name.
        fault: Why the request is invalid, or None.
    """

    number: int
    request: str
    alternative: str | None
    expressions: Sequence[str] = ()
    everything: bool = False
    count: int = 1
    admin: bool = False
    tolerations: Sequence[api.DeviceToleration] = ()
    amounts: Amounts | None = None
    fault: str | None = None

    @property
    def name(self) -> str:
        return self.request if self.alternative is None else f"{self.request}/{self.alternative}"

    def tolerates(self, taint: api.DeviceTaint) -> bool:
        """Return True if the taint does not prevent allocation."""
        return taint.effect not in ("NoSchedule", "NoExecute") or any(_tolerates(each, taint) for each in self.tolerations)


def _tolerates(toleration: api.DeviceToleration, taint: api.DeviceTaint) -> bool:
    if (toleration.effect or taint.effect) != taint.effect or (toleration.key or taint.key) != taint.key:
        return False
    if toleration.operator in (None, "", "Equal"):
        return (toleration.value or "") == (taint.value or "")
    return toleration.operator == "Exists"


@dataclass(eq=False, slots=True)
class AttributeConstraint:
    """A constraint on an attribute of the devices of the named requests, or of all requests if none are named.

    The devices share one value, or differ pairwise.

    Attributes:
        attribute: Qualified name of the attribute.
        distinct: True if the values must differ.
        requests: Names of the requests.
        lists: True if list attributes are supported.
    """

    attribute: str
    distinct: bool
    requests: frozenset[str]
    lists: bool

    def concerns(self, ask: RequestAlternative) -> bool:
        """Return True if the constraint applies to the request."""
        return not self.requests or ask.request in self.requests or ask.name in self.requests

    def value(self, device: Published) -> tuple[Value] | None:
        """Return the device's value of the attribute in a tuple, or None if it lacks the attribute."""
        attributes = device.device.attributes or {}
        attribute = attributes.get(self.attribute)
        if attribute is None:
            domain, slash, name = self.attribute.partition("/")
            attribute = attributes.get(name) if slash and domain == device.spec.driver else None
        return None if attribute is None else (_values(attribute) if self.lists else _value(attribute),)

    def admits(self, others: Sequence[Value], new: Value) -> bool:
        """Return True if a device with the value may join devices with the values ``others``."""
        if not others:
            return self.distinct or not self.lists or new is not None
        if new is None:
            return False
        if self.lists:
            return _admits_sets([each for each in others if each is not None], new, distinct=self.distinct)
        return new not in others if self.distinct else new == others[0]


def _value(attribute: api.DeviceAttribute) -> Value:
    given = ((each, getattr(attribute, each)) for each in ("string", "int", "bool", "version"))
    return next(((kind, value) for kind, value in given if value is not None), None)


def _values(attribute: api.DeviceAttribute) -> Value:
    """Return the type and the set of values of an attribute."""
    for kind in _TYPES:
        if listed := getattr(attribute, f"{kind}s"):
            return kind, frozenset(listed)
    found = _value(attribute)
    return None if found is None else (found[0], frozenset((found[1],)))


def _admits_sets(others: Sequence[tuple[str, object]], new: tuple[str, object], *, distinct: bool) -> bool:
    kind, values = new
    assert isinstance(values, frozenset)
    same = [admitted for each, admitted in others if each == kind and isinstance(admitted, frozenset)]
    if distinct:
        return all(values.isdisjoint(admitted) for admitted in same)
    return len(same) == len(others) and bool(values.intersection(*same))


@dataclass(eq=False, slots=True)
class Wanted:
    """A claim to be allocated.

    Attributes:
        label: Name of the claim in documents.
        requests: Alternatives of each request.
        constraints: Constraints between the devices.
        fault: Why the claim is invalid although its requests are valid, or None.
    """

    label: str
    requests: list[list[RequestAlternative]] = field(default_factory=list)
    constraints: list[AttributeConstraint] = field(default_factory=list)
    fault: str | None = None


class ClaimReader:
    """Reads claims.

    Args:
        classes: Device classes, by name.
        gates: The feature gates.
    """

    def __init__(self, classes: Mapping[str, api.DeviceClass], gates: FeatureGates) -> None:
        self._classes, self._gates = classes, gates
        self._asks = 0

    def missing(self, claim: api.ResourceClaim) -> str | None:
        """Return why the claim keeps its pod off all nodes, or None.

        The causes are a missing device class and an unknown kind of request.
        """
        for request in _requests(claim):
            if request.exactly is not None:
                names = [(request.name, request.exactly.deviceClassName)]
            elif not request.firstAvailable:
                return f"request {request.name} has an unknown type"
            elif not self._gates.enabled("DRAPrioritizedList"):
                return f"request {request.name} has alternatives, and the gate DRAPrioritizedList is off"
            else:
                names = [(f"{request.name}/{each.name}", each.deviceClassName) for each in request.firstAvailable]
            for name, device_class in names:
                if device_class not in self._classes:
                    return f"request {name}: there is no DeviceClass {device_class}"
        return None

    def read(self, label: str, claim: api.ResourceClaim) -> Wanted:
        """Parse a claim as the allocator does.

        Raises:
            QuantityError: a quantity is malformed.
        """
        wanted = Wanted(label)
        for request in _requests(claim):
            alternatives = [self._ask(request.name, None, request.exactly)] if not request.firstAvailable else [
                self._ask(request.name, each.name, each) for each in request.firstAvailable
            ]  # fmt: skip
            wanted.requests.append(alternatives)
        sharing, lists = self._gates.enabled("DRAConsumableCapacity"), self._gates.enabled("DRAListTypeAttributes")
        devices = claim.spec.devices if claim.spec is not None else None
        for number, each in enumerate((devices.constraints if devices is not None else None) or ()):
            attribute = each.matchAttribute if each.matchAttribute is not None else each.distinctAttribute if sharing else None
            if attribute is None:
                wanted.fault = wanted.fault or f"constraint {number} has an unknown type"
            else:
                wanted.constraints.append(
                    AttributeConstraint(attribute, each.matchAttribute is None, frozenset(each.requests or ()), lists)
                )
        return wanted

    def of_class(self, name: str) -> list[str]:
        """Return the selectors of an existing device class."""
        spec = self._classes[name].spec
        return [each.cel.expression for each in (spec.selectors if spec is not None else None) or () if each.cel is not None]

    def _ask(self, request: str, alternative: str | None, raw: api.ExactDeviceRequest | api.DeviceSubRequest | None) -> RequestAlternative:
        self._asks += 1
        ask = RequestAlternative(self._asks, request, alternative)
        if raw is None:
            ask.fault = "it has an unknown type"
            return ask
        exact = raw.adminAccess if isinstance(raw, api.ExactDeviceRequest) else None
        device_class = self._classes.get(raw.deviceClassName)
        own, of_class = raw.selectors or (), (device_class.spec.selectors if device_class and device_class.spec else None) or ()
        ask.everything, ask.admin = raw.allocationMode == "All", bool(exact)
        ask.count = 1 if raw.count is None else raw.count
        ask.tolerations = raw.tolerations or ()
        ask.amounts = amounts(raw.capacity.requests) if raw.capacity is not None else None
        ask.fault = next(self._faults(raw, exact, device_class), None)
        ask.expressions = [each.cel.expression for each in (*of_class, *own) if each.cel is not None]
        if ask.fault is None and len(ask.expressions) < len(own) + len(of_class):
            ask.fault = "a selector has an unknown type"
        return ask

    def _faults(
        self, raw: api.ExactDeviceRequest | api.DeviceSubRequest, admin: bool | None, device_class: api.DeviceClass | None
    ) -> Iterator[str]:
        if raw.capacity is not None and not self._gates.enabled("DRAConsumableCapacity"):
            yield "it asks for capacity, and the gate DRAConsumableCapacity is off"
        if admin is not None and not self._gates.enabled("DRAAdminAccess"):
            yield "it asks for admin access, and the gate DRAAdminAccess is off"
        if device_class is None:
            yield f"there is no DeviceClass {raw.deviceClassName}"
        if raw.allocationMode not in (None, "", "ExactCount", "All"):
            yield f"allocation mode {raw.allocationMode} is not known"


def _requests(claim: api.ResourceClaim) -> Sequence[api.DeviceRequest]:
    devices = claim.spec.devices if claim.spec is not None else None
    return (devices.requests if devices is not None else None) or ()


def limit_fault(wanted: Wanted, counts: Mapping[int, int]) -> str | None:
    """Return why a claim requests too many devices even with its smallest alternatives, or None.

    Args:
        wanted: The claim.
        counts: Number of devices of each request, by its number.
    """
    least = sum(min(counts[ask.number] for ask in alternatives) for alternatives in wanted.requests)
    return f"it asks for {least} devices, at most {MAX_RESULTS} are allowed" if least > MAX_RESULTS else None


__all__ = ["MAX_RESULTS", "AttributeConstraint", "ClaimReader", "DeviceError", "RequestAlternative", "Value", "Wanted", "limit_fault"]
