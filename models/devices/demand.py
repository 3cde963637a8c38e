"""What a pod asks of devices, resolved: its claims with classes, selectors and constraints, and what keeps it from every node."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Request:
    """Devices of one kind. ``name``: as results name it, ``request`` or ``request/alternative``. ``count``: None asks for all that match.
    ``selectors``: expressions, those of the class first. ``tolerations``: (key, operator, value, effect). ``capacity``: requested amounts
    by name."""

    name: str
    count: int | None
    selectors: tuple[str, ...] = ()
    tolerations: tuple[tuple[str, str, str, str], ...] = ()
    capacity: tuple[tuple[str, Fraction], ...] = ()
    admin: bool = False


@dataclass(frozen=True, slots=True)
class Constraint:
    """``attribute``: full or bare name. ``distinct``: values differ pairwise; else all are the same. ``requests``: names that it is about,
    empty for all."""

    attribute: str
    distinct: bool
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that is not allocated. ``requests``: alternatives each, the first that works is taken; most have one. ``key``:
    ``namespace/name`` of a claim that pods share, None for one that each pod of the class has of its own. ``entry``: the name of the pod's
    entry in spec.resourceClaims (of the first pod that has it), empty for the claim that extended resources make."""

    requests: tuple[tuple[Request, ...], ...]
    constraints: tuple[Constraint, ...] = ()
    key: str | None = None
    entry: str = ""


@dataclass(frozen=True, slots=True)
class Demand:
    """All that a pod asks for. ``claims``: to be allocated, in the order of the allocator. ``allocated``: ``namespace/name`` of claims that
    are allocated already (where their node selector does not match, the pod cannot go). ``refusal``: why the pod goes to no node, None if
    it may. ``extended``: resources that a DeviceClass backs: (resource, class, count), those of one container each."""

    claims: tuple[Claim, ...] = ()
    allocated: tuple[str, ...] = ()
    refusal: str | None = None
    extended: tuple[tuple[str, str, int], ...] = ()
