"""What a pod asks of devices, resolved: its claims with classes, selectors and constraints, and what keeps it from every node."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

#: (key, operator, value, effect) of a toleration; an empty key or effect stands for all.
Toleration = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Request:
    """Devices of one kind. ``name``: as results name it, ``request`` or ``request/alternative``. ``device_class``: of that DeviceClass.
    ``count``: None asks for all that match. ``selectors``: expressions, those of the class first. ``capacity``: requested amounts by name,
    as the claim writes it (full, or bare for the driver's own)."""

    name: str
    device_class: str
    count: int | None
    selectors: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, Fraction], ...] = ()
    admin: bool = False


@dataclass(frozen=True, slots=True)
class Constraint:
    """``attribute``: full name. ``distinct``: values differ pairwise; else all are the same. ``requests``: names that it is about, empty
    for all."""

    attribute: str
    distinct: bool
    requests: tuple[str, ...] = ()

    def about(self, request: str) -> bool:
        """Return whether it is about a request of this name; ``r`` covers ``r/alternative`` as well."""
        return not self.requests or request in self.requests or request.partition("/")[0] in self.requests


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that is to be allocated. ``requests``: alternatives each, the first that works is taken; most have one. ``key``:
    ``namespace/name`` of a claim that several pods may share, None for one that each pod of the class has of its own. ``entry``: the name
    of the pod's entry in spec.resourceClaims (of the first pod that has it), empty for the claim that extended resources make."""

    requests: tuple[tuple[Request, ...], ...]
    constraints: tuple[Constraint, ...] = ()
    key: str | None = None
    entry: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Extended:
    """An extended resource that a DeviceClass backs, and what it asks for on nodes where devices must provide it. ``count``: as the pod
    requests it."""

    resource: str
    device_class: str
    count: int
    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class Demand:
    """All that a pod asks for.

    ``claims``: to be allocated, in the order of the allocator; the one that ``extended`` makes comes after them. ``allocated``:
    ``namespace/name`` of claims that are allocated already, each of which allows some nodes (``DeviceTable.allowed``). ``refusal``: why the
    pod goes to no node, None if it may. ``extended``: resources that a class backs. ``unbacked``: other extended resources that it requests
    next to them. ``held``: what a running pod that may be moved has of devices, as far as it matters which: (claim, request, kind, unit).
    """

    claims: tuple[Claim, ...] = ()
    allocated: tuple[str, ...] = ()
    refusal: str | None = None
    extended: tuple[Extended, ...] = ()
    unbacked: tuple[str, ...] = ()
    held: tuple[tuple[int, str, int, int | None], ...] = ()
