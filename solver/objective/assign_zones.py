"""NUMA zones of a finished placement, node by node, because zones of different nodes are independent.

If hints concern containers on a node, choose the best zones under the model that the search used. If only the kubelet's
Topology Manager decides, replay its choice in bind order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.numa.containers import INIT, WHOLE, ContainerClass
from kubestow.models.numa.node_topology import NumaTree
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.solver import new_solver
from kubestow.solver.numa import zone_pools
from kubestow.solver.numa.zone_patterns import NodeZones, chosen_items
from kubestow.solver.numa.zone_pools import Free, PoolItem
from kubestow.solver.objective.families.container_affinity import ContainerAffinity
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
        tree = cluster.trees.get(n)
        if tree is not None:
            hints = bool(containers.multiplier)
            chosen = _first(cluster, tree, pods, hints=hints)
            zones.zoneless.update((g, i) for g in set(pods) for i in chosen_items(_class(cluster, g), tree, hints=hints)[1])
            hinted = [g for g in pods if g in involved]
            if hinted and n in containers.zoned:
                granted = [pools for g, pools in zip(pods, chosen, strict=True) if zone_pools.asks(_class(cluster, g), tree)]
                key = (n, tuple(pods), tuple(chosen))
                if key not in containers.solved and containers.stop is not None and containers.stop.is_set():
                    containers.solved[key] = list(chosen)
                if key not in containers.solved:
                    containers.solved[key] = _best(cluster, containers, n, tree, pods, chosen, effort)
                chosen = containers.solved[key]
                now = [pools for g, pools in zip(pods, chosen, strict=True) if zone_pools.asks(_class(cluster, g), tree)]
                if sorted(map(str, granted)) != sorted(map(str, now)):
                    zones.elsewhere.append(n)
                chosen = _completed(cluster, containers, n, tree, pods, chosen)
            for g, pools in zip(pods, chosen, strict=True):
                zones.pools.setdefault((g, n), []).append(pools)
        else:
            chosen = [(None,) * len(_class(cluster, g).requests) for g in pods]
        zones.points += containers.on_node(n, [(g, pools) for g, pools in zip(pods, chosen, strict=True) if g in involved])
    return zones


def _class(cluster: Cluster, g: int) -> ContainerClass:
    found = cluster.classes[g].containers
    assert found is not None
    return found


def _first(cluster: Cluster, tree: NumaTree, pods: Sequence[int], *, hints: bool) -> list[Pools]:
    """Return zones without a search.

    Aligned pods get zones as the kubelet assigns them, in bind order. Every other container with hints gets the tightest
    pool with room."""
    free: Free = [dict(zone) for zone in tree.available]
    listed = [chosen_items(_class(cluster, g), tree, hints=hints)[0] or [] for g in pods]
    chosen: list[dict[int, int]] = []
    for g in pods:
        wanted = zone_pools.asks(_class(cluster, g), tree)
        got = zone_pools.first_fit(tree, free, wanted) or []
        chosen.append({ask.container: pool for ask, pool in zip(wanted, got, strict=False) if ask.container != INIT})
    room = _PoolRoom(tree)
    for items, pools in zip(listed, chosen, strict=True):
        for item in items:
            if item.hard and item.container in pools:
                room.put(item, pools[item.container])
    for items, pools in zip(listed, chosen, strict=True):
        for item in items:
            if not item.hard:
                pools[item.container] = room.take(item)
    return [
        tuple(pools.get(i, pools.get(WHOLE)) for i in range(len(_class(cluster, g).requests)))
        for g, pools in zip(pods, chosen, strict=True)
    ]


def _completed(
    cluster: Cluster, containers: ContainerAffinity, n: int, tree: NumaTree, pods: Sequence[int], chosen: Sequence[Pools]
) -> list[Pools]:
    """Return the zones of a node's pods, completed for containers that the model omits because of too many patterns.

    These get their best pool one by one, in two rounds.
    """
    chosen = list(chosen)
    todo: list[tuple[int, PoolItem]] = []
    room = _PoolRoom(tree)
    for k, g in enumerate(pods):
        kept, dropped = chosen_items(_class(cluster, g), tree, hints=True)
        for item in kept or ():
            pool = chosen[k][item.container] if item.container != WHOLE else next((p for p in chosen[k] if p is not None), None)
            if pool is not None and (item.hard or pool != room.whole):
                room.put(item, pool)
        every = zone_pools.items(_class(cluster, g), tree, hints=True) or ()
        todo += [(k, item) for item in every if item.container in dropped and not item.hard]
    involved = set(containers.involved)

    def points(k: int, item: PoolItem, pool: int) -> int:
        pools = list(chosen[k])
        pools[item.container] = pool
        trial = [(g, tuple(pools) if j == k else chosen[j]) for j, g in enumerate(pods) if g in involved]
        return containers.on_node(n, trial)

    for again in (False, True):
        if again and any(pool is not None and pool.bit_count() > 1 for pools in chosen for pool in pools):
            break  # a moved container would free room that containers in wider pools would then have to use
        for k, item in todo:
            if again:
                room.put(item, chosen[k][item.container] or 0, sign=-1)
            pool = max(room.open(item), key=lambda p: points(k, item, p))
            if pool != room.whole:
                room.put(item, pool)
            pools = list(chosen[k])
            pools[item.container] = pool
            chosen[k] = tuple(pools)
    return chosen


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


def _best(
    cluster: Cluster, containers: ContainerAffinity, n: int, tree: NumaTree, pods: Sequence[int], start: Sequence[Pools], effort: float
) -> list[Pools]:
    """Return the zones with most points, or ``start`` if nothing better is found in time."""
    model = cp_model.CpModel()
    node = NodeZones(model, tree)
    upper: dict[int, int] = {}
    for g in pods:
        upper[g] = upper.get(g, 0) + 1
    for g, k in upper.items():
        node.add(g, _class(cluster, g), k, k, hints=True)
    if not node.layouts:
        return list(start)
    node.close()
    points = Points()
    numbers = {g: model.new_constant(k) for g, k in upper.items() if g in containers.involved}
    containers.node_points(model, node, n, numbers, upper, 1, points)
    # Among the best zones, prefer those nearest to the start, which the kubelet would choose.
    same = _kept(model, cluster, node, pods, start)
    weights = [*((len(pods) + 1) * w for w in points.weights), *(1 for _ in same)]
    model.maximize(cp_model.LinearExpr.weighted_sum([*points.variables, *same], weights))
    solver = new_solver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = effort
    solver.parameters.catch_sigint_signal = False
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return list(start)
    dealt: dict[int, list[Pools]] = {}
    for g, layout in node.layouts.items():
        width = len(layout.containers.requests)
        dealt[g] = [
            tuple(layout.pool(pattern, i) for i in range(width)) for pattern in layout.patterns for _ in range(solver.value(pattern.pods))
        ]
    best = [dealt[g].pop(0) if g in dealt else pools for g, pools in zip(pods, start, strict=True)]

    def value(chosen: Sequence[Pools]) -> int:
        concerned: Mapping[int, None] = dict.fromkeys(containers.involved)
        return containers.on_node(n, [(g, pools) for g, pools in zip(pods, chosen, strict=True) if g in concerned])

    return best if value(best) > value(start) else list(start)


def _kept(model: cp_model.CpModel, cluster: Cluster, node: NodeZones, pods: Sequence[int], start: Sequence[Pools]) -> list[cp_model.IntVar]:
    """Return variables for the number of pods with the same pattern as in ``start``."""
    kept = []
    for g, layout in node.layouts.items():
        width = len(_class(cluster, g).requests)
        for pattern in layout.patterns:
            pools = tuple(layout.pool(pattern, i) for i in range(width))
            number = sum(h == g and chosen == pools for h, chosen in zip(pods, start, strict=True))
            if number:
                kept.append(model.new_int_var(0, number, ""))
                model.add(kept[-1] <= pattern.pods)
    return kept


def value_of(objective: Objective, counts: Ints, sequence: Sequence[tuple[int, int, int]]) -> tuple[int, AssignedZones]:
    """Return the weighted points of a placement with the best zones for it."""
    zones = assign(objective.cluster, objective.containers, sequence)
    return objective.total(objective.families(counts, zones=zones)), zones
