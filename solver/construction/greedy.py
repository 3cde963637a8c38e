"""Greedy construction by classes: builds a valid placement and its bind order together, most constrained classes first.

Every pod goes where all rules accept it in the state so far. So the order of placing is a bind order, and the final state
obeys every spread constraint: a domain's minimum never falls while pods are only added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_
from kubestow.solver.construction.batch_quota import BatchQuota
from kubestow.solver.construction.gang_greedy import chooses_domain, place_gang
from kubestow.solver.construction.node_order import NodeOrder, highest, sorted_by
from kubestow.solver.devices.supply import supply
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.rules.base import UNLIMITED_PODS, CapacityRule, Rule
from kubestow.solver.rules.batch_limits import BatchLimits
from kubestow.solver.rules.eligibility import fits, short
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext

Floats = NDArray[np.float64]
#: Weight of devices against other resources in a pod's size. Devices are scarce and come in parts that rarely add up to a whole.
DEVICE_SIZE_WEIGHT = 100.0
#: Fraction. A node with a share s of its devices free keeps this fraction of s of its other resources free, if possible.
DEVICE_BALANCE_FRACTION = 0.9


@dataclass
class Construction:
    """A valid placement int64[G, N] with its bind order ``sequence`` of (class, node, pods).

    ``active`` and ``soft``: rules and soft counters in the state of the placement."""

    counts: Ints
    sequence: list[tuple[int, int, int]]
    active: Sequence[Rule] = ()
    soft: SoftState | None = None


def rank(cluster: Cluster, counts: Ints) -> tuple[int, ...]:
    """Return the placed pods of int64[G, N] by priority, highest first. Larger is better."""
    per = cluster.per_priority(counts.sum(axis=1))
    return tuple(per[p] for p in sorted(per, reverse=True))


@dataclass(frozen=True)
class Guide:
    """Preferences of a construction among the nodes that accept a pod.

    Attributes:
        even: Fill nodes evenly (spread) instead of the tightest first.
        soft: Counters of the preferences, to choose the nodes with most weighted points; None to ignore preferences.
        roomiest_first: Try the topology domains of a gang in descending order of free capacity.
    """

    even: bool = False
    soft: SoftState | None = None
    roomiest_first: bool = False


class _PlacementBuilder:
    """A placement under construction."""

    def __init__(self, cluster: Cluster, active: Sequence[Rule], eligibility: Ints, guide: Guide = Guide()) -> None:
        self.cluster, self.active, self.eligibility = cluster, active, eligibility
        self.even, self.soft, self.roomiest_first = guide.even, guide.soft, guide.roomiest_first
        self._concerned = [[r for r in active if r.concerned(g)] for g in range(cluster.n_classes)]
        self._breaking = [[r for r in concerned if type(r).breaks is not Rule.breaks] for concerned in self._concerned]
        self._supplied = [[r for r in concerned if r.supplied] for concerned in self._concerned]
        self._limiting = [rule for rule in active if not rule.static]
        self.fit = CapacityRule.of(active)
        requested, there = supply(cluster)
        totals = np.maximum(there.max(axis=0, initial=1), 1)
        self._device_share: Floats = requested / totals
        self._device_total: Floats = np.asarray((there / totals).sum(axis=1))
        self._device_residual = self._device_total.copy()
        self.counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
        self.sequence: list[tuple[int, int, int]] = []
        self.only: Bools | None = None  # nodes to build on
        largest = np.maximum(cluster.allocatable, 1) if guide.even else np.maximum(cluster.allocatable.max(axis=0, initial=1), 1)
        self.scale: Floats = np.broadcast_to(1.0 / largest, cluster.free.shape).copy()
        # For even filling, demand and residual capacity include the assumed usage of pods without requests.
        self.demand, self.free = cluster.demand, self.fit.free
        if guide.even:
            self.demand, self.free = cluster.demand.copy(), cluster.free.copy()
            self.demand[:, :2] += cluster.supposed
            self.free[:, :2] = np.maximum(self.free[:, :2], -(2**62)) - cluster.fixed_supposed
        self.residual: Floats = np.asarray((self.free * self.scale).sum(axis=1))
        self._order = NodeOrder(self.residual, descending=guide.even)

    def mask(self, g: int) -> Bools:
        """Return bool[N]: the nodes that accept one more pod of the class now."""
        blocked = self.eligibility[g] == 0
        if self.only is not None:
            blocked |= ~self.only
        for rule in self._concerned[g]:
            blocked |= rule.rejects(g)
        for rule in self._breaking[g]:
            blocked |= rule.breaks(g)
        return np.asarray(~blocked, dtype=bool)

    def put(self, g: int, n: int, k: int) -> None:
        self.put_many(g, np.array([n]), np.array([k]))

    def put_many(self, g: int, nodes: Ints, pods: Ints) -> None:
        """Place pods[i] pods of class g on nodes[i], for distinct nodes, in this order."""
        self._take(g, nodes, pods)
        for rule in self._concerned[g]:
            rule.place_many(g, nodes, pods)
        if self.soft is not None:
            self.soft.place_many(g, nodes, pods)
        self.counts[g, nodes] += pods
        self.sequence += [(g, n, k) for n, k in zip(nodes.tolist(), pods.tolist(), strict=True)]

    def _take(self, g: int, nodes: Ints, pods: Ints) -> None:
        self.residual[nodes] -= pods * (self.scale[nodes] @ self.demand[g])
        self._order.changed(nodes)
        if share := float(self._device_share[g].sum()):
            self._device_residual[nodes] -= pods * share
        if self.even:
            self.free[nodes] -= pods[:, None] * self.demand[g]

    def alone(self, g: int) -> bool:
        """Return True if placing the class affects verdicts and points on the chosen node only, so that many pods can be
        placed together."""
        return not (any(rule.reaches(g) for rule in self._limiting) or (self.soft is not None and self.soft.touches(g)))

    def fill(self, g: int, wanted: int) -> int:
        """Place up to ``wanted`` pods of a class that affects no other nodes: tightest nodes first, or evenly. Return the
        number placed."""
        room = np.minimum(self.eligibility[g] - self.counts[g], wanted)
        for rule in self._concerned[g]:
            room = np.minimum(room, rule.room(g))
        if self.only is not None:
            room[~self.only] = 0
        nodes = np.flatnonzero(room)
        if self.soft is not None and len(nodes):
            nodes = highest(nodes, self.soft.gain(g))
        supplied = bool(self._supplied[g])
        if supplied and (balanced := self._balanced(g, nodes, room[nodes])).any():
            nodes, room = nodes[balanced > 0], np.zeros_like(room)
            room[nodes] = balanced[balanced > 0]
        if self.even and not supplied:
            pods = self._evenly(g, nodes, room[nodes], wanted)
        else:
            keys = (self.residual[nodes], *(self._tightness(g)[:, nodes] if supplied else ()))
            nodes = nodes[np.lexsort(keys)]
            pods = np.minimum(room[nodes], np.maximum(wanted - (np.cumsum(room[nodes]) - room[nodes]), 0))
        self.put_many(g, nodes[pods > 0], pods[pods > 0])
        return int(pods.sum())

    def _tightness(self, g: int) -> Floats:
        """Return float64[K, N], the more important key last: free devices in total, and pods of this class that the devices
        could serve. Nodes where both are least lose devices that are of least use to others."""
        return np.stack([self._device_residual, *(rule.room(g).astype(np.float64) for rule in self._supplied[g])])

    def _balanced(self, g: int, nodes: Ints, room: Ints) -> Ints:
        """Return int64[len(nodes)]: pods per node that use other resources no faster than devices, which would be lost on
        nodes without CPUs."""
        device_fraction = float(self._device_share[g].sum()) / np.maximum(self._device_total[nodes], 1e-9)
        kept = DEVICE_BALANCE_FRACTION * self._device_residual[nodes] / np.maximum(self._device_total[nodes], 1e-9)
        for r in np.flatnonzero(self.cluster.demand[g]).tolist():
            whole = np.maximum(self.cluster.allocatable[nodes, r], 1)
            more = self.cluster.demand[g, r] / whole - DEVICE_BALANCE_FRACTION * device_fraction
            limit = np.floor((self.fit.free[nodes, r] / whole - kept) / np.maximum(more, 1e-9))
            room = np.where(more > 0, np.minimum(room, np.clip(limit, 0, UNLIMITED_PODS)), room).astype(np.int64)
        return room

    def _evenly(self, g: int, nodes: Ints, room: Ints, wanted: int) -> Ints:
        """Return int64[len(nodes)]: pods per node that fill all nodes to one utilisation."""
        requested = [r for r in range(min(2, len(self.cluster.resources))) if self.demand[g, r]]
        if wanted < len(nodes):  # one pod per node, unless some nodes could take several first
            emptiness = self.residual[nodes]
            floor = np.partition(emptiness, len(nodes) - wanted)[len(nodes) - wanted]  # argpartition breaks ties differently per processor
            above = np.flatnonzero(emptiness > floor)
            first = np.append(above, np.flatnonzero(emptiness == floor)[: wanted - len(above)])
            here = emptiness[first]
            step = float((self.scale[nodes[first]] @ self.demand[g]).max(initial=0.0))
            if float(here.max() - here.min()) <= step:
                pods = np.zeros(len(nodes), dtype=np.int64)
                pods[first] = 1
                return pods
        total = self.cluster.allocatable[nodes]
        used = total - self.free[nodes]

        def upto(share: int) -> Ints:
            """Return the pods that keep each node's utilisation at or below ``share`` thousandths."""
            pods = room
            for r in requested:
                pods = np.minimum(pods, (total[:, r] // 1000 * share - used[:, r]) // self.demand[g, r])
            if not requested:
                pods = np.minimum(pods, len(nodes) and share * max(1, wanted) // 1000)
            return np.asarray(np.maximum(pods, 0), dtype=np.int64)

        low, high = 0, 1001
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if int(upto(middle).sum()) <= wanted else (low, middle)
        pods = upto(low)
        missing = wanted - int(pods.sum())
        next_step = np.minimum(upto(high) if high <= 1000 else room, room)
        for caps in (next_step, room):  # one more pod per node: first nodes below the next step, then all with room
            residual = caps - pods
            while missing > 0 and residual.any():
                chosen = np.flatnonzero(residual > 0)[:missing]
                pods[chosen] += 1
                residual[chosen] -= 1
                missing -= len(chosen)
        return pods

    def _roomiest(self, g: int, key: str, nodes: Ints) -> Ints:
        """Return the nodes in the domains with most room for pods of a class; all nodes if none has a domain."""
        codes, size = self.cluster.domains(key)
        here = codes[nodes]
        keyed = here >= 0
        if not keyed.any():
            return nodes
        total = np.bincount(here[keyed], weights=self.fit.room(g)[nodes[keyed]], minlength=size)
        roomiest: Ints = nodes[keyed & (np.append(total, -1)[here] == total.max())]
        return roomiest

    def _quotas(self, g: int, limits: Sequence[BatchLimits]) -> BatchQuota:
        """Return the quotas of domains for the next pods of a class."""
        soft = self.soft
        hard, exclusive = [level for limit in limits for level in limit.levels], [pair for limit in limits for pair in limit.exclusive]
        if soft is None:
            return BatchQuota(hard, (), exclusive, ())
        return BatchQuota(hard, soft.levels(g), exclusive, soft.shy(g), flocks=soft.flocks(g))

    def burst(self, g: int, wanted: int) -> int:
        """Place as many pods of a class as can be chosen without checking the rules again. Return the number placed."""
        nodes = admitted = self._order.chosen(self.mask(g))  # emptiest or fullest first breaks ties
        if not len(nodes):
            return 0
        limits = [rule.batch(g) for rule in self._limiting]
        soft = self.soft
        if soft is not None and soft.touches(g):
            nodes = highest(nodes, soft.gain(g))
        if any(limit.one for limit in limits):
            wanted = 1
        founding = [key for limit in limits for key in limit.founding]
        for key in (*founding, *(soft.flocking(g, nodes) if soft else ())):
            wanted = 1  # the first pod decides the domain of the others
            nodes = self._roomiest(g, key, nodes)
        if self._supplied[g]:
            nodes = nodes[np.lexsort(self._tightness(g)[:, nodes])]
        if soft is not None and soft.crowds:
            nodes = sorted_by(nodes, soft.crowding(g))
        quotas = self._quotas(g, limits)
        per_node = quotas.per_node or any(limit.one_per_node for limit in limits)
        several = not per_node and (not self.even or (soft is not None and soft.gregarious(g)))
        if several:
            nodes = np.repeat(nodes, np.minimum(np.minimum(self.fit.room(g), self.eligibility[g] - self.counts[g])[nodes], wanted))
        nodes = quotas.choose(nodes, wanted, admitted)
        if not several or len(np.unique(nodes)) == len(nodes):
            self.put_many(g, nodes, np.ones_like(nodes))
        else:
            for n in nodes.tolist():
                self.put(g, n, 1)
        return len(nodes)

    def undo(self, mark: int) -> list[tuple[int, int, int]]:
        """Remove and return the steps placed after the first ``mark`` ones."""
        steps = self.sequence[mark:]
        for g, n, k in reversed(steps):
            self._take(g, np.array([n]), np.array([-k]))
            for rule in self._concerned[g]:
                rule.remove(g, n, k)
            if self.soft is not None:
                self.soft.place(g, n, -k)
            self.counts[g, n] -= k
        del self.sequence[mark:]
        return steps

    def fill_up(self, wanted: list[tuple[int, int]], expired: Callable[[], bool]) -> list[tuple[int, int]]:
        """Place pods, given as (class, pods), class by class. Return the unplaced ones. Classes that wait for others
        (affinity) are retried while any pod is placed."""
        waiting, moved = wanted, True
        while waiting and moved:
            moved = False
            unplaced = []
            for g, pods in waiting:
                done = 0
                place = self.fill if self.alone(g) else self.burst
                while done < pods and not expired() and (more := place(g, pods - done)):
                    done += more
                moved |= done > 0
                if done < pods:
                    unplaced.append((g, pods - done))
            waiting = unplaced
            moved &= not expired()
        return waiting

    def run(self, order: Sequence[int], expired: Callable[[], bool], wanted_of: Ints | None = None) -> None:
        """Place class by class, see :meth:`fill_up`. A gang is placed whole when its first class comes."""
        wanted_of = self.cluster.count if wanted_of is None else wanted_of
        together: dict[int, list[tuple[int, int]]] = {}  # pods by gang, or by -1 - class without a gang
        for g in order:
            gang = self.cluster.classes[g].gang
            together.setdefault(-1 - g if gang is None else gang, []).append((g, int(wanted_of[g])))
        moved = True
        while together and moved:
            moved = False
            for k, wanted in list(together.items()):
                if expired():
                    return
                unplaced = self.fill_up(wanted, expired) if k < 0 else place_gang(self, k, wanted, expired)
                moved |= unplaced != wanted
                if unplaced:
                    together[k] = unplaced
                else:
                    del together[k]


def _orders(cluster: Cluster, eligibility: Ints, tries: int, seed: int) -> list[list[int]]:
    """Return class orders to try, high priorities first: by few eligible nodes or by large share of a node (small if
    capacity is short), then with noise."""
    share = cluster.demand / np.maximum(cluster.allocatable.max(axis=0, initial=1), 1)
    requested, there = supply(cluster)
    devices = (requested / np.maximum(there.max(axis=0, initial=1), 1)).sum(axis=1)
    share = np.hstack([share, DEVICE_SIZE_WEIGHT * devices[:, None]])
    largest, total = share.max(axis=1, initial=0.0), share.sum(axis=1)
    nodes = np.count_nonzero(eligibility, axis=1)
    constrained = np.array([bool(c.affinity or c.anti or c.spread) for c in cluster.classes], dtype=bool)
    keys: list[Floats] = [-total, -largest, nodes * (1.0 - largest), -total - constrained]
    if short(cluster, eligibility):
        keys = [total, largest, *keys]  # not all pods fit: prefer many small pods to few large ones
    rng = np.random.default_rng(seed)
    keys += [-(total + 0.3 * constrained) * rng.uniform(0.7, 1.3, size=len(total)) for _ in range(max(0, tries - len(keys)))]
    return [np.lexsort((key, -cluster.priority)).tolist() for key in keys[:tries]]


def construct(
    cluster: Cluster,
    active: Sequence[Rule],
    eligibility: Ints,
    context: RunContext | None = None,
    *,
    tries: int = 1,
    even: bool = False,
    soft: SoftState | None = None,
) -> Construction:
    """Return the best of several greedy constructions.

    The first one fills nodes evenly if ``even`` and follows preferences if ``soft``. If it places every pod, it is the
    result. It ignores the deadline, because there must be a result. If gangs choose between domains, an even construction
    gives them the emptiest domains first, and the next one the fullest. ``active``: rules in the state of the fixed pods,
    consumed; ``soft``: counters in that state; ``eligibility``: int64[G, N]; ``tries``: constructions in different orders."""
    best: Construction | None = None
    goal = int(fits(cluster, eligibility).sum())
    context = context or RunContext.start(Options(time_limit=None))
    orders = _orders(cluster, eligibility, tries, context.options.seed)
    guided = even or soft is not None
    roomiest_first = even and any(chooses_domain(cluster, gang) for gang in cluster.gangs)
    leading = roomiest_first + guided
    for attempt, order in enumerate([*orders[:1] * leading, *orders]):
        first, led = attempt == 0, attempt < leading
        points = soft if first or soft is None else SoftState(soft.objective)
        guide = Guide(even=even, soft=points, roomiest_first=roomiest_first and first) if led else Guide()
        builder = _PlacementBuilder(cluster, active if first else rules.build(cluster), eligibility, guide)
        builder.run([g for g in order if eligibility[g].any()], context.stop.is_set if first else context.over)
        candidate = Construction(builder.counts, builder.sequence, builder.active, builder.soft)
        if best is None or rank(cluster, candidate.counts) > rank(cluster, best.counts):
            best = candidate
        if context.over() or int(best.counts.sum()) == goal:
            break
    assert best is not None
    return best


def complete(cluster: Cluster, eligibility: Ints, counts: Ints, sequence: Sequence_) -> tuple[Ints, Sequence_]:
    """Return a placement and its bind order, both extended by pods that still fit. No pod moves."""
    if int(counts.sum()) == int(cluster.count.sum()):
        return counts, sequence
    builder = _PlacementBuilder(cluster, rules.build(cluster), eligibility)
    for g, n, k in sequence:
        builder.put(g, n, k)
    unplaced = cluster.count - counts.sum(axis=1)
    order = [g for g in np.lexsort((np.arange(cluster.n_classes), -cluster.priority)).tolist() if unplaced[g] and eligibility[g].any()]
    builder.run(order, lambda: False, unplaced)
    return builder.counts, builder.sequence
