"""The devices of a site in interchangeable clusters, and the devices that requests may get.

Devices of one kind with the same counters form a group. Groups that share counters, or the value of an
attribute that a constraint reads, form a cluster. Examples are one GPU with its partitions, and one NVLink group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from kubestow.models.devices.demand import DemandedClaim, DemandedRequest
from kubestow.solver.devices.device_groups import DeviceGroups, wish

Claims = tuple[DemandedClaim, ...]
Amounts = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class ClaimOption:
    """A request at this site, or one of its alternatives.

    Attributes:
        groups: (group, capacity that one share takes) of each group that may serve it.
        constraints: Positions of the claim's constraints on it.
    """

    request: DemandedRequest
    groups: tuple[tuple[int, Amounts], ...]
    constraints: tuple[int, ...]


class DeviceClusters:
    """The devices of one site for some pods. Each query supplies the free devices as books.

    Attributes:
        members: Groups of each cluster, by position in ``groups``.
        counters: Counters that the devices consume.
        scale: Factor that makes all amounts integral.
        built: A number for each cluster, equal for clusters with the same structure.
    """

    def __init__(self, groups: DeviceGroups, site: int, asks: Iterable[Claims]) -> None:
        distinct = list(dict.fromkeys(asks))
        self.groups = groups.of_site[site]
        self.group_of = {unit: g for g, group in enumerate(self.groups) for unit in group.units}
        counters = sorted({counter for group in self.groups for counter, _ in group.counters})
        self.counters, index = counters, {counter: i for i, counter in enumerate(counters)}
        self.totals = [groups.inventory.counters[counter] for counter in counters]
        self.scale = lcm(*self._denominators(distinct))
        self.uses = [tuple((index[c], int(amount * self.scale)) for c, amount in group.counters) for group in self.groups]
        self.capacity = [
            {name: int(entry.value * self.scale) for name, entry in group.kind.capacity.items()} if group.kind.shared else {}
            for group in self.groups
        ]
        number = {group.id: g for g, group in enumerate(self.groups)}
        self.options = {
            claims: [[self._options(groups, site, number, claim, r) for r in claim.requests] for claim in claims] for claims in distinct
        }
        self._cluster(distinct)

    def _denominators(self, requests: Sequence[Claims]) -> set[int]:
        denominators = {total.denominator for total in self.totals} | {1}
        for group in self.groups:
            denominators.update(amount.denominator for _, amount in group.counters)
            denominators.update(entry.value.denominator for entry in group.kind.capacity.values())
            for claims in requests:
                for request in (r for claim in claims for alternatives in claim.requests for r in alternatives):
                    denominators.update(amount.denominator for _, amount in group.kind.amounts(request.capacity) or ())
        return denominators

    def _options(
        self, groups: DeviceGroups, site: int, number: Mapping[int, int], claim: DemandedClaim, alternatives: Sequence[DemandedRequest]
    ) -> list[ClaimOption]:
        options = []
        for request in alternatives:
            wanted = wish(request)
            serving = groups.serving(wanted, site)
            if request.count is None and len(serving) < len(groups.matching(wanted, site)):
                serving = ()
            amounts = [group.kind.amounts(request.capacity) or () if group.kind.shared else () for group in serving]
            pairs = [
                (number[g.id], tuple((name, int(a * self.scale)) for name, a in each)) for g, each in zip(serving, amounts, strict=True)
            ]
            about = tuple(i for i, constraint in enumerate(claim.constraints) if constraint.about(request.name))
            options.append(ClaimOption(request, tuple(pairs), about))
        return options

    def _cluster(self, requests: Sequence[Claims]) -> None:
        """Join groups by counters and by distinguishing attributes, and number the structures of the clusters."""
        values = self._values({constraint.attribute for claims in requests for claim in claims for constraint in claim.constraints})
        telling = {key: members for key, members in values.items() if len(members) < len(self.groups) or key[0] == "counter"}
        static = self._static()
        linked = _linked(len(self.groups), telling.values())
        self.members = [sorted(members, key=lambda g: (repr(static[g]), g)) for members in linked]
        self.cluster_of = {g: c for c, members in enumerate(self.members) for g in members}
        self.place_of = {g: i for members in self.members for i, g in enumerate(members)}
        self.owned: list[list[int]] = []  # counters of each cluster, in the order of its groups
        attributes = {key: members for key, members in telling.items() if key[0] != "counter"}
        built = [self._structure(members, static, attributes) for members in self.members]
        numbered = {each: i for i, each in enumerate(dict.fromkeys(built))}
        self.built = [numbered[each] for each in built]  # the same number for clusters with the same structure

    def _values(self, read: set[str]) -> dict[tuple[object, ...], list[int]]:
        """Return the groups that use each counter, or have each value of the attributes ``read``."""
        values: dict[tuple[object, ...], list[int]] = {}
        for g, group in enumerate(self.groups):
            for counter, _ in self.uses[g]:
                values.setdefault(("counter", counter), []).append(g)
            for name in sorted(read & group.kind.attributes.keys()):
                type_, entries = group.kind.attributes[name]
                for entry in entries:
                    values.setdefault((name, type_, entry), []).append(g)
        return values

    def _static(self) -> list[tuple[object, ...]]:
        """Return the traits of each group apart from links: the requests that it serves, its capacity and its devices."""
        options = [option for each in self.options.values() for claim in each for alternatives in claim for option in alternatives]
        served = [dict(option.groups) for option in options]
        every = any(option.request.count is None for option in options)
        return [
            (tuple(each.get(g) for each in served), tuple(sorted(self.capacity[g].items())), len(group.units) if every else 0)
            for g, group in enumerate(self.groups)
        ]

    def _structure(
        self, members: Sequence[int], static: Sequence[tuple[object, ...]], attributes: Mapping[tuple[object, ...], Sequence[int]]
    ) -> tuple[object, ...]:
        """Return the structure of a cluster, and append its counters to ``owned``."""
        numbers: dict[tuple[object, ...], int] = {}
        shape: list[object] = []
        owned: dict[int, int] = {}
        for g in members:
            uses = tuple((owned.setdefault(counter, len(owned)), amount) for counter, amount in self.uses[g])
            same = tuple((key[0], numbers.setdefault(key, len(numbers))) for key, having in attributes.items() if g in having)
            shape.append((static[g], uses, same))
        self.owned.append(list(owned))
        return tuple(shape)


def _linked(size: int, links: Iterable[Sequence[int]]) -> list[list[int]]:
    """Return the connected groups of 0 to ``size`` - 1, each ascending, in the order of their first members."""
    leader = list(range(size))

    def root(g: int) -> int:
        while leader[g] != g:
            g = leader[g]
        return g

    for link in links:
        for g in link[1:]:
            leader[root(g)] = root(link[0])
    found: dict[int, list[int]] = {}
    for g in range(size):
        found.setdefault(root(g), []).append(g)
    return list(found.values())
