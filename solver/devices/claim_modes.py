"""The modes in which interdependent requests of a claim can be served: the alternative of each, and the values that must match.

Requests without common constraints are separate bundles. A mode of a bundle names the groups from which each
request takes devices. Only the numbers of devices, and attributes that must be distinct, stay open. Numbers
that add up for many pods can be dealt to them one by one, by integer decomposition of totally unimodular
polyhedra (Baum and Trotter 1978). This holds if at most one constraint per request asks for distinct values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from kubestow.models.devices.demand import DemandedClaim, DemandedConstraint, DemandedRequest
from kubestow.models.devices.inventory import DeviceBooks
from kubestow.solver.devices.device_groups import DeviceGroup, DeviceGroups, Wish, wish

#: Maximum number of modes of one bundle at one site. With more, attributes with the most values need not match.
#: If the alternatives alone exceed it, the bundle asks for nothing.
MAX_MODES = 200

Value = tuple[str, object]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Requests that constraints connect, or a single request. Names that nothing refers to are empty."""

    requests: tuple[tuple[DemandedRequest, ...], ...]
    constraints: tuple[DemandedConstraint, ...] = ()


@dataclass(eq=False, slots=True)
class Take:
    """The devices that one request takes.

    Attributes:
        count: Number of devices from all groups together.
        admin: True if the devices stay free.
        every: True if all devices of each group are taken, then ``spare`` ones, and at least one if there are
            no groups. Full shared devices are left out.
    """

    wish: Wish
    groups: tuple[DeviceGroup, ...]
    count: int
    admin: bool = False
    every: bool = False
    spare: tuple[DeviceGroup, ...] = ()


@dataclass(eq=False, slots=True)
class Mode:
    """A way to serve a bundle.

    Attributes:
        takes: The devices of each request.
        distinct: Positions of takes, and the attribute whose values must differ pairwise between their
            devices.
    """

    takes: list[Take]
    distinct: list[tuple[tuple[int, ...], str]]


def bundles(claim: DemandedClaim) -> list[Bundle]:
    """Return the requests of a claim in parts that no constraint connects."""
    parts: list[tuple[set[int], list[DemandedConstraint]]] = [({i}, []) for i in range(len(claim.requests))]
    for constraint in claim.constraints:
        connected = {i for i, ways in enumerate(claim.requests) if any(constraint.about(request.name) for request in ways)}
        if not connected:
            continue
        joined = [part for part in parts if part[0] & connected]
        parts = [part for part in parts if not part[0] & connected]
        parts.append((set().union(*(p[0] for p in joined)), [*(c for p in joined for c in p[1]), constraint]))
    return [_bundle(claim, *part) for part in sorted(parts, key=lambda part: min(part[0]))]


def _bundle(claim: DemandedClaim, members: set[int], constraints: list[DemandedConstraint]) -> Bundle:
    requests = [claim.requests[i] for i in sorted(members)]
    if not constraints:
        requests = [tuple(replace(request, name="", device_class="") for request in ways) for ways in requests]
    return Bundle(tuple(requests), tuple(constraints))


def modes(bundle: Bundle, site: int, groups: DeviceGroups, books: DeviceBooks, *, broken: bool) -> tuple[list[Mode], bool]:
    """Return the modes in which a bundle can be served at a site.

    Args:
        site: Index in the inventory's ``sites``.
        broken: True if requests for all devices fail at the site.

    Returns:
        The modes, and True if some are relaxed because there would be too many. A single mode without takes accepts anything.
    """
    listed: list[Mode] = []
    loose = False
    if prod(len(ways) for ways in bundle.requests) > MAX_MODES:
        return [Mode([], [])], True
    for ways in product(*bundle.requests):
        takes = [_take(request, site, groups, books, broken=broken) for request in ways]
        if any(take is None for take in takes):
            continue
        mode, matching = _constrained(Mode([take for take in takes if take is not None], []), ways, bundle.constraints)
        if mode is None:
            continue
        matching.sort(key=lambda match: len(match[2]))
        while prod(len(match[2]) for match in matching) > MAX_MODES:
            matching.pop()
            loose = True
        listed += [narrowed for narrowed in _matched(mode, matching) if all(_enough(take, books) for take in narrowed.takes)]
    if len(listed) > MAX_MODES:
        return [Mode([], [])], True
    return listed, loose


def _constrained(
    mode: Mode | None, ways: Sequence[DemandedRequest], constraints: Sequence[DemandedConstraint]
) -> tuple[Mode | None, list[tuple[tuple[int, ...], str, list[Value]]]]:
    """Narrow a mode to devices that have the attributes of the constraints.

    Constraints that ask for distinct values are added to the mode.

    Args:
        ways: The alternative that is chosen of each request, in the order of the mode's takes.

    Returns:
        The mode, or None if there are no such devices; and for each constraint that asks for equal values the positions of its
        takes, its attribute and the values that may match.
    """
    matching = []
    for constraint in constraints:
        positions = tuple(i for i, request in enumerate(ways) if constraint.about(request.name))
        mode = None if mode is None else _narrowed(mode, positions, constraint.attribute)
        if mode is None:
            break
        takes = [mode.takes[i] for i in positions]
        if not takes or (len(takes) == 1 and takes[0].count == 1 and not takes[0].every):
            continue
        if constraint.distinct:
            mode.distinct.append((positions, constraint.attribute))
        else:
            matching.append((positions, constraint.attribute, _common(takes, constraint.attribute)))
    return mode, matching


def _take(request: DemandedRequest, site: int, groups: DeviceGroups, books: DeviceBooks, *, broken: bool) -> Take | None:
    """Return the devices that a request takes at a site. None if a request for all devices can never be served.

    Args:
        broken: True if requests for all devices fail at the site.
    """
    wanted = wish(request)
    serving = groups.serving(wanted, site)
    if request.count is not None:
        return Take(wanted, serving, request.count, request.admin)
    fixed = tuple(group for group in groups.matching(wanted, site) if not group.kind.shared)
    spare = tuple(group for group in serving if group.kind.shared)
    if broken or not (fixed or spare) or any(group not in serving for group in fixed):
        return None
    return Take(wanted, fixed, sum(len(group.units) for group in fixed), request.admin, every=True, spare=spare)


def values(group: DeviceGroup, attribute: str) -> tuple[Value, ...]:
    """Return the typed values of an attribute of the group's devices; empty if they lack it."""
    attribute_values = group.kind.attributes.get(attribute)
    return () if attribute_values is None else tuple((attribute_values[0], value) for value in attribute_values[1])


def _keep(take: Take, attribute: str, value: Value | None) -> Take | None:
    """Return the take without devices that lack an attribute or do not have a given value.

    Return None if it needs all of its devices and loses some, or has none left.
    """

    def good(group: DeviceGroup) -> bool:
        own_values = values(group, attribute)
        return bool(own_values) if value is None else value in own_values

    groups = tuple(group for group in take.groups if good(group))
    spare = tuple(group for group in take.spare if good(group))
    if take.every and (len(groups) < len(take.groups) or not (groups or spare)):
        return None
    return replace(take, groups=groups, spare=spare)


def _narrowed(mode: Mode, positions: Sequence[int], attribute: str, value: Value | None = None) -> Mode | None:
    takes = list(mode.takes)
    for i in positions:
        kept = _keep(takes[i], attribute, value)
        if kept is None:
            return None
        takes[i] = kept
    return Mode(takes, mode.distinct)


def _common(takes: Sequence[Take], attribute: str) -> list[Value]:
    """Return the values for which each of these requests has some device."""
    common: dict[Value, None] = dict.fromkeys(v for group in (*takes[0].groups, *takes[0].spare) for v in values(group, attribute))
    for take in takes[1:]:
        here = {v for group in (*take.groups, *take.spare) for v in values(group, attribute)}
        common = dict.fromkeys(v for v in common if v in here)
    return list(common)


def _matched(mode: Mode, matching: Sequence[tuple[tuple[int, ...], str, list[Value]]]) -> Iterator[Mode]:
    for chosen in product(*(match[2] for match in matching)):
        narrowed: Mode | None = mode
        for (positions, attribute, _), value in zip(matching, chosen, strict=True):
            if narrowed is not None:
                narrowed = _narrowed(narrowed, positions, attribute, value)
        if narrowed is not None:
            yield narrowed


def _enough(take: Take, books: DeviceBooks) -> bool:
    """Return True if the groups of a take have enough free devices for one pod."""
    there = sum(len(group.units) if take.admin else group.free(books) for group in take.groups)
    return there >= take.count and (bool(take.groups) or not take.every or any(group.free(books) for group in take.spare))
