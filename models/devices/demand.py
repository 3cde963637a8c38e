"""The resolved device requests of a pod: claims with classes, selectors and constraints, or a reason for refusal."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

#: (key, operator, value, effect) of a toleration. An empty key or effect matches all.
Toleration = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class DemandedRequest:
    """A request for devices of one class.

    Attributes:
        name: Name in results: ``request`` or ``request/alternative``.
        device_class: Name of the DeviceClass.
        count: Number of devices; None: all that match.
        selectors: Expressions, those of the class first.
        capacity: Requested amounts by name, as in the claim (full, or bare for the driver's own).
    """

    name: str
    device_class: str
    count: int | None
    selectors: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, Fraction], ...] = ()
    admin: bool = False


@dataclass(frozen=True, slots=True)
class DemandedConstraint:
    """A constraint on the devices of several requests.

    Attributes:
        attribute: Full name.
        distinct: True: values differ pairwise. False: all values are equal.
        requests: Names of the requests concerned; empty: all.
    """

    attribute: str
    distinct: bool
    requests: tuple[str, ...] = ()

    def about(self, request: str) -> bool:
        """Return True if the constraint concerns a request of this name; ``r`` also covers ``r/alternative``."""
        return not self.requests or request in self.requests or request.partition("/")[0] in self.requests


@dataclass(frozen=True, slots=True)
class DemandedClaim:
    """A claim to be allocated.

    Attributes:
        requests: Alternatives of each request. The first that works is taken; most have one.
        key: ``namespace/name`` of a claim that pods may share; None: each pod of the class has its own.
        entry: Name of the entry in spec.resourceClaims of the first pod with it; "" for the claim of extended
            resources.
    """

    requests: tuple[tuple[DemandedRequest, ...], ...]
    constraints: tuple[DemandedConstraint, ...] = ()
    key: str | None = None
    entry: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Extended:
    """An extended resource backed by a DeviceClass.

    Attributes:
        count: Amount that the pod requests.
        requests: Device requests on nodes where devices must provide the resource.
    """

    resource: str
    device_class: str
    count: int
    requests: tuple[DemandedRequest, ...]


@dataclass(frozen=True, slots=True)
class DeviceDemand:
    """All device requests of a pod.

    Attributes:
        claims: Claims to be allocated, in the allocator's order. The claim made from ``extended`` follows them.
        allocated: ``namespace/name`` of allocated claims. Each allows some nodes (``DeviceTable.allowed``).
        refusal: Reason why no node accepts the pod; None if some may.
        extended: Extended resources that a class backs.
        unbacked: Other extended resources that it requests as well.
        held: Relevant devices of a movable running pod: (claim, request, kind, unit).
    """

    claims: tuple[DemandedClaim, ...] = ()
    allocated: tuple[str, ...] = ()
    refusal: str | None = None
    extended: tuple[Extended, ...] = ()
    unbacked: tuple[str, ...] = ()
    held: tuple[tuple[int, str, int, int | None], ...] = ()
