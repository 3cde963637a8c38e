"""NUMA zones of a finished placement, node by node, because zones of different nodes are independent.

If hints concern containers on a node, choose the best zones under the model that the search used. If only the kubelet's
Topology Manager decides, replay its choice in bind order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.numa.containers import INIT, WHOLE, ContainerClass
from kubestow.models.numa.node_topology import NumaTree
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.solver import new_solver
from kubestow.solver.numa import zone_pools
from kubestow.solver.numa.zone_patterns import NodeZones, Pattern, ZoneLayout, chosen_items
from kubestow.solver.numa.zone_pools import Free, PoolItem
from kubestow.solver.objective.families.container_affinity import ContainerAffinity, NodePods
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import AssignedZones, Pools
from kubestow.solver.ortools import cp_model

TOTAL_ZONE_SECONDS = 0.5  #: Deterministic seconds of CP-SAT for the NUMA zones of all nodes together.
MIN_NODE_SECONDS = 0.01  #: Least deterministic seconds for one node.


def assign(cluster: Cluster, containers: ContainerAffinity, sequence: Sequence[tuple[int, int, int]]) -> AssignedZones:
    """Return zones for the pods of a placement, and their points.

    Args:
        containers: Its ``solved`` is extended by the nodes solved here.
        sequence: The placement as (class, node, pods) in bind order.
    """
    zones = AssignedZones()
    involved = set(containers.involved)
    per_node: dict[int, list[int]] = {}
    for g, n, k in sequence:
        if cluster.classes[g].containers is not None:
            per_node.setdefault(n, []).extend([g] * k)
    effort = max(MIN_NODE_SECONDS, TOTAL_ZONE_SECONDS / max(1, len(containers.zoned & per_node.keys())))
    for n, pods in sorted(per_node.items()):
        if n in cluster.trees:
            chosen = _NodeAssignment(cluster, containers, n, pods).assign(zones, effort)
        else:
            chosen = [(None,) * len(_class(cluster, g).requests) for g in pods]
        zones.points += containers.on_node(n, [(g, pools) for g, pools in zip(pods, chosen, strict=True) if g in involved])
    return zones


def _class(cluster: Cluster, g: int) -> ContainerClass:
    found = cluster.classes[g].containers
    assert found is not None
    return found


class _NodeAssignment:
    """The zones of the pods of one node.

    Attributes:
        pods: Class of each pod, in bind order.
        classes: Containers of each pod.
    """

    def __init__(self, cluster: Cluster, containers: ContainerAffinity, n: int, pods: Sequence[int]) -> None:
        self.cluster, self.containers, self.n, self.pods = cluster, containers, n, pods
        self.tree = cluster.trees[n]
        self.classes = [_class(cluster, g) for g in pods]
        self.involved = set(containers.involved)

    def assign(self, zones: AssignedZones, effort: float) -> list[Pools]:
        """Return the zones of each pod, and record them in ``zones``.

        Args:
            effort: Deterministic seconds of CP-SAT.
        """
        containers, hints = self.containers, bool(self.containers.multiplier)
        chosen = self._first(hints=hints)
        for g, cls in dict(zip(self.pods, self.classes, strict=True)).items():
            zones.zoneless.update((g, i) for i in chosen_items(cls, self.tree, hints=hints)[1])
        if self.n in containers.zoned and not self.involved.isdisjoint(self.pods):
            granted, key = self._granted(chosen), (self.n, tuple(self.pods), tuple(chosen))
            if key not in containers.solved:
                stopped = containers.stop is not None and containers.stop.is_set()
                containers.solved[key] = list(chosen) if stopped else self._best(chosen, effort)
            chosen = containers.solved[key]
            if granted != self._granted(chosen):
                zones.elsewhere.append(self.n)
            chosen = self._completed(chosen)
        for g, pools in zip(self.pods, chosen, strict=True):
            zones.pools.setdefault((g, self.n), []).append(pools)
        return chosen

    def _granted(self, chosen: Sequence[Pools]) -> list[str]:
        """Return the zones of the pods that the kubelet aligns, in an order that does not depend on the pods."""
        return sorted(str(pools) for cls, pools in zip(self.classes, chosen, strict=True) if zone_pools.asks(cls, self.tree))

    def _points(self, chosen: Sequence[Pools]) -> int:
        """Return the points of the node's pods with these zones."""
        return self.containers.on_node(self.n, [(g, pools) for g, pools in zip(self.pods, chosen, strict=True) if g in self.involved])

    def _first(self, *, hints: bool) -> list[Pools]:
        """Return zones without a search.

        Aligned pods get zones as the kubelet assigns them, in bind order. Every other container with hints gets the tightest
        pool with room."""
        tree, room = self.tree, _PoolRoom(self.tree)
        free: Free = [dict(zone) for zone in tree.available]
        listed = [chosen_items(cls, tree, hints=hints)[0] or [] for cls in self.classes]
        chosen: list[dict[int, int]] = []
        for cls in self.classes:
            wanted = zone_pools.asks(cls, tree)
            got = zone_pools.first_fit(tree, free, wanted) or []
            chosen.append({ask.container: pool for ask, pool in zip(wanted, got, strict=False) if ask.container != INIT})
        for items, pools in zip(listed, chosen, strict=True):
            for item in items:
                if item.hard and item.container in pools:
                    room.put(item, pools[item.container])
        for items, pools in zip(listed, chosen, strict=True):
            pools.update((item.container, room.take(item)) for item in items if not item.hard)
        return [
            tuple(pools.get(i, pools.get(WHOLE)) for i in range(len(cls.requests))) for cls, pools in zip(self.classes, chosen, strict=True)
        ]

    def _completed(self, chosen: Sequence[Pools]) -> list[Pools]:
        """Return the zones, completed for containers that the model omits because of too many patterns.

        These get their best pool one by one, in two rounds.
        """
        completed = list(chosen)
        room, todo = self._omitted(completed)

        def moved(k: int, item: PoolItem, pool: int) -> list[Pools]:
            pools = list(completed[k])
            pools[item.container] = pool
            return [*completed[:k], tuple(pools), *completed[k + 1 :]]

        for again in (False, True):
            if again and any(pool is not None and pool.bit_count() > 1 for pools in completed for pool in pools):
                break  # a moved container would free room that containers in wider pools would then have to use
            for k, item in todo:
                if again:
                    room.put(item, completed[k][item.container] or 0, sign=-1)
                pool = max(room.open(item), key=lambda p: self._points(moved(k, item, p)))
                if pool != room.whole:
                    room.put(item, pool)
                completed = moved(k, item, pool)
        return completed

    def _omitted(self, chosen: Sequence[Pools]) -> tuple[_PoolRoom, list[tuple[int, PoolItem]]]:
        """Return the room that the model's containers leave, and the containers that it omits, with the position of their pod."""
        room, todo = _PoolRoom(self.tree), list[tuple[int, PoolItem]]()
        for k, cls in enumerate(self.classes):
            kept, dropped = chosen_items(cls, self.tree, hints=True)
            for item in kept or ():
                pool = chosen[k][item.container] if item.container != WHOLE else next((p for p in chosen[k] if p is not None), None)
                if pool is not None and (item.hard or pool != room.whole):
                    room.put(item, pool)
            every = zone_pools.items(cls, self.tree, hints=True) or ()
            todo += [(k, item) for item in every if item.container in dropped and not item.hard]
        return room, todo

    def _best(self, start: Sequence[Pools], effort: float) -> list[Pools]:
        """Return the zones with most points, or ``start`` if nothing better is found in time."""
        model, points, upper = cp_model.CpModel(), Points(), Counter(self.pods)
        node = NodeZones(model, self.tree)
        for g, k in upper.items():
            node.add(g, _class(self.cluster, g), k, k, hints=True)
        if not node.layouts:
            return list(start)
        node.close()
        numbers = {g: model.new_constant(k) for g, k in upper.items() if g in self.involved}
        self.containers.node_points(NodePods(model, self.n, node, numbers, upper), 1, points)
        # Among the best zones, prefer those nearest to the start, which the kubelet would choose.
        same = self._kept(model, node, start)
        weights = [*((len(self.pods) + 1) * w for w in points.weights), *(1 for _ in same)]
        model.maximize(cp_model.LinearExpr.weighted_sum([*points.variables, *same], weights))
        solver = new_solver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = effort
        solver.parameters.catch_sigint_signal = False
        if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return list(start)
        dealt = {
            g: [pools for pattern, pools in _patterns(layout) for _ in range(solver.value(pattern.pods))]
            for g, layout in node.layouts.items()
        }
        best = [dealt[g].pop(0) if g in dealt else pools for g, pools in zip(self.pods, start, strict=True)]
        return best if self._points(best) > self._points(start) else list(start)

    def _kept(self, model: cp_model.CpModel, node: NodeZones, start: Sequence[Pools]) -> list[cp_model.IntVar]:
        """Return variables for the number of pods with the same pattern as in ``start``."""
        kept, had = [], Counter(zip(self.pods, start, strict=True))
        for g, layout in node.layouts.items():
            for pattern, pools in _patterns(layout):
                if had[g, pools]:
                    kept.append(model.new_int_var(0, had[g, pools], ""))
                    model.add(kept[-1] <= pattern.pods)
        return kept


def _patterns(layout: ZoneLayout) -> Iterator[tuple[Pattern, Pools]]:
    """Yield the patterns of a class on a node with the pools of its containers."""
    for pattern in layout.patterns:
        yield pattern, tuple(layout.pool(pattern, i) for i in range(len(layout.containers.requests)))


class _PoolRoom:
    """Used amounts of pools, for containers that the kubelet does not align. They get the tightest pool that leaves no set
    of zones short."""

    def __init__(self, tree: NumaTree) -> None:
        self.tree = tree
        self.whole = (1 << len(tree.zones)) - 1
        self.used: dict[int, dict[str, int]] = {}

    def put(self, item: PoolItem, pool: int, *, sign: int = 1) -> None:
        used = self.used.setdefault(pool, {})
        for name, amount in item.amounts:
            used[name] = used.get(name, 0) + sign * amount

    def open(self, item: PoolItem) -> list[int]:
        """Return the pools that a container may have now: the tightest ones with room, or else the whole node."""
        fitting = [p for p in item.pools if p != self.whole and self._fits(p, item)]
        return [p for p in fitting if not zone_pools.wider(fitting, p)] or [self.whole]

    def take(self, item: PoolItem) -> int:
        pool = self.open(item)[0]
        if pool != self.whole:
            self.put(item, pool)
        return pool

    def _fits(self, pool: int, item: PoolItem) -> bool:
        for zones in zone_pools.unions(self.tree, {*self.used, pool}):
            if pool & zones == pool:
                for name, amount in item.amounts:
                    inside = sum(used.get(name, 0) for p, used in self.used.items() if p & zones == p)
                    if inside + amount > zone_pools.total(self.tree, zones, name):
                        return False
        return True


def value_of(objective: Objective, counts: Ints, sequence: Sequence[tuple[int, int, int]]) -> tuple[int, AssignedZones]:
    """Return the weighted points of a placement with the best zones for it."""
    zones = assign(objective.cluster, objective.containers, sequence)
    return objective.total(objective.families(counts, zones=zones)), zones
