"""The device allocation of a growing and shrinking placement, and the devices that one more pod would get on each node.

The outcome of a search depends on the devices that a node sees and on their allocation, not on its name.
Nodes that agree in both share a *state* and the answer, across all placements of the instance.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kubestow.models.devices.demand import DemandedClaim
from kubestow.models.devices.inventory import DeviceBooks, Ids, Inventory, Pick, View
from kubestow.models.devices.table import DeviceTable
from kubestow.models.kube.selectors import Bools
from kubestow.solver.devices.allocator import AllocationError, allocate

Claims = tuple[DemandedClaim, ...]
#: The result of a search: devices by position in ``Site.visible``, a message if it is an error, None if it
#: fails.
_Answer = tuple[Pick, ...] | str | None


@dataclass
class _Memo:
    """Data shared by all states of one table.

    Attributes:
        watchers: By unit, the views that show it.
        sites: By view, its sites.
        of_counter: By counter, the views that list it.
        problems: By claims, their number.
        answers: By (problem, state), the result of the search.
        capacities: By view, its shared (unit, capacity) pairs.
    """

    watchers: dict[int, list[int]] = field(default_factory=dict)
    sites: list[list[int]] = field(default_factory=list)
    of_counter: dict[int, list[int]] = field(default_factory=dict)
    joined: bool = False
    static: list[int] = field(default_factory=list)
    units: list[Ids] = field(default_factory=list)
    capacities: list[list[tuple[int, str]]] = field(default_factory=list)
    interned: dict[Hashable, int] = field(default_factory=dict)
    problems: dict[Claims, int] = field(default_factory=dict)
    listed: list[Claims] = field(default_factory=list)
    answers: dict[tuple[int, int], _Answer] = field(default_factory=dict)
    rejected: list[Bools] = field(default_factory=list)  # per problem, by state
    known: list[Bools] = field(default_factory=list)
    rooms: dict[tuple[int, int, int], int] = field(default_factory=dict)
    first_views: list[int] = field(default_factory=list)
    first_sites: Ids = field(default_factory=lambda: np.zeros(0, dtype=np.int32))


class DeviceState:
    """The allocation and its queries.

    Attributes:
        books: The allocation, including the claims of the snapshot.
    """

    def __init__(self, table: DeviceTable) -> None:
        self.table, self.inventory = table, table.inventory
        self.books: DeviceBooks = table.inventory.books.copy()
        memo = self._memo = table.cached("states", lambda: _memo(table.inventory))
        self._dirty: set[int] = set()
        self._views, self._sites = list(memo.first_views), memo.first_sites.copy()
        if not memo.interned:  # the first one of the table
            self._views = [self._view_state(v) for v in range(len(self.inventory.views))]
            self._sites = np.zeros(len(self.inventory.sites), dtype=np.int32)
            self._refresh_sites(range(len(self.inventory.sites)))
            memo.first_views, memo.first_sites = list(self._views), self._sites.copy()

    @property
    def joined(self) -> bool:
        """True if some devices or counters serve several nodes."""
        return self._memo.joined

    # --- states -------------------------------------------------------------------------------------------------------

    def _intern(self, key: Hashable) -> int:
        return self._memo.interned.setdefault(key, len(self._memo.interned))

    def _view_state(self, v: int) -> int:
        memo, books = self._memo, self.books
        units = memo.units[v]
        in_use, shares = books.in_use[units].tobytes(), books.shares[units]
        shared: Hashable = ()
        if shares.any():
            shared = shares.astype(bool).tobytes(), tuple(books.consumed.get(part) for part in memo.capacities[v])
        counters = tuple(books.left[c] for c in self.inventory.views[v].counters)
        return self._intern((memo.static[v], in_use, shared, counters))

    def _refresh_sites(self, sites: Sequence[int] | range) -> None:
        for s in sites:
            views = self.inventory.sites[s].views
            self._sites[s] = self._intern(tuple(self._views[v] for v in views))

    def states(self) -> Ids:
        """Return int64[N], the state of each node. A pod gets the same devices on nodes of one state."""
        if self._dirty:
            sites: set[int] = set()
            for v in self._dirty:
                state = self._view_state(v)
                if state != self._views[v]:
                    self._views[v] = state
                    sites.update(self._memo.sites[v])
            self._dirty.clear()
            self._refresh_sites(sorted(sites))
        return np.asarray(self._sites[self.inventory.site_of])

    # --- queries ------------------------------------------------------------------------------------------------------

    def _problem(self, claims: Claims) -> int:
        memo = self._memo
        problem = memo.problems.get(claims)
        if problem is None:
            problem = memo.problems[claims] = len(memo.listed)
            memo.listed.append(claims)
            memo.rejected.append(np.zeros(0, dtype=bool))
            memo.known.append(np.zeros(0, dtype=bool))
        return problem

    def _answer(self, problem: int, state: int, n: int) -> _Answer:
        """Return the result for claims on node n, which is in this state."""
        memo = self._memo
        if (problem, state) not in memo.answers:
            site = self.inventory.site(n)
            answer: _Answer
            try:
                picks = allocate(self.inventory, self.table.matches, memo.listed[problem], site, self.books)
            except AllocationError as error:
                answer = str(error)
            else:
                answer = picks
                if picks is not None:
                    at = {device: position for position, device in enumerate(site.visible.tolist())}
                    answer = tuple(replace(pick, device=at[pick.device]) for pick in picks)
            memo.answers[problem, state] = answer
        return memo.answers[problem, state]

    def rejected(self, claims: Claims, where: Bools) -> Bools:
        """Return bool[N], the nodes among ``where`` on which claims get no devices."""
        mask = np.zeros(len(where), dtype=bool)
        if not claims:
            return mask
        problem, states = self._problem(claims), self.states()
        memo = self._memo
        if len(memo.known[problem]) < len(memo.interned):
            size = 2 * len(memo.interned)
            memo.known[problem] = np.resize(memo.known[problem], size) & (np.arange(size) < len(memo.known[problem]))
            memo.rejected[problem] = np.resize(memo.rejected[problem], size) & (np.arange(size) < len(memo.rejected[problem]))
        known, rejected = memo.known[problem], memo.rejected[problem]
        open_ = np.flatnonzero(where & ~known[states])
        if len(open_):
            new, first = np.unique(states[open_], return_index=True)
            for state, at in zip(new.tolist(), first.tolist(), strict=True):
                rejected[state] = not isinstance(self._answer(problem, state, int(open_[at])), tuple)
                known[state] = True
        np.logical_and(where, rejected[states], out=mask)
        return mask

    def find(self, claims: Claims, n: int) -> tuple[Pick, ...] | None:
        """Return the devices that claims currently get on node n."""
        answer = self._answer(self._problem(claims), int(self.states()[n]), n)
        if not isinstance(answer, tuple):
            return None
        visible = self.inventory.site(n).visible
        return tuple(replace(pick, device=int(visible[pick.device])) for pick in answer)

    def error(self, claims: Claims, n: int) -> str | None:
        """Return the message of a search that is an error on node n; None otherwise."""
        answer = self._answer(self._problem(claims), int(self.states()[n]), n) if claims else ()
        return answer if isinstance(answer, str) else None

    def room(self, claims: Claims, n: int, limit: int) -> int:
        """Return the number of pods with these claims that node n can take one after another, up to ``limit``."""
        key = (self._problem(claims), int(self.states()[n]), limit)
        room = self._memo.rooms.get(key)
        if room is None:
            booked: list[tuple[Pick, ...]] = []
            while len(booked) < limit and (picks := self.find(claims, n)) is not None and (picks or not booked):
                self.book(picks)
                booked.append(picks)
            room = limit if booked and not booked[-1] else len(booked)
            for picks in reversed(booked):
                self.book(picks, -1)
            self._memo.rooms[key] = room
        return room

    def book(self, picks: tuple[Pick, ...], times: int = 1) -> None:
        """Add devices to the allocation, or remove them if ``times`` is -1."""
        if picks:
            self.inventory.book(self.books, picks, times)
            for pick in picks:
                unit = self.inventory.devices[pick.device].unit
                self._dirty.update(self._memo.watchers[unit])
                for counter, _ in self.inventory.consumption.get(unit, ()):
                    self._dirty.update(self._memo.of_counter.get(counter, ()))

    def free(self, picks: tuple[Pick, ...]) -> bool:
        """Return True if all devices are currently free."""
        units = [self.inventory.devices[pick.device].unit for pick in picks if not pick.admin]
        return not any(self.books.in_use[unit] for unit in units)


def _memo(inventory: Inventory) -> _Memo:
    memo = _Memo(sites=[[] for _ in inventory.views])
    numbers: dict[Hashable, int] = {}
    units = np.array([device.unit for device in inventory.devices], dtype=np.int32)
    kinds = np.array([device.kind for device in inventory.devices], dtype=np.int32)
    for v, view in enumerate(inventory.views):
        memo.units.append(units[view.ids])
        devices = [(int(units[i]), inventory.kind(i)) for i in view.ids.tolist()]
        memo.capacities.append([(unit, name) for unit, kind in devices if kind.shared for name in kind.capacity])
        memo.static.append(numbers.setdefault(_traits(inventory, view, kinds), len(numbers)))
        for unit in units[view.ids].tolist():
            memo.watchers.setdefault(unit, []).append(v)
        for counter in view.counters:
            memo.of_counter.setdefault(counter, []).append(v)
    for s, site in enumerate(inventory.sites):
        for v in site.views:
            memo.sites[v].append(s)
    memo.joined = _joined(inventory)
    return memo


def _joined(inventory: Inventory) -> bool:
    """Return True if several nodes share a device or a counter."""
    seen: dict[Hashable, set[int]] = {}
    for s, site in enumerate(inventory.sites):
        for i in inventory.serving(site).tolist():
            for thing in (("unit", inventory.devices[i].unit), *(("counter", c) for c, _ in inventory.devices[i].counters)):
                seen.setdefault(thing, set()).add(s)
    crowded = {s for s, nodes in enumerate(np.bincount(inventory.site_of, minlength=len(inventory.sites)).tolist()) if nodes > 1}
    return any(len(sites) > 1 or not crowded.isdisjoint(sites) for sites in seen.values())


def _traits(inventory: Inventory, view: View, kinds: Ids) -> Hashable:
    """Return the properties of a view that a search can see, except the allocation."""
    elsewhere = tuple(at for at, i in enumerate(view.ids.tolist()) if i in view.elsewhere) if view.elsewhere else ()
    position = {counter: at for at, counter in enumerate(view.counters)}
    consumed: Hashable = ()
    if view.counters:
        consumed = tuple(tuple((position[c], amount) for c, amount in inventory.devices[i].counters) for i in view.ids.tolist())
    return kinds[view.ids].tobytes(), elsewhere, view.broken is not None, consumed
