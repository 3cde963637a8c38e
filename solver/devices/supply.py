"""Devices as resources: amounts that bound the pods of a node together, independent of the devices they get.

Each column is a necessary condition: the number of devices of some kinds, the capacity of shared devices, the
counters of partitions. Further columns count the pieces larger than a half, a third or a quarter of the
largest device or counter (dual feasible functions, Fekete and Schepers, doi:10.1007/s101070100243). Bounds
and the order of construction treat them like CPU.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from fractions import Fraction
from math import floor, gcd, lcm
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.devices.demand import DemandedClaim, DemandedRequest
from kubestow.models.devices.inventory import DeviceKind
from kubestow.models.devices.table import DeviceTable
from kubestow.solver.devices.device_groups import groups_of, wish

#: Number of further columns: for pieces of which a device or counter holds at most 1, 2, …
MAX_ROUNDINGS: Final = 4
Kinds = frozenset[int]
#: A measured amount: devices, a capacity by driver and name, or counters by their position in the consumption.
Measure = tuple[str, Hashable]
_DEVICES: Final = ("devices", None)
#: A request: the kinds that may serve it, the number of devices, and the minimum amounts of each device.
_Piece = tuple[Kinds, int, dict[Measure, Fraction]]


def supply(cluster: Cluster) -> tuple[Ints, Ints]:
    """Return the request of a pod of each class, int64[G, C], and the supply of each node, int64[N, C]."""
    table = cluster.devices
    if table is None:
        return np.zeros((cluster.n_classes, 0), dtype=np.int64), np.zeros((cluster.n_nodes, 0), dtype=np.int64)
    return table.cached("supply", lambda: _Supply(table, cluster).columns(), of=cluster.classes)


class _Supply:
    def __init__(self, table: DeviceTable, cluster: Cluster) -> None:
        self._wish = wish
        self._table, self._cluster, self._groups = table, cluster, groups_of(table)
        self._serving: dict[DemandedRequest, Kinds] = {}
        self._least: dict[int, dict[Measure, Fraction]] = {}  # minimum counters that a device of a kind consumes
        for group in self._groups.groups:
            uses: dict[Measure, Fraction] = {("counter", at): amount for at, (_, amount) in enumerate(group.counters)}
            before = self._least.setdefault(group.kind.id, dict(uses))
            self._least[group.kind.id] = {at: min(before[at], uses[at]) for at in before.keys() & uses.keys()}

    def columns(self) -> tuple[Ints, Ints]:
        pieces_by_class = [self._asked(g) for g in range(self._cluster.n_classes)]
        sites, site_of = len(self._groups.of_site), self._groups.inventory.site_of
        demand, free = [np.zeros((0, len(pieces_by_class)), dtype=np.int64)], [np.zeros((0, sites), dtype=np.int64)]
        for kinds in self._sets():
            pieces = [[(count, takes) for serving, count, takes in each if serving <= kinds] for each in pieces_by_class]
            amounts_by_site = [self._held(s, kinds) for s in range(sites)]
            for measure in dict.fromkeys(measure for each in pieces for _, takes in each for measure in takes):
                demands = [[(count, takes[measure]) for count, takes in each if measure in takes] for each in pieces]
                supplies = [parts.get(measure, []) for parts in amounts_by_site]
                for unit in self._units(demands, supplies):
                    demand.append(_row(sum(count * floor(amount / unit) for count, amount in each) for each in demands))
                    free.append(_row(sum(floor(residual / unit) for residual in parts) for parts in supplies))
        return np.concatenate(demand).T.copy(), np.concatenate(free).T[site_of]

    @staticmethod
    def _units(demands: Sequence[Sequence[tuple[int, Fraction]]], supplies: Sequence[Sequence[Fraction]]) -> Iterator[Fraction]:
        """Yield the unit that makes all amounts integral, and larger ones for rounding."""
        amounts = {amount for pieces in demands for _, amount in pieces if amount}
        if not amounts:
            return
        scale = lcm(*(amount.denominator for amount in amounts))
        unit = Fraction(gcd(*(int(amount * scale) for amount in amounts)), scale)
        yield unit
        largest = max((residual for parts in supplies for residual in parts), default=Fraction(0)) / unit
        rounded = {unit * (floor(largest / parts) + 1) for parts in range(2, MAX_ROUNDINGS + 2)}
        yield from sorted(each for each in rounded if min(amounts) < each <= max(amounts))

    # --- requests ---------------------------------------------------------------------------------------------------------------

    def _asked(self, g: int) -> list[_Piece]:
        """Return the requests of a pod of the class, except those that depend on the node, on other pods or on the alternative."""
        demand = self._cluster.classes[g].devices
        if demand is None or demand.refusal is not None:
            return []
        variants = [claims for nodes, claims in self._table.variants(demand) if nodes.any()]
        common = [claim for claim in variants[0] if all(claim in claims for claims in variants[1:])] if variants else []
        return [piece for claim in common if claim.key is None for piece in self._pieces(claim)]

    def _pieces(self, claim: DemandedClaim) -> Iterator[_Piece]:
        for request, *others in claim.requests:
            if others or request.admin or not request.count:
                continue
            serving = self._served(request)
            kinds = [self._groups.inventory.kinds[kind] for kind in sorted(serving)]
            if kinds and len({kind.shared for kind in kinds}) == 1:
                each = [self._takes(request, kind) for kind in kinds]
                measures = [measure for measure in each[0] if all(measure in takes for takes in each)]
                yield serving, request.count, {measure: min(takes[measure] for takes in each) for measure in measures}

    def _takes(self, request: DemandedRequest, kind: DeviceKind) -> dict[Measure, Fraction]:
        """Return the minimum amounts that a device of a kind provides to a request."""
        if not kind.shared:
            return {_DEVICES: Fraction(1), **self._least.get(kind.id, {})}
        return {(kind.driver, name): amount for name, amount in kind.amounts(request.capacity) or ()}

    def _served(self, request: DemandedRequest) -> Kinds:
        """Return the kinds that may serve a request at any site."""
        kinds = self._serving.get(request)
        if kinds is None:
            sites = range(len(self._groups.of_site))
            kinds = frozenset(group.kind.id for s in sites for group in self._groups.serving(self._wish(request), s))
            self._serving[request] = kinds
        return kinds

    def _sets(self) -> list[Kinds]:
        """Return the sets of kinds that serve requests, and the unions of sets that overlap or consume the same counters."""
        single = list(dict.fromkeys(kinds for kinds in self._serving.values() if kinds))
        drawing: dict[int, set[int]] = {}
        for group in self._groups.groups:
            for counter, _ in group.counters:
                drawing.setdefault(counter, set()).add(group.kind.id)
        served = frozenset().union(*single)
        unions: list[Kinds] = []
        for kinds in dict.fromkeys([*single, *(served & kinds for kinds in drawing.values())]):
            joined = kinds.union(*(union for union in unions if union & kinds))
            unions = [union for union in unions if not union & kinds] + [joined]
        return list(dict.fromkeys([*single, *unions]))

    # --- supply -----------------------------------------------------------------------------------------------------------------

    def _held(self, site: int, kinds: Kinds) -> dict[Measure, list[Fraction]]:
        """Return the free amounts of devices of these kinds: in total, by counter, and by shared device."""
        books = self._groups.inventory.books
        free: dict[Measure, list[Fraction]] = {}
        seen: set[tuple[int, int]] = set()
        for group in self._groups.of_site[site]:
            number = group.free(books)
            if group.kind.id not in kinds or not number:
                continue
            if group.kind.shared:
                for name, entry in group.kind.capacity.items():
                    residual = entry.value - books.consumed.get((group.units[0], name), Fraction(0))
                    free.setdefault((group.kind.driver, name), []).append(max(residual, Fraction(0)))
                continue
            free.setdefault(_DEVICES, []).append(Fraction(number))
            for at, (counter, _) in enumerate(group.counters):
                if (at, counter) not in seen:
                    seen.add((at, counter))
                    free.setdefault(("counter", at), []).append(max(books.left[counter], Fraction(0)))
        return free


def _row(amounts: Iterable[int]) -> Ints:
    return np.array([list(amounts)], dtype=np.int64)
