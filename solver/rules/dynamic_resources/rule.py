"""DynamicResources: claims of devices, and extended resources that a DeviceClass backs.

kube-scheduler gives each arriving pod the first devices that its search finds. So the remainder depends on
the bind order, which the incremental face replays. The encoding states only what every order requires: some
choice of devices serves all pods.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (KEP-4381), as of v1.36.2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.models.devices.demand import DemandedClaim, DeviceDemand
from kubestow.models.devices.inventory import Pick
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.devices.device_groups import groups_of
from kubestow.solver.devices.shortage import summed, why_not
from kubestow.solver.devices.state import DeviceState
from kubestow.solver.devices.supply import supply
from kubestow.solver.rules.base import UNLIMITED_PODS, Rule
from kubestow.solver.rules.batch_limits import BatchLimits
from kubestow.solver.rules.dynamic_resources.encoding import DeviceEncoder
from kubestow.solver.rules.dynamic_resources.node_order import DeviceOrder
from kubestow.solver.rules.dynamic_resources.remedies import DeviceRemedies
from kubestow.solver.rules.dynamic_resources.words import DeviceWords


@dataclass
class _Shared:
    """A claim that pods share, allocated by the first one.

    Attributes:
        picks: Its devices.
        nodes: bool[N], the nodes where its devices can be used.
        users: Number of placed pods that use it.
    """

    picks: tuple[Pick, ...]
    nodes: Bools
    users: int = 0


@dataclass
class _ClassDemand:
    """The device requests of a class.

    Attributes:
        variants: Claims by sets of nodes on which they are equal.
        shared: Claims that other pods may use, too.
        barred: bool[N], nodes that its allocated claims and other resources exclude.
        allocations: By node, the devices of running pods.
    """

    demand: DeviceDemand
    variants: list[tuple[Bools, tuple[DemandedClaim, ...]]]
    barred: Bools
    shared: tuple[str, ...] = ()
    allocations: dict[int, list[tuple[Pick, ...]]] = field(default_factory=dict)


class DynamicResources(DeviceWords, DeviceRemedies):
    """A node accepts a pod if its allocated claims allow the node, and its other claims get their devices there."""

    name = "DynamicResources"
    first_come = supplied = True
    any_order = whole_units = tracks_moves = settled = survives_merging = for_good = False
    reads = ("devices",)
    repairable, order_links = Rule.repairable, Rule.order_links  # classes may compete on any node
    local = False  # pools span nodes and claims span pods; also a node's maximum depends on the order, see ``most``

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._nothing = np.zeros(cluster.n_nodes, dtype=bool)
        self._requests: list[_ClassDemand | None] = [None] * cluster.n_classes
        self._shared: dict[str, _Shared] = {}
        self._placed: dict[tuple[int, int], list[tuple[Pick, ...]]] = {}
        self._never: dict[int, Bools] = {}
        self._state: DeviceState | None = None
        if cluster.devices is not None:
            self._state = DeviceState(cluster.devices)
            for g, cls in enumerate(cluster.classes):
                if cls.devices is not None:
                    self._requests[g] = self._read(g, cls.devices)
            self._never = {g: self._hopeless(requests) for g, requests in enumerate(self._requests) if requests is not None}

    def _read(self, g: int, demand: DeviceDemand) -> _ClassDemand:
        table = self.cluster.devices
        assert table is not None
        barred = self._nothing | (demand.refusal is not None)
        for key in demand.allocated:
            barred |= ~table.allowed[key]
        for name in demand.unbacked:
            barred |= ~table.listed[name]
        shared = tuple(dict.fromkeys(claim.key for claim in demand.claims if claim.key is not None))
        requests = _ClassDemand(demand, table.variants(demand), barred, shared)
        for i in self.cluster.classes[g].pods if demand.held else ():
            node = self.cluster.snapshot.pods[i].spec.nodeName or ""
            requests.allocations.setdefault(self.cluster.nodes.names.index(node), []).append(table.held[i])
        return requests

    @property
    def state(self) -> DeviceState:
        assert self._state is not None
        return self._state

    def concerned(self, g: int) -> bool:
        """Return True if pods of the class take devices."""
        requests = self._requests[g]
        return requests is not None and requests.demand.refusal is None and bool(requests.demand.claims or requests.demand.extended)

    def reaches(self, g: int) -> bool:
        """Return True if the devices of a pod of the class on one node affect other nodes, because a claim or a pool is shared."""
        requests = self._requests[g]
        return requests is not None and bool(
            requests.shared or ((requests.demand.claims or requests.demand.extended) and self.state.joined)
        )

    def _unallocated(self, claims: tuple[DemandedClaim, ...]) -> tuple[DemandedClaim, ...]:
        """Return the claims that are not allocated yet."""
        return tuple(claim for claim in claims if claim.key not in self._shared) if self._shared else claims

    def _hopeless(self, requests: _ClassDemand) -> Bools:
        """Return bool[N], the nodes that no pod can get, now or later.

        A shared claim may later be allocated elsewhere, unless every device belongs to one node. A pod that
        names such a claim twice then finds it allocated. A request for all devices may get fewer, and so be
        served, when shared devices are full.
        """
        mask = requests.barred.copy()
        away = not all(device.node for device in self.state.inventory.devices)
        for where, claims in requests.variants:
            own = tuple(claim for claim in claims if claim.key is None)
            shared = dict.fromkeys(claim for claim in claims if claim.key is not None)
            certain = own if away else (*own, *shared)
            if any(request.count is None for claim in certain for ways in claim.requests for request in ways):
                where = where & ~self._filling()
            if certain:
                mask |= self.state.rejected(certain if shared else claims, where & ~mask)
        return mask

    def _filling(self) -> Bools:
        """Return bool[N], the nodes that see shared devices with a capacity that others may exhaust."""
        inventory = self.state.inventory
        limited = [kind.shared and bool(kind.capacity) for kind in inventory.kinds]
        sites = [any(limited[inventory.devices[i].kind] for i in site.visible.tolist()) for site in inventory.sites]
        return np.array(sites, dtype=bool)[inventory.site_of]

    def alike(self, g: int) -> Hashable:
        return None if self._requests[g] is None else g

    def never(self, g: int) -> Bools:
        return self._never.get(g, self._nothing)

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        requests, table = self._requests[g], self.cluster.devices
        if requests is None or table is None:
            return []
        if requests.demand.refusal is not None:
            return [(requests.demand.refusal, self._never[g])]
        bars: list[tuple[Hashable, Bools]] = [(key, ~table.allowed[key]) for key in requests.demand.allocated]
        bars += [(name, ~table.listed[name]) for name in requests.demand.unbacked]
        return [*bars, (self.name, self._never[g] & ~requests.barred)]

    def rejects(self, g: int) -> Bools:
        requests = self._requests[g]
        if requests is None:
            return self._nothing.copy()
        mask = requests.barred.copy()
        for key in requests.shared:
            if key in self._shared:
                mask |= ~self._shared[key].nodes
        for where, claims in requests.variants:
            unallocated = self._unallocated(claims)
            if unallocated:
                mask |= self.state.rejected(unallocated, where & ~mask)
        return mask

    def broken_by(self, g: int, nodes: Ints) -> Bools:
        return np.zeros(len(nodes), dtype=bool)  # running pods have the devices they requested

    def stranded(self, g: int, n: int) -> bool:
        return False

    def room(self, g: int) -> Ints:
        room = np.where(self.rejects(g), 0, UNLIMITED_PODS)
        requests = self._requests[g]
        if requests is None:
            return room
        count = int(self.cluster.count[g])
        states = self.state.states()
        for where, claims in requests.variants:
            unallocated = self._unallocated(claims)
            own = tuple(claim for claim in unallocated if claim.key is None)
            if not own:
                continue
            nodes = np.flatnonzero(where & (room > 0))
            if len(own) < len(unallocated):
                for n in nodes.tolist():
                    room[n] = self._try(g, n, count)
                continue
            room_of_state = {state: self.state.room(own, n, count) for state, n in zip(*_firsts(states, nodes), strict=True)}
            if room_of_state:
                room[nodes] = [room_of_state[state] for state in states[nodes].tolist()]
        return room

    def _try(self, g: int, n: int, limit: int) -> int:
        """Return the number of pods of class g that node n accepts one after another, if they share some claims."""
        k = 0
        while k < limit and not self.rejects(g)[n]:
            self.place(g, n)
            k += 1
        for _ in range(k):
            self.remove(g, n)
        return k

    def most(self, g: int) -> Ints:
        upper = np.full(self.cluster.n_nodes, UNLIMITED_PODS)
        if self._requests[g] is not None:
            demand, there = supply(self.cluster)
            columns = np.flatnonzero(demand[g])
            np.minimum(upper, (there[:, columns] // demand[g, columns]).min(axis=1, initial=UNLIMITED_PODS), out=upper)
        return upper

    def place(self, g: int, n: int, k: int = 1) -> None:
        if k < 0:
            self.remove(g, n, -k)
        requests = self._requests[g]
        if requests is not None and self.concerned(g):
            for _ in range(k):
                self._place(g, requests, n)

    def _place(self, g: int, requests: _ClassDemand, n: int) -> None:
        claims = next(claims for where, claims in requests.variants if where[n])
        at = [c for c, claim in enumerate(claims) if claim.key not in self._shared]
        allocation = next((picks for picks in requests.allocations.get(n, ()) if self._idle(g, n, picks)), None)
        if allocation is not None:
            picks = allocation
        else:
            new_picks = self.state.find(tuple(claims[c] for c in at), n) or ()
            picks = tuple(replace(pick, claim=at[pick.claim]) for pick in new_picks)
        self.state.book(picks)
        for key in requests.shared:
            if key not in self._shared:
                own = tuple(pick for pick in picks if claims[pick.claim].key == key)
                nodes = self.state.inventory.usable(own, n)
                self._shared[key] = _Shared(own, ~self._nothing if nodes is None else nodes)
            self._shared[key].users += 1
        self._placed.setdefault((g, n), []).append(tuple(pick for pick in picks if claims[pick.claim].key is None))

    def _idle(self, g: int, n: int, picks: tuple[Pick, ...]) -> bool:
        return picks not in self._placed.get((g, n), ()) and self.state.free(picks)

    def remove(self, g: int, n: int, k: int = 1) -> None:
        requests = self._requests[g]
        if requests is None or not self.concerned(g):
            return
        for _ in range(k):
            self.state.book(self._placed[g, n].pop(), -1)
            for key in requests.shared:
                shared = self._shared[key]
                shared.users -= 1
                if not shared.users:
                    self.state.book(shared.picks, -1)
                    del self._shared[key]

    def taken(self, g: int, n: int) -> list[tuple[Pick, ...]]:
        """Return the devices of each pod of class g on node n in order of placement, including those of shared claims.

        ``Pick.claim`` is the position among the claims of the demand; extended resources come after them.
        """
        requests = self._requests[g]
        if requests is None:
            return []
        common: list[Pick] = []
        keys = [claim.key for claim in requests.demand.claims]
        for key in requests.shared:
            if key in self._shared:
                common += [replace(pick, claim=keys.index(key)) for pick in self._shared[key].picks]
        own = self._placed.get((g, n), [])
        return [tuple(sorted((*picks, *common), key=lambda pick: pick.claim)) for picks in own]

    def path(self) -> object:
        if self._state is None:
            return None
        return tuple(sorted((g, n, tuple(picks)) for (g, n), picks in self._placed.items() if picks)), tuple(
            sorted((key, shared.picks) for key, shared in self._shared.items())
        )

    def batch(self, g: int) -> BatchLimits:
        return BatchLimits(one=self.reaches(g), one_per_node=self.concerned(g))

    def node_order(self, rules: Sequence[Rule], n: int, pods: dict[int, int]) -> tuple[list[int] | None, bool]:
        return DeviceOrder(self, self.state, rules).find(n, pods)

    def encode(self, encoding: PlacementModel) -> None:
        if self._state is None:
            return
        variants = {
            g: a.variants for g, a in enumerate(self._requests) if a is not None and self.concerned(g) and len(encoding.nodes_of(g))
        }
        serves = {key: shared.nodes for key, shared in self._shared.items()}
        DeviceEncoder(encoding, groups_of(self.state.table), self.state.books, variants, serves).run()

    def message(self, g: int, rejected: Bools) -> str:
        requests = self._requests[g]
        assert requests is not None
        if requests.demand.refusal is not None:
            return requests.demand.refusal
        return "; ".join(self._words(requests, rejected))

    def _words(self, requests: _ClassDemand, rejected: Bools) -> Iterator[str]:
        """Yield why pods get no devices on these nodes, one part for each kind of reason."""
        table, unexplained = self.state.table, rejected.copy()
        barred = [(f"claim {key} is allocated elsewhere, or not ready", ~table.allowed[key]) for key in requests.demand.allocated]
        barred += [(f"{name} is not listed", ~table.listed[name]) for name in requests.demand.unbacked]
        barred += [(f"claim {key} gets devices elsewhere", ~self._shared[key].nodes) for key in requests.shared if key in self._shared]
        for text, mask in barred:
            if (unexplained & mask).any():
                yield f"{text}: {int((unexplained & mask).sum())} node{'s' * (int((unexplained & mask).sum()) != 1)}"
                unexplained &= ~mask
        states, reasons, known = self.state.states(), [], dict[tuple[int, int], tuple[str, str]]()
        for v, (where, claims) in enumerate(requests.variants):
            for n in np.flatnonzero(where & unexplained).tolist() if claims else ():
                key = v, int(states[n])
                if key not in known:
                    known[key] = why_not(self.state, self._unallocated(claims), n)
                reasons.append((*known[key], self.cluster.nodes.names[n]))
        if reasons:
            yield summed(reasons)


def _firsts(states: Ids, nodes: Ints) -> tuple[list[int], list[int]]:
    """Return the distinct states of the nodes, and one node for each."""
    distinct, at = np.unique(states[nodes], return_index=True)
    return distinct.tolist(), nodes[at].tolist()
