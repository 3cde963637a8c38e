"""Two ways to buy nodes without a search, to compare with.

``provisioned``: first-fit decreasing by the cheapest shape that fits, as Karpenter's provisioner does it. Pods come by CPU, then memory,
the largest first; each goes to the first node opened that takes it, else it opens one. A node opened is no shape yet but all that would
take its pods, in all zones where these may be, and becomes the cheapest of them in the end. As there, a domain counts for spread
constraints as soon as a node could be bought in it, and every hostname still to come counts as empty. Source: sigs.k8s.io/karpenter,
pkg/controllers/provisioning/scheduling (scheduler.go, queue.go, nodeclaim.go, topologygroup.go).

``by_price``: best price per dominant resource. A node opened is of the shape that would be cheapest for all that still waits if its fullest
resource alone counted; first fit; in the end each node becomes the cheapest shape that takes its pods.

Both obey every hard rule, by way of the incremental faces of :mod:`kubestow.solver.rules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from kubestow.models.catalogue.catalogue import Catalogue, Offer
from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.placement import Edits
from kubestow.models.edits.edits import apply
from kubestow.models.kube.pod_spec import required_terms
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True)
class Bought:
    """``counts``: nodes by shape and zone; ``cost``: of all of them, in millionths; ``left``: pods that found no place."""

    counts: dict[tuple[str, str], int]
    cost: int
    unplaced: int

    @property
    def edits(self) -> list[str]:
        """The purchase as what-if edits have it."""
        return [f"{count}:{shape}@{zone}" for (shape, zone), count in self.counts.items()]


@dataclass
class _Opened:
    """A node that is bought. ``at``: its candidate for each offer; ``now``: which it is; ``pods``: classes in their order; ``takes``:
    bool[O], offers that take each of its pods alone; ``asked``: int64[R], with the slots last; ``zonal``: its zone is decided."""

    at: Ints
    now: int
    takes: Bools
    requested: Ints
    pods: list[int] = field(default_factory=list)
    zonal: bool = False


class _TooFew(Exception):
    """More nodes are to be opened than there are candidates."""


def provisioned(snapshot: Snapshot, catalogue: Catalogue, slots: int = 32) -> Bought:
    """Buy as Karpenter's provisioner does. ``snapshot``: what is to be placed pends; ``slots``: nodes that it might take."""
    return _bought(snapshot, catalogue, slots, narrowing=True)


def by_price(snapshot: Snapshot, catalogue: Catalogue, slots: int = 32) -> Bought:
    """Buy by the best price per dominant resource."""
    return _bought(snapshot, catalogue, slots, narrowing=False)


def _bought(snapshot: Snapshot, catalogue: Catalogue, slots: int, *, narrowing: bool) -> Bought:
    try:
        return _Buying(snapshot, catalogue, slots).run(narrowing=narrowing)
    except _TooFew:
        return _bought(snapshot, catalogue, 2 * slots, narrowing=narrowing)


class _Buying:
    def __init__(self, snapshot: Snapshot, catalogue: Catalogue, slots: int) -> None:
        self.offers: Sequence[Offer] = catalogue.offers
        self.cost = np.array([offer.cost for offer in self.offers], dtype=np.int64)
        self.cheapest = np.argsort(self.cost, kind="stable")
        shapes = [msgspec.structs.replace(shape, most=None) for shape in catalogue.shapes.values()]
        edits = Edits(buy=[f"{slots}:{o.shape.name}@{o.zone}" for o in self.offers], shapes=shapes)
        edited = apply(snapshot, None, edits).snapshot
        self.cluster: Cluster = compile_cluster(edited, select(edited))
        present = len(snapshot.nodes)
        self.present = np.arange(present)
        self.candidates = np.arange(present, self.cluster.n_nodes).reshape(len(self.offers), slots).T
        self.active = rules.build(self.cluster)
        self.limits = possible(self.cluster, self.active)
        self.spread = PodTopologySpread.of(self.active)
        self.fit = NodeResourcesFit.of(self.active)
        first = self.candidates[0]
        self.room: Ints = np.column_stack([self.cluster.free[first], self.cluster.slots[first]])
        self.demand: Ints = np.column_stack([self.cluster.demand, np.ones(self.cluster.n_classes, dtype=np.int64)])
        self.zone = np.array([list(dict.fromkeys(o.zone for o in self.offers)).index(o.zone) for o in self.offers])
        self.max_number = np.array([catalogue.most.get(o.shape.name, slots * len(self.offers)) for o in self.offers])
        self.zonal = [self._zonal(g) for g in range(self.cluster.n_classes)]
        self.opened: list[_Opened] = []

    def _zonal(self, g: int) -> bool:
        """Return whether a pod of the class decides its node's zone: by its own rule about domains of more than one node."""
        pod = self.cluster.snapshot.pods[self.cluster.classes[g].pods[0]]
        keys = {c.topologyKey for c in pod.spec.topologySpreadConstraints or () if c.whenUnsatisfiable == "DoNotSchedule"}
        keys |= {term.topologyKey for which in ("podAffinity", "podAntiAffinity") for term in required_terms(pod, which)}
        return bool(keys - {HOSTNAME})

    def run(self, *, narrowing: bool) -> Bought:
        largest = sorted(range(self.cluster.n_classes), key=lambda g: [-self._asks(g, r) for r in ("cpu", "memory")])
        queue = [g for g in largest for _ in range(int(self.cluster.count[g]))]
        while queue:  # pods that need others are retried after these
            unplaced = [g for i, g in enumerate(queue) if not self._put(g, queue[i:], narrowing)]
            if len(unplaced) == len(queue):
                break
            queue = unplaced
        if not narrowing:
            for node in self.opened:
                self._cheaper(node)
        counts = Counter((self.offers[o.now].shape.name, self.offers[o.now].zone) for o in self.opened)
        return Bought(dict(sorted(counts.items())), int(sum(self.cost[o.now] for o in self.opened)), len(queue))

    def _asks(self, g: int, resource: str) -> int:
        names = list(self.cluster.resources)
        return int(self.cluster.demand[g, names.index(resource)]) if resource in names else 0

    def _put(self, g: int, waiting: Sequence[int], narrowing: bool) -> bool:
        beside = self.limits[g] == 0
        for rule in self.active:
            if rule is not self.fit and not rule.static and rule.concerned(g):
                beside |= rule.rejects(g)
        beside |= self.spread.breaks(g)
        full = beside | self.fit.rejects(g)
        for n in self.present[~full[self.present]][:1]:
            self._place(g, int(n))
            return True
        return any(self._join(node, g, beside, narrowing) for node in self.opened) or self._open(g, full, waiting, narrowing)

    def _place(self, g: int, n: int, k: int = 1) -> None:
        for rule in self.active:
            if k > 0:
                rule.place(g, n)
            else:
                rule.remove(g, n)

    def _join(self, node: _Opened, g: int, beside: Bools, narrowing: bool) -> bool:
        """Put a pod on a node opened, which becomes another offer where it has to and may."""
        requested = node.requested + self.demand[g]
        able = node.takes & (self.limits[g, node.at] > 0) & (requested <= self.room).all(axis=1) & ~beside[node.at]
        if able[node.now]:
            self._place(g, int(node.at[node.now]))
        else:
            if not narrowing or not able.any():
                return False
            able &= self._available(node)
            if node.zonal:
                able &= self.zone == self.zone[node.now]
            if beside[node.at[node.now]]:  # another shape of the same zone would be no better
                able &= self.zone != self.zone[node.now]
            if not any(self._become(node, int(o), [*node.pods, g]) for o in self.cheapest[able[self.cheapest]]):
                return False
        node.pods.append(g)
        node.requested, node.takes = requested, node.takes & (self.limits[g, node.at] > 0)
        node.zonal |= self.zonal[g]
        return True

    def _become(self, node: _Opened, offer: int, pods: Sequence[int]) -> bool:
        """Move a node's pods, and perhaps more, to its candidate of another offer; undo everything if a rule rejects a pod."""
        old, new = int(node.at[node.now]), int(node.at[offer])
        for g in reversed(node.pods):
            self._place(g, old, -1)
        moved = []
        for g in pods:
            if any(rule.rejects(g)[new] for rule in self.active) or self.spread.breaks(g)[new]:
                break
            self._place(g, new)
            moved.append(g)
        if len(moved) == len(pods):
            node.now = offer
            return True
        for g in reversed(moved):
            self._place(g, new, -1)
        for g in node.pods:
            self._place(g, old)
        return False

    def _available(self, node: _Opened | None = None) -> Bools:
        """bool[O]: True for offers whose shape has a node available."""
        has: Counter[str] = Counter(self.offers[o.now].shape.name for o in self.opened if o is not node)
        return np.array([has[o.shape.name] for o in self.offers]) < self.max_number

    def _open(self, g: int, full: Bools, waiting: Sequence[int], narrowing: bool) -> bool:
        if len(self.opened) == len(self.candidates):
            raise _TooFew
        at = self.candidates[len(self.opened)]
        able = ~full[at] & self._available()
        if not able.any():
            return False
        order = self.cheapest if narrowing else np.argsort(self._per_node(waiting), kind="stable")
        now = int(order[able[order]][0])
        self._place(g, int(at[now]))
        self.opened.append(_Opened(at, now, self.limits[g, at] > 0, self.demand[g].copy(), [g], self.zonal[g]))
        return True

    def _per_node(self, waiting: Sequence[int]) -> Ints:
        """float64[O]: what all that waits would cost on each offer, if the resource that it takes most of alone counted."""
        kinds, numbers = np.unique(waiting, return_counts=True)
        total = numbers @ self.demand[kinds]
        return np.asarray(self.cost * (total / np.maximum(self.room, 1e-9)).max(axis=1))

    def _cheaper(self, node: _Opened) -> None:
        able = node.takes & (node.requested <= self.room).all(axis=1) & self._available(node) & (self.cost < self.cost[node.now])
        if node.zonal:
            able &= self.zone == self.zone[node.now]
        any(self._become(node, int(o), node.pods) for o in self.cheapest[able[self.cheapest]])
