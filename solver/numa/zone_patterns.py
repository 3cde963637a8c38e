"""CP-SAT encoding of the NUMA zones of one node: number of pods of each class per choice of pools.

Each class has one variable per pattern, that is, per choice of pools for its items. The patterns add up to the pods of
the class on the node. For every set of zones, the amounts taken from pools inside the set fit its capacity (Hall's
condition, doi:10.1112/jlms/s1-10.37.26). A container that the kubelet would not reject gets a wider pool only if no
tighter one has room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from kubestow.models.documents.policy import Closeness
from kubestow.models.numa.containers import WHOLE, Amounts, ContainerClass
from kubestow.models.numa.node_topology import NumaTree
from kubestow.solver.numa import zone_pools
from kubestow.solver.numa.zone_pools import PoolItem
from kubestow.solver.ortools import cp_model

#: Patterns of one class on one node. If there are more, containers with the weakest hints get no zones (named in the result).
MAX_PATTERNS = 2_000


@dataclass
class Pattern:
    """A choice of one pool per item, and the number of pods that have it."""

    pools: tuple[int, ...]
    pods: cp_model.IntVar


@dataclass
class ZoneLayout:
    """One class on the node.

    Attributes:
        containers: The class's containers.
        items: Items that get a pool.
        pods: Pods on the node: variable or number.
        upper: Maximum pods on the node.
        patterns: Patterns of the class.
    """

    containers: ContainerClass
    items: list[PoolItem]
    pods: cp_model.IntVar | int
    upper: int
    patterns: list[Pattern] = field(default_factory=list)

    def pool(self, pattern: Pattern, container: int) -> int | None:
        """Return the pool of a container under a pattern. None if it has no pool of its own."""
        for item, pool in zip(self.items, pattern.pools, strict=True):
            if item.container in (container, WHOLE):
                return pool
        return None


def chosen_items(cls: ContainerClass, tree: NumaTree, *, hints: bool) -> tuple[list[PoolItem] | None, list[int]]:
    """Return the items of a class on a node, and the containers left without zones because there would be too many patterns.

    The items are None if the kubelet would reject the pod even on the empty node. Containers with the least weight go first.
    """
    items = zone_pools.items(cls, tree, hints=hints)
    dropped: list[int] = []
    if items is None:
        return None, dropped
    while prod(len(item.pools) for item in items) > MAX_PATTERNS:
        soft = [item for item in items if not item.hard]
        if not soft:
            break
        weakest = min(soft, key=lambda item: (_weight(cls, item.container), -item.container))
        items.remove(weakest)
        dropped.append(weakest.container)
    return items, dropped


def _weight(cls: ContainerClass, container: int) -> int:
    inner = sum(abs(w) for i, j, w in cls.inner if container in (i, j))
    return inner + sum(abs(w) for _, w in cls.entries[container]) + len(cls.hits[container])


class NodeZones:
    """Zones of one node in a CP-SAT model. Add all classes with :meth:`add`, then call :meth:`close` once."""

    def __init__(self, model: cp_model.CpModel, tree: NumaTree) -> None:
        self.model, self.tree = model, tree
        self.layouts: dict[int, ZoneLayout] = {}
        self._used: dict[tuple[int, str], list[tuple[cp_model.IntVar, int]]] = {}

    def add(self, g: int, cls: ContainerClass, pods: cp_model.IntVar | int, upper: int, *, hints: bool) -> None:
        """Add a class. Classes without items on the node are ignored."""
        items, _ = chosen_items(cls, self.tree, hints=hints)
        if items:
            self.layouts[g] = ZoneLayout(cls, items, pods, upper)

    def close(self) -> None:
        """Create the patterns of all layouts and add their rows to the model. Called once all layouts are known."""
        load = self._loads()
        for layout in self.layouts.values():
            choices = [self._pools(item, load) for item in layout.items]
            for pools in product(*choices):
                layout.patterns.append(Pattern(pools, self.model.new_int_var(0, layout.upper, "")))
            self.model.add(cp_model.LinearExpr.sum([p.pods for p in layout.patterns]) == layout.pods)
        self._capacity()
        self._guards()

    def _loads(self) -> dict[str, int]:
        """Return the maximum total demand of all items, per resource."""
        load: dict[str, int] = {}
        for layout in self.layouts.values():
            for item in layout.items:
                for name, amount in item.amounts:
                    load[name] = load.get(name, 0) + layout.upper * amount
        return load

    def _pools(self, item: PoolItem, load: Mapping[str, int]) -> tuple[int, ...]:
        """Return the item's pools, omitting pools around tighter ones that can never all be full."""
        if item.hard:
            return item.pools
        others = {name: load[name] - amount for name, amount in item.amounts}
        pools = []
        for pool in item.pools:
            inside = zone_pools.wider(item.pools, pool)
            weakest = [p for p in inside if not zone_pools.wider(inside, p)]
            if not weakest or self._could_fill(weakest, item.amounts, others):
                pools.append(pool)
        return tuple(pools)

    def _could_fill(self, tight: Sequence[int], amounts: Amounts, load: Mapping[str, int]) -> bool:
        """Return True if the tight pools may all lack some resource at the same time. More than 8 pools are not checked.

        Args:
            tight: Pools, as bitmasks.
            amounts: Amounts that a pool must have free.
            load: Total demand per resource that can fill the pools.
        """
        if len(tight) > 8:
            return True
        for lack in product(amounts, repeat=len(tight)):
            need: dict[str, int] = {}
            for pool, (name, amount) in zip(tight, lack, strict=True):
                need[name] = need.get(name, 0) + max(0, zone_pools.total(self.tree, pool, name) - amount + 1)
            if all(value <= load[name] for name, value in need.items()):
                return True
        return False

    # --- what pools hold -------------------------------------------------------------------------------------------------------

    def _inside(self, zones: int, name: str) -> list[tuple[cp_model.IntVar, int]]:
        """Return (pattern, amount) for all demand on pools inside a set of zones.

        Containers moved to the whole node for lack of room take nothing from its zones."""
        key = (zones, name)
        if key not in self._used:
            whole = (1 << len(self.tree.zones)) - 1
            amounts = []
            for layout in self.layouts.values():
                for pattern in layout.patterns:
                    amount = sum(
                        dict(item.amounts).get(name, 0)
                        for item, pool in zip(layout.items, pattern.pools, strict=True)
                        if pool & zones == pool and (item.hard or pool != whole)
                    )
                    if amount:
                        amounts.append((pattern.pods, amount))
            self._used[key] = amounts
        return self._used[key]

    def _sets(self) -> list[int]:
        whole = (1 << len(self.tree.zones)) - 1
        pools = {p for layout in self.layouts.values() for item in layout.items for p in item.pools if item.hard or p != whole}
        return zone_pools.unions(self.tree, pools)

    def _capacity(self) -> None:
        names = sorted({name for layout in self.layouts.values() for item in layout.items for name, _ in item.amounts})
        for zones in self._sets():
            for name in names:
                used = self._inside(zones, name)
                capacity = zone_pools.total(self.tree, zones, name)
                if sum(amount * self._upper(variable) for variable, amount in used) > capacity:
                    self.model.add(self._load(used) <= capacity)

    @staticmethod
    def _upper(variable: cp_model.IntVar) -> int:
        return int(variable.proto.domain[1])

    @staticmethod
    def _load(used: Sequence[tuple[cp_model.IntVar, int]]) -> cp_model.LinearExprT:
        return cp_model.LinearExpr.weighted_sum([v for v, _ in used], [a for _, a in used])

    def _guards(self) -> None:
        """Require that an item has a wider pool only if every tighter pool that could hold it alone is too full."""
        users: dict[tuple[Amounts, tuple[int, ...], int], list[cp_model.IntVar]] = {}
        for layout in self.layouts.values():
            for index, item in enumerate(layout.items):
                if not item.hard:
                    for pattern in layout.patterns:
                        if zone_pools.wider(item.pools, pattern.pools[index]):
                            users.setdefault((item.amounts, item.pools, pattern.pools[index]), []).append(pattern.pods)
        sets, whole = self._sets(), (1 << len(self.tree.zones)) - 1
        for (amounts, pools, pool), patterns in users.items():
            present = self.model.new_bool_var("")
            for variable in patterns:
                self.model.add(variable == 0).only_enforce_if(~present)
            for tighter in zone_pools.wider(pools, pool):
                # The tighter pool is full if some set of zones around it lacks some resource for one more container. Sets that
                # contain the wider pool already hold the container.
                full = []
                for around in sets:
                    if tighter & around == tighter and (pool == whole or pool & around != pool):
                        for name, amount in amounts:
                            literal = self.model.new_bool_var("")
                            lack = zone_pools.total(self.tree, around, name) - amount + 1
                            self.model.add(self._load(self._inside(around, name)) >= lack).only_enforce_if(literal)
                            full.append(literal)
                self.model.add_bool_or(full).only_enforce_if(present)


def levels(tree: NumaTree, closeness: Closeness) -> list[tuple[int, int]]:
    """Return (set of zones, points) of container pairs.

    Two containers gain the points, in addition to sameNode, if both pools are inside the set. Points of nested sets add
    up."""
    whole = (1 << len(tree.zones)) - 1
    outer = zone_pools.sockets(tree) if len(set(tree.socket)) > 1 else [whole]
    zone_points = [(s, closeness.sameSocket - closeness.sameNode) for s in outer]
    single = [1 << z for z in range(len(tree.zones))]
    zone_points += [(pool, closeness.sameZone - closeness.sameSocket) for pool in zone_pools.numa_zones(tree) or single]
    zone_points += [(pool, closeness.cache - closeness.sameZone) for pool in single if tree.numa]
    return [(zones, points) for zones, points in zone_points if points]
