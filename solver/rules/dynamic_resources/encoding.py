"""The encoding of claims for devices, for DynamicResources: some allocation serves all pods, in any order.

Pods are aggregated by their requests (bundles, :mod:`kubestow.solver.devices.claim_modes`) and by the devices their nodes see (sites).
For each mode of a bundle, a variable counts the pods served in it. For each request and group of devices, a variable counts the devices
taken, unless the number is given. Rows limit devices, counters, and the capacity of shared devices. A shared claim acts as one pod,
served at most once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, lcm
from typing import TypeAlias

import numpy as np

from kubestow.models.devices.demand import DemandedClaim
from kubestow.models.devices.inventory import DeviceBooks
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.devices.claim_modes import Bundle, Mode, Take, bundles, modes, values
from kubestow.solver.devices.device_groups import DeviceGroup, DeviceGroups
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.dynamic_resources.words import DeviceShortage, SharedClaim
from kubestow.solver.runtime.graph import connected

#: Largest factor of a row; larger ones are rounded.
_MAX_FACTOR = 2**40
#: A part of a sum: (variable, factor, upper bound of the variable).
Term: TypeAlias = "tuple[cp_model.IntVar, Fraction | int, int]"


@dataclass(frozen=True, slots=True)
class Anchor:
    """The place where a shared claim may be allocated: one node, or any of a site's nodes that see the same devices. ``nodes`` are those
    of its pods."""

    key: str
    site: int
    nodes: tuple[int, ...]


@dataclass(eq=False)
class _DeviceConstraints:
    """Constraints that are stated together: sums of terms that are == 0 or <= 0. Several nodes share each of the ``pools``."""

    equations: list[tuple[list[Term], str]] = field(default_factory=list)
    classes: set[int] = field(default_factory=set)
    nodes: set[int] = field(default_factory=set)
    drivers: set[str] = field(default_factory=set)
    pools: set[str] = field(default_factory=set)


@dataclass(eq=False)
class _CapacityRow(_DeviceConstraints):
    """The constraint Σ terms ≤ room."""

    room: Fraction = Fraction(0)
    terms: list[Term] = field(default_factory=list)

    @property
    def slack(self) -> bool:
        return sum(factor * upper for _, factor, upper in self.terms) <= self.room


@dataclass(eq=False)
class _Load(_DeviceConstraints):
    """The pods (Σ terms) that request a bundle at a site, or a shared claim, and the keys of the rows that they use."""

    terms: list[Term] = field(default_factory=list)
    rows: dict[Hashable, None] = field(default_factory=dict)


class DeviceEncoder:
    """The encoder of claims.

    Args:
        books: The allocation in the state in which the model is built.
        asked: By class, its claims by sets of nodes (bool[N]) on which they are equal.
        serves: For each shared claim that is allocated in that state, bool[N], the nodes where it serves.
    """

    def __init__(
        self,
        encoding: PlacementModel,
        groups: DeviceGroups,
        books: DeviceBooks,
        variants: Mapping[int, Sequence[tuple[Bools, tuple[DemandedClaim, ...]]]],
        serves: Mapping[str, Bools],
    ) -> None:
        self._e, self._groups, self._books = encoding, groups, books
        self._inventory = groups.inventory
        self._asked, self._serves = variants, serves
        self._loads: dict[tuple[int, Bundle, Anchor | None], _Load] = {}
        self._rows: dict[Hashable, _CapacityRow] = {}
        self._ways: dict[tuple[int, Bundle], list[Mode]] = {}
        self._first: dict[int, cp_model.IntVar] = {}  # by shared device, whether it has shares, if counters are consumed by the first share
        self._present: dict[tuple[str, int], cp_model.IntVar] = {}  # whether pods of a shared claim are on a node
        self._bundles: dict[DemandedClaim, list[Bundle]] = {}
        self.loose = False  # True if the model relaxes some claims

    def run(self) -> None:
        users: dict[str, dict[int, list[int]]] = {}  # claim -> node -> classes
        shared: dict[str, DemandedClaim] = {}
        for g, variants in self._asked.items():
            nodes = self._e.nodes_of(g)
            for mask, claims in variants:
                here = nodes[mask[nodes]].tolist()
                for claim in claims:
                    if claim.key is None:
                        for n in here:
                            self._ask(g, n, claim)
                    elif here:
                        shared[claim.key] = claim
                        for n in here:
                            users.setdefault(claim.key, {}).setdefault(n, []).append(g)
        for key, at in users.items():
            with self._e.about(SharedClaim(key), sorted({g for here in at.values() for g in here})):
                self._share(shared[key], at)
        for (site, bundle, anchor), load in list(self._loads.items()):
            self._serve(site, bundle, anchor, load)
        self._emit()

    def _ask(self, g: int, n: int, claim: DemandedClaim) -> None:
        for bundle in self._parts(claim):
            load = self._loads.setdefault((int(self._inventory.site_of[n]), bundle, None), _Load())
            load.terms.append((self._e.x[g, n], 1, self._e.upper(g, n)))
            load.classes.add(g)
            load.nodes.add(n)

    def _parts(self, claim: DemandedClaim) -> list[Bundle]:
        parts = self._bundles.get(claim)
        if parts is None:
            parts = self._bundles[claim] = bundles(claim)
        return parts

    # --- shared claims ----------------------------------------------------------------------------------------------------------

    def _share(self, claim: DemandedClaim, at: Mapping[int, Sequence[int]]) -> None:
        """Allocate a claim at most once, on a node of one of its pods. The other pods are where that allocation serves. ``at`` has the
        classes by node."""
        model, key = self._e.model, claim.key
        assert key is not None
        allocated = self._serves.get(key)
        if allocated is not None:
            model.add(self._e.sum([self._e.x[g, n] for n, here in at.items() if not allocated[n] for g in here]) == 0)
            return
        for n, here in at.items():
            present = self._e.any_of(self._e.cells(here, [n]))
            assert present is not None
            self._present[key, n] = present
        literals: dict[Anchor, cp_model.IntVar] = {}
        ways: dict[int, list[cp_model.IntVar]] = {n: [] for n in at}
        for anchor in self._anchors(claim, at):
            literal = literals[anchor] = model.new_bool_var("")
            model.add_bool_or([~literal, *(self._present[key, n] for n in anchor.nodes)])
            reach = self._reach(claim, anchor)
            for n in at:
                if reach[n]:
                    ways[n].append(literal)
            for bundle in self._parts(claim):
                load = self._loads.setdefault((anchor.site, bundle, anchor), _Load())
                load.terms.append((literal, 1, 1))
                load.classes.update(g for here in at.values() for g in here)
                load.nodes.update(anchor.nodes)
        model.add(self._e.sum(list(literals.values())) <= 1)
        for n, possible in ways.items():
            model.add_bool_or([~self._present[key, n], *possible])

    def _anchors(self, claim: DemandedClaim, at: Iterable[int]) -> list[Anchor]:
        assert claim.key is not None
        nodes: dict[int, list[int]] = {}
        for n in at:
            nodes.setdefault(int(self._inventory.site_of[n]), []).append(n)
        anchors = []
        for site, here in nodes.items():
            apart = any(group.node for group in self._groups.of_site[site])
            anchors += [Anchor(claim.key, site, (n,)) for n in here] if apart else [Anchor(claim.key, site, tuple(here))]
        return anchors

    def _reach(self, claim: DemandedClaim, anchor: Anchor) -> Bools:
        """Return bool[N], the nodes that an allocation at the anchor may serve."""
        reach = np.ones(self._e.cluster.n_nodes, dtype=bool)
        for bundle in self._parts(claim):
            some = np.zeros_like(reach)
            for mode in self._modes(anchor.site, bundle):
                whole = np.ones_like(reach)
                for take in mode.takes:
                    masks = [self._served(group) for group in take.groups or take.spare]
                    whole &= np.logical_and.reduce(masks) if take.every and take.groups else np.logical_or.reduce(masks)
                some |= whole
            reach &= some
        reach[list(anchor.nodes)] = True
        return reach

    def _served(self, group: DeviceGroup) -> Bools:
        """Return bool[N], the nodes that an allocation of these devices serves, apart from the node where it is made."""
        if group.node or group.selector is None:
            return np.full(self._e.cluster.n_nodes, not group.node)
        return self._inventory.selectors[group.selector]

    def _bind(self, anchor: Anchor, group: DeviceGroup, terms: Sequence[Term]) -> None:
        """Exclude pods of a shared claim from nodes where one of its devices does not serve."""
        served = self._served(group)
        away = [present for (key, n), present in self._present.items() if key == anchor.key and n not in anchor.nodes and not served[n]]
        if away and terms:
            used = self._e.model.new_bool_var("")
            self._e.model.add(_total(terms) == 0).only_enforce_if(~used)
            for present in away:
                self._e.model.add_bool_or([~used, ~present])

    # --- modes ------------------------------------------------------------------------------------------------------------------

    def _modes(self, site: int, bundle: Bundle) -> list[Mode]:
        listed = self._ways.get((site, bundle))
        if listed is None:
            broken = self._inventory.broken(self._inventory.sites[site]) is not None
            listed, loose = modes(bundle, site, self._groups, self._books, broken=broken)
            self._ways[site, bundle] = listed
            self.loose |= loose
        return listed

    def _serve(self, site: int, bundle: Bundle, anchor: Anchor | None, load: _Load) -> None:
        """Distribute pods over modes, and add the devices that they take in each."""
        ways = self._modes(site, bundle)
        if len(ways) == 1:
            self._serve_in(ways[0], anchor, load, load.terms)
            return
        upper = _most(load.terms)
        chosen: list[Term] = [(self._integer(upper), 1, upper) for _ in ways]
        load.equations.append(([*load.terms, *_times(chosen, -1)], "=="))
        for mode, pods in zip(ways, chosen, strict=True):
            self._serve_in(mode, anchor, load, [pods])

    def _integer(self, upper: int) -> cp_model.IntVar:
        return self._e.model.new_int_var(0, upper, "")

    def _serve_in(self, mode: Mode, anchor: Anchor | None, load: _Load, pods: Sequence[Term]) -> None:
        """Add the devices that pods (Σ) take in a mode."""
        parts = [self._take(load, take, pods) for take in mode.takes]
        for take, part in zip(mode.takes, parts, strict=True):
            for group, terms in part.items():
                load.drivers.add(group.kind.driver)
                if group.pool:
                    load.pools.add(group.pool)
                if not take.admin:
                    self._charge(load, take, group, terms)
                if anchor is not None:
                    with self._e.about(SharedClaim(anchor.key), sorted(load.classes)):
                        self._bind(anchor, group, terms)
        for positions, attribute in mode.distinct:
            columns: dict[object, list[Term]] = {}
            for i in positions:
                for group, terms in parts[i].items():
                    for value in values(group, attribute):
                        columns.setdefault(value, []).extend(terms)
            load.equations += [([*column, *_times(pods, -1)], "<=") for column in columns.values()]

    def _take(self, load: _Load, take: Take, pods: Sequence[Term]) -> dict[DeviceGroup, list[Term]]:
        """Return, for each group, the number of devices that pods take by one request, as terms. Rows are added to ``load``."""
        if take.every:
            return self._take_every(load, take, pods)
        if len(take.groups) == 1:
            return {take.groups[0]: _times(pods, take.count)}
        upper = _most(pods)
        devices: dict[DeviceGroup, list[Term]] = {}
        for group in take.groups:
            there = len(group.units) if take.admin else group.free(self._books)
            again = group.kind.shared or take.admin  # several pods may take the same device, each of them once
            limit = upper * min(there, take.count) if again else min(there, upper * take.count)
            if limit:
                term: Term = (self._integer(limit), 1, limit)
                devices[group] = [term]
                if again and there < take.count:
                    load.equations.append(([term, *_times(pods, -there)], "<="))
        load.equations.append(([t for terms in devices.values() for t in terms] + _times(pods, -take.count), "=="))
        return devices

    def _take_every(self, load: _Load, take: Take, pods: Sequence[Term]) -> dict[DeviceGroup, list[Term]]:
        devices = {group: _times(pods, len(group.units)) for group in take.groups}
        upper, less = _most(pods), _times(pods, -1)
        for group in take.spare:
            devices[group] = [(self._integer(upper), 1, upper)]
            load.equations.append(([*devices[group], *less], "<="))
        if not take.groups:
            load.equations.append(([*pods, *_times([t for terms in devices.values() for t in terms], -1)], "<="))
        return devices

    # --- supply -----------------------------------------------------------------------------------------------------------------

    def _charge(self, load: _Load, take: Take, group: DeviceGroup, terms: list[Term]) -> None:
        """Add devices of a group to the rows of the amounts they consume."""
        if not group.kind.shared:
            self._add(load, group.row, group, group.free(self._books), terms)
            for counter, amount in group.counters:
                self._add(load, ("counter", counter), group, self._books.left[counter], _times(terms, amount))
            return
        unit = group.units[0]
        for name, amount in group.kind.amounts(take.wish.capacity) or ():
            room = group.kind.capacity[name].value - self._books.consumed.get((unit, name), Fraction(0))
            self._add(load, ("capacity", unit, name), group, room, _times(terms, amount))
        if group.counters and not self._books.shares[unit]:
            self._first_share(load, group, terms)

    def _first_share(self, load: _Load, group: DeviceGroup, terms: list[Term]) -> None:
        """Consume the counters once, for any number of shares."""
        used = self._first.get(group.units[0])
        if used is None:
            used = self._first[group.units[0]] = self._e.model.new_bool_var("")
            for counter, amount in group.counters:
                self._add(load, ("counter", counter), group, self._books.left[counter], [(used, amount, 1)])
        for counter, _ in group.counters:
            self._add(load, ("counter", counter), group, self._books.left[counter], [])
        limit = _most(terms)
        load.equations.append(([*terms, (used, -limit, 1)], "<="))

    def _add(self, load: _Load, key: Hashable, group: DeviceGroup, room: Fraction | int, terms: Iterable[Term]) -> None:
        row = self._rows.setdefault(key, _CapacityRow(room=max(Fraction(room), Fraction(0))))
        row.drivers.add(group.kind.driver)
        if group.pool:
            row.pools.add(group.pool)
        row.terms += terms
        row.classes |= load.classes
        row.nodes |= load.nodes
        load.rows[key] = None

    # --- constraints ------------------------------------------------------------------------------------------------------------

    def _emit(self) -> None:
        """Add the rows that can be short, and the equations of their loads, in connected parts."""
        tight = {key: row for key, row in self._rows.items() if not row.slack}
        parts: list[_DeviceConstraints] = [*tight.values()]
        place = {key: i for i, key in enumerate(tight)}
        links = []
        for load in self._loads.values():
            if load.equations:
                links.append([len(parts), *(place[key] for key in load.rows if key in place)])
                parts.append(load)
        for members in connected(links, range(len(parts))):
            together = [parts[i] for i in members]
            with self._about(together):
                for part in together:
                    for terms, sign in part.equations:
                        self._e.model.add(_total(terms) == 0 if sign == "==" else _total(terms) <= 0)
                    if isinstance(part, _CapacityRow):
                        factors, room = _scaled(part.terms, part.room)
                        self._e.model.add(cp_model.LinearExpr.weighted_sum([v for v, _, _ in part.terms], factors) <= room)

    def _about(self, parts: Sequence[_DeviceConstraints]) -> AbstractContextManager[None]:
        drivers = sorted({driver for part in parts for driver in part.drivers})
        pools = sorted({pool for part in parts for pool in part.pools})
        nodes = {n for part in parts for n in part.nodes}
        classes = sorted({g for part in parts for g in part.classes})
        pool = ", ".join(pools) if pools else None
        return self._e.about(DeviceShortage(tuple(drivers), pool), classes, nodes.pop() if len(nodes) == 1 else None)


def _times(terms: Iterable[Term], factor: Fraction | int) -> list[Term]:
    return [(variable, factor * f, upper) for variable, f, upper in terms]


def _most(terms: Iterable[Term]) -> int:
    return int(sum(factor * upper for _, factor, upper in terms))


def _total(terms: Sequence[Term]) -> cp_model.LinearExprT:
    return cp_model.LinearExpr.weighted_sum([variable for variable, _, _ in terms], [int(factor) for _, factor, _ in terms])


def _scaled(terms: Sequence[Term], room: Fraction) -> tuple[list[int], int]:
    """Return integral factors and room of Σ terms ≤ room, in units of the gcd of the factors. If these are too large, use larger units,
    rounded down on both sides."""
    factors = [Fraction(factor) for _, factor, _ in terms]
    whole = lcm(*(factor.denominator for factor in factors))
    unit = Fraction(gcd(*(int(factor * whole) for factor in factors)), whole)
    largest = max(*factors, room) / unit
    if largest > _MAX_FACTOR:
        unit *= -(-largest // _MAX_FACTOR)
    return [int(factor / unit) for factor in factors], int(room / unit)
