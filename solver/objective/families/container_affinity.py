"""Points of container affinity: Σ over ordered pairs of containers on one node of A(C1, C2) · closeness.

On a node with one zone, or with unknown zones, all containers are as close as possible, so pairs score by their node
alone. Containers of fixed pods on a node with several zones have no known zone.

Source: specification of container affinity, sections 4 and 5."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.numa.containers import ContainerClass
from kubestow.models.numa.node_topology import NumaTree
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.numa.zone_patterns import NodeZones, ZoneLayout, levels
from kubestow.solver.numa.zone_pools import closeness
from kubestow.solver.objective.domain_sums import DomainSum, product
from kubestow.solver.objective.families.base import Family
from kubestow.solver.objective.ledger import Ledger, workload
from kubestow.solver.objective.shapes import Pools
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.base import Rule

#: Sum of (class, container) pairs in a set of zones.
Inside = Callable[[Sequence[tuple[int, int]]], DomainSum]


@dataclass(frozen=True)
class NodePods:
    """The pods on one node of a model.

    Attributes:
        zones: Zone patterns of the classes. None: no zones to choose.
        pods: Number of pods of each class, and its largest value in ``upper``.
    """

    model: cp_model.CpModel
    n: int
    zones: NodeZones | None
    pods: Mapping[int, cp_model.IntVar]
    upper: Mapping[int, int]

    def layout(self, g: int) -> ZoneLayout | None:
        """Return the zone patterns of a class, if it has any here."""
        return self.zones.layouts.get(g) if self.zones is not None else None

    def inside(self, spot: int | None) -> Inside:
        """Return :meth:`containers` for one set of zones."""
        return partial(self.containers, spot)

    def containers(self, spot: int | None, containers: Sequence[tuple[int, int]]) -> DomainSum:
        """Return the number of the (class, container) inside a set of zones (None: anywhere on the node)."""
        parts: dict[int, tuple[cp_model.IntVar, int]] = {}
        high = 0
        for g, i in containers:
            layout = self.layout(g)
            inside: list[cp_model.IntVar] = []
            if spot is None:
                inside = [self.pods[g]]
            elif layout is not None:
                inside = [p.pods for p in layout.patterns if (pool := layout.pool(p, i)) is not None and pool & spot == pool]
            high += self.upper[g] if inside else 0
            for each in inside:
                parts[each.index] = (each, parts.get(each.index, (each, 0))[1] + 1)
        return DomainSum(self.model, frozenset(g for g, _ in containers), list(parts.values()), high)


class ContainerAffinity(Family):
    """Hints between containers. Their points need zones, which are chosen for a finished placement.

    Attributes:
        involved: Classes that some hint concerns, ascending.
        zoned: Nodes with more than one zone.
        max_points: Maximum points of closeness of two containers.
        stop: Event that ends choosing zones; unsolved nodes then keep the first choice.
        solved: Zones found by (node, pods in bind order, first choice), so that no node is solved twice.
    """

    name = "containerAffinity"

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        super().__init__(cluster, rules)
        self.levels = cluster.policy.closeness
        on = bool(self.multiplier)
        self.involved = [g for g, c in enumerate(cluster.classes) if on and c.containers is not None and c.containers.involved()]
        self.zoned = {n for n, tree in cluster.trees.items() if len(tree.zones) > 1}
        self.max_points = self.levels.cache if any(tree.numa for tree in cluster.trees.values()) else self.levels.sameZone
        self._rows: dict[int, Ints] = {}
        self.stop: threading.Event | None = None
        self.solved: dict[tuple[int, tuple[int, ...], tuple[Pools, ...]], list[Pools]] = {}

    @property
    def repels(self) -> bool:
        """True if hints keep containers apart on nodes with zones.

        A container that finds no room in zones because of other pods costs less than in the zone it would have to take.
        So a group may score more with other pods present than alone."""
        classes = map(self.class_of, self.involved if self.zoned else ())
        return any(w < 0 for cls in classes for w in (*(w for *_, w in cls.inner), *(w for own in cls.entries for _, w in own)))

    def class_of(self, g: int) -> ContainerClass:
        found = self.cluster.classes[g].containers
        assert found is not None
        return found

    def predicates(self, classes: Iterable[int]) -> list[int]:
        """Return the predicates that some container of the classes owns and some container satisfies."""
        owned: set[int] = set()
        hit: set[int] = set()
        for g in classes:
            cls = self.class_of(g)
            owned.update(p for own in cls.entries for p, _ in own)
            hit.update(p for own in cls.hits for p in own)
        return sorted(owned & hit)

    def owners(self, predicate: int, classes: Iterable[int]) -> list[tuple[int, int, int]]:
        """Return (class, container, weight) of the owners of a predicate."""
        return [(g, i, w) for g in classes for i, own in enumerate(self.class_of(g).entries) for p, w in own if p == predicate]

    def satisfying(self, predicate: int, classes: Iterable[int]) -> list[tuple[int, int]]:
        """Return (class, container) of the containers that satisfy a predicate."""
        return [(g, i) for g in classes for i, own in enumerate(self.class_of(g).hits) if predicate in own]

    def static(self, g: int) -> Ints:
        """Return int64[N]: raw points of one pod of the class against fixed pods on each node.

        On nodes with at most one zone, they include the points of hints within the pod.
        """
        if g not in self._rows:
            cls, fixed = self.class_of(g), self.cluster.fixed_containers
            met = np.zeros(self.cluster.n_nodes, dtype=np.int64)
            for own in cls.entries:
                for predicate, weight in own:
                    met += weight * fixed.satisfying.get(predicate, 0)
            for predicates in cls.hits:
                for predicate in predicates:
                    met += fixed.owning.get(predicate, 0)
            zoned = np.zeros(self.cluster.n_nodes, dtype=bool)
            zoned[list(self.zoned)] = True
            inner = self.levels.sameZone * sum(w for _, _, w in cls.inner)
            self._rows[g] = np.where(zoned, met * self.levels.sameNode, met * self.levels.sameZone + inner).astype(np.int64)
        return self._rows[g]

    def inside(self, g: int, tree: NumaTree, pools: Sequence[int | None]) -> int:
        """Return the points of the default-scope hints within one pod on a node with zones."""
        return sum(w * closeness(tree, self.levels, pools[i], pools[j]) for i, j, w in self.class_of(g).inner)

    def on_node(self, n: int, pods: Sequence[tuple[int, Pools]]) -> int:
        """Return the sum of :meth:`per_pod`: the raw points of all pending pods on one node."""
        return sum(self.per_pod(n, pods))

    def per_pod(self, n: int, pods: Sequence[tuple[int, Pools]]) -> list[int]:
        """Return the raw points of container affinity of each pending pod on one node, in the order of ``pods``.

        A pair of pending pods counts for the owner of the hint, a pair with a fixed pod for the pending one.

        Args:
            n: The node.
            pods: All pending pods on it: the class, and the pool of each container.
        """
        tree = self.cluster.trees[n] if n in self.zoned else None
        points = []
        satisfying: dict[int, list[tuple[int, int, int | None]]] = {}
        for k, (g, pools) in enumerate(pods):
            points.append(int(self.static(g)[n]) + (self.inside(g, tree, pools) if tree is not None else 0))
            for i, predicates in enumerate(self.class_of(g).hits):
                for predicate in predicates:
                    satisfying.setdefault(predicate, []).append((k, i, pools[i]))
        for k, (g, pools) in enumerate(pods):
            for i, own in enumerate(self.class_of(g).entries):
                for predicate, weight in own:
                    for other, j, met in satisfying.get(predicate, ()):
                        if (k, i) != (other, j):
                            points[k] += weight * (self.levels.sameZone if tree is None else closeness(tree, self.levels, pools[i], met))
        return points

    # --- a shape of its own ---------------------------------------------------------------------------------------------------

    def encode(self, encoding: PlacementModel, points: Points) -> None:
        for n in range(encoding.cluster.n_nodes if self.involved else 0):
            pods = {g: encoding.x[g, n] for g in self.involved if (g, n) in encoding.x}
            if pods:
                upper = {g: encoding.upper(g, n) for g in pods}
                self.node_points(NodePods(encoding.model, n, encoding.zones.get(n), pods, upper), self.multiplier, points)

    def node_points(self, node: NodePods, multiplier: int, points: Points) -> None:
        """Add container affinity on one node. Within a pod, each zone pattern has its points. Across pods, the containers in
        each set of zones that own a predicate are multiplied with those that satisfy it."""
        if node.n not in self.zoned:
            node = replace(node, zones=None)
        here = [g for g in node.pods if g in self.involved]
        for g in here:
            self._add_pod(g, node, multiplier, points)
        base = self.levels.sameNode if node.n in self.zoned else self.levels.sameZone
        spots: list[tuple[int | None, int]] = [(None, base)] if base else []
        spots += levels(node.zones.tree, self.levels) if node.zones is not None else []
        for predicate in self.predicates(here):
            owners, satisfying = self.owners(predicate, here), self.satisfying(predicate, here)
            for spot, gain in spots:
                self._add_pairs(owners, satisfying, node.inside(spot), gain * multiplier, points)

    @staticmethod
    def _add_pairs(
        owners: Sequence[tuple[int, int, int]], satisfying: Sequence[tuple[int, int]], inside: Inside, points_each: int, points: Points
    ) -> None:
        """Add the pairs of containers in one set of zones that own a predicate and that satisfy it."""
        matched = inside(satisfying)
        for weight in sorted({w for _, _, w in owners}) if matched.variables else ():
            own = [(g, i) for g, i, w in owners if w == weight]
            owned = inside(own)
            if owned.variables:
                product(owned, matched, weight * points_each, points)
                alone = inside([e for e in own if e in set(satisfying)])
                for each in alone.variables:
                    points.add(each, -weight * points_each * alone.parts[each.index], 0, int(each.proto.domain[1]))

    def _add_pod(self, g: int, node: NodePods, multiplier: int, points: Points) -> None:
        """Add the points of a class on a node against fixed pods, and within its own pods."""
        points.add(node.pods[g], multiplier * int(self.static(g)[node.n]), 0, node.upper[g])
        layout = node.layout(g)
        if layout is not None and node.zones is not None:
            for pattern in layout.patterns:
                pools = [layout.pool(pattern, i) for i in range(len(layout.containers.requests))]
                points.add(pattern.pods, multiplier * self.inside(g, node.zones.tree, pools), 0, layout.upper)
        elif node.n in self.zoned:  # no zones to choose: anywhere on the node
            inner = sum(w for _, _, w in self.class_of(g).inner)
            points.add(node.pods[g], multiplier * self.levels.sameNode * inner, 0, node.upper[g])

    def links(self) -> Iterator[list[int]]:
        if self.repels:  # every class that takes room in NUMA zones
            yield [g for g, cls in enumerate(self.cluster.classes) if cls.containers is not None]
        for predicate in self.predicates(self.involved):
            owners = [g for g, _, _ in self.owners(predicate, self.involved)]
            yield owners + [g for g, _ in self.satisfying(predicate, self.involved)]

    def node_bound(self, g: int) -> Ints:
        """Return int64[N]: points against fixed pods, and of hints within the pod at their best."""
        zoned = np.zeros(self.cluster.n_nodes, dtype=np.int64)
        zoned[list(self.zoned)] = self._most_inside(g)
        return np.asarray(self.static(g) + zoned, dtype=np.int64)

    def bound(self, classes: Collection[int], count: Ints) -> int:
        mine, total = [g for g in self.involved if g in classes], 0
        for predicate in self.predicates(mine):
            satisfying = sum(int(count[g]) for g, _ in self.satisfying(predicate, mine))
            for g, _, weight in self.owners(predicate, mine):
                total += max(weight * self.max_points, weight * self.levels.sameNode, 0) * int(count[g]) * satisfying
        return total

    def _most_inside(self, g: int) -> int:
        """Return the most points of the default-scope hints within one pod."""
        return sum(max(w * self.max_points, w * self.levels.sameNode) for _, _, w in self.class_of(g).inner)

    # --- reports --------------------------------------------------------------------------------------------------------------

    def best(self, placed: Ints) -> int:
        fixed, total = self.cluster.fixed_containers, 0
        for g in self.involved:
            pods, cls = int(placed[g]), self.class_of(g)
            total += pods * self._most_inside(g)
            for own in cls.entries:
                for predicate, weight in own:
                    satisfying = sum(int(placed[h]) for h, _ in self.satisfying(predicate, self.involved))
                    satisfying += int(np.max(fixed.satisfying.get(predicate, np.zeros(1))))
                    total += pods * satisfying * max(weight * self.max_points, weight * self.levels.sameNode, 0)
            for predicate in {p for own in cls.hits for p in own}:
                owned = fixed.owning.get(predicate)
                if owned is not None:
                    hits = sum(predicate in own for own in cls.hits)
                    highest = max(int(w) * level for w in (owned.max(), owned.min()) for level in (self.max_points, self.levels.sameNode))
                    total += pods * hits * max(0, highest)
        return total

    def gains(self, ledger: Ledger) -> None:
        """Add the points of each pod to its workload."""
        shared = self._shares(ledger) if self.involved else {}
        dealt, at = [0] * self.cluster.n_classes, dict.fromkeys(shared, 0)
        for g, n, k in ledger.sequence:
            for i in self.cluster.classes[g].pods[dealt[g] : dealt[g] + k] if (g, n) in shared else ():
                name = workload(self.cluster.snapshot.pods[i])
                ledger.gained[name] = ledger.gained.get(name, 0) + self.multiplier * shared[g, n][at[g, n]]
                at[g, n] += 1
            dealt[g] += k

    def _shares(self, ledger: Ledger) -> dict[tuple[int, int], list[int]]:
        """Return the points of each pod, per (class, node) in bind order."""
        per_node: dict[int, list[int]] = {}
        for g, n, k in ledger.sequence:
            if g in self.involved:
                per_node.setdefault(n, []).extend([g] * k)
        shares: dict[tuple[int, int], list[int]] = {}
        for n, pods in per_node.items():
            next_pod: dict[int, int] = {}
            listed = []
            for g in pods:
                known = ledger.zones.pools.get((g, n))
                index = next_pod.get(g, 0)
                next_pod[g] = index + 1
                listed.append((g, known[index] if known is not None else (None,) * len(self.class_of(g).requests)))
            for g, value in zip(pods, self.per_pod(n, listed), strict=True):
                shares.setdefault((g, n), []).append(value)
        return shares

    def losses(self, ledger: Ledger) -> None:
        cluster, zones = self.cluster, ledger.zones
        for g in self.involved:
            cls = self.class_of(g)
            wanted = self._most_inside(g)
            lost = []
            for n, k in zip(*(part.tolist() for part in ledger.placed.of(g)), strict=True):
                if n in self.zoned:
                    lost.append(sum(wanted - self.inside(g, cluster.trees[n], pools) for pools in zones.pools.get((g, n), ())))
                else:
                    lost.append((wanted - self.levels.sameZone * sum(w for _, _, w in cls.inner)) * k)
            ledger.share(self, g, "hints between its own containers", np.array(lost, dtype=np.int64))
            outer = self._outer(g, ledger)
            if outer > 0 and ledger.pods[g]:
                placed = int(ledger.total[g])
                for owner, pods in ledger.pods[g].items():
                    part = sum(pods.values())
                    ledger.enter(self, owner, "hints towards containers of other pods", part, outer * part // placed)

    def _outer(self, g: int, ledger: Ledger) -> int:
        """Return the points lost by the scoped hints of a class: unmet pulls, and pushes from nearby containers."""
        cls, placed = self.class_of(g), ledger.total
        lost = 0
        for i, own in enumerate(cls.entries):
            for predicate, weight in own:
                near = self._near(g, i, predicate, ledger)
                if weight > 0:
                    fixed = self.cluster.fixed_containers.satisfying.get(predicate)
                    others = sum(int(placed[h]) for h, _ in self.satisfying(predicate, self.involved))
                    others += int(fixed.sum()) if fixed is not None else 0
                    own_hit = int(predicate in cls.hits[i])
                    lost += weight * (int(placed[g]) * (others - own_hit) * self.max_points - near)
                else:
                    lost -= weight * near
        return lost

    def _near(self, g: int, i: int, predicate: int, ledger: Ledger) -> int:
        """Return Σ of closeness between container i of the class's pods and the containers that satisfy a predicate."""
        cluster, counts, zones = self.cluster, ledger.counts, ledger.zones
        total = 0
        for n in np.flatnonzero(counts[g]).tolist():
            tree = cluster.trees[n] if n in self.zoned else None
            fixed = cluster.fixed_containers.satisfying.get(predicate)
            outer = self.levels.sameZone if tree is None else self.levels.sameNode
            total += int(counts[g, n]) * outer * (int(fixed[n]) if fixed is not None else 0)
            here = [(h, j) for h, j in self.satisfying(predicate, self.involved) if counts[h, n]]
            if tree is None:
                met = sum(int(counts[h, n]) for h, _ in here) - int((g, i) in here)
                total += int(counts[g, n]) * met * outer
                continue
            for k, mine in enumerate(zones.pools.get((g, n), ())):
                for h, j in here:
                    for m, theirs in enumerate(zones.pools.get((h, n), ())):
                        if (g, k, i) != (h, m, j):
                            total += closeness(tree, self.levels, mine[i], theirs[j])
        return total
