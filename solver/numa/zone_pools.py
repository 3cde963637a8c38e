"""Zone pools that the containers of a class may get on a node, and the kubelet's own choice (first fit).

A pool is a set of zones as a bitmask: one zone, all zones of a socket, or the whole node. Under the policy `restricted`,
it is any smallest set that could hold the request.

Source: specification of container affinity, sections 5 and 6; pkg/kubelet/cm/topologymanager (policy_single_numa_node.go,
policy_restricted.go); scheduler-plugins pkg/noderesourcetopology/filter.go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from kubestow.models.documents.policy import Closeness
from kubestow.models.numa.alignment import aligned, missing
from kubestow.models.numa.containers import INIT, WHOLE, Amounts, ContainerClass, ZoneAsk
from kubestow.models.numa.node_topology import NumaTree, is_memory

MAX_POOLS = 1_000  #: Requests with more choices of zones are left out of the model.
MAX_ZONES_FOR_ALL_UNIONS = 10  #: On nodes with up to this many zones, all unions of pools count.
MAX_UNION_POOLS = 5  #: On larger nodes, only unions of up to this many pools count.
Free = list[dict[str, int]]  # residual capacity per zone


@dataclass(frozen=True, slots=True)
class PoolItem:
    """A container, or a whole pod, that gets a pool.

    Attributes:
        container: Index of the container in the class, or WHOLE for the pod.
        amounts: Amounts taken from the pool.
        pools: Possible pools.
        hard: If True, the kubelet rejects the pod without a pool. Otherwise wider pools are a fallback for tighter ones.
    """

    container: int
    amounts: Amounts
    pools: tuple[int, ...]
    hard: bool


def bits(pool: int) -> list[int]:
    return [z for z in range(pool.bit_length()) if pool >> z & 1]


def sockets(tree: NumaTree) -> list[int]:
    """Return the pool of each socket."""
    by_socket: dict[int, int] = {}
    for z, s in enumerate(tree.socket):
        by_socket[s] = by_socket.get(s, 0) | 1 << z
    return [by_socket[s] for s in sorted(by_socket)]


def total(tree: NumaTree, pool: int, name: str, *, capacity: bool = False) -> int:
    """Return the amount of a resource in a pool.

    Args:
        capacity: Return the capacity of the zones. Otherwise return the part that is available to pods to be placed.
    """
    listed = tree.capacity if capacity else tree.available
    if tree.numa and name != "cpu":  # shared by the caches of a NUMA zone
        return sum({tree.numa[z]: listed[z].get(name, 0) for z in bits(pool)}.values())
    return sum(listed[z].get(name, 0) for z in bits(pool))


def numa_zones(tree: NumaTree) -> list[int]:
    """Return the pool of each NUMA zone, if the zones of the tree are L3 caches."""
    by_node: dict[int, int] = {}
    for z, n in enumerate(tree.numa):
        by_node[n] = by_node.get(n, 0) | 1 << z
    return list(by_node.values())


def asks(cls: ContainerClass, tree: NumaTree) -> tuple[ZoneAsk, ...]:
    """Return the requests of a pod that the node's kubelet aligns, in its order, without resources that no zone lists."""
    if not tree.rejects:
        return ()
    listed = cls.per_pod if tree.scope == "pod" else cls.per_container
    aligned_amounts = ((ask, aligned(tree, ask.amounts)) for ask in listed)
    return tuple(ZoneAsk(ask.container, amounts) for ask, amounts in aligned_amounts if amounts)


def lacking(cls: ContainerClass, tree: NumaTree, allocatable: Mapping[str, int]) -> list[str]:
    """Return the requested resources that no zone lists and that make the kubelet reject the pod."""
    if not tree.rejects:
        return []
    listed = cls.per_pod if tree.scope == "pod" else cls.per_container
    return sorted({name for ask in listed for name in missing(tree, ask.amounts, allocatable)})


def subsets(zones: Sequence[Mapping[str, int]], amounts: Amounts, k: int) -> Iterator[int]:
    """Yield the sets of k zones that together have the amounts, in the kubelet's order: lowest bitmask first."""
    needed = [(name, amount) for name, amount in amounts if amount > 0]

    def reachable(top: int, chosen: int, missing: Sequence[int]) -> bool:
        """Return whether the best ``chosen`` zones below ``top`` could cover the remaining need, resource by resource."""
        return all(
            need <= 0 or sum(sorted((zones[z].get(name, 0) for z in range(top)), reverse=True)[:chosen]) >= need
            for (name, _), need in zip(needed, missing, strict=True)
        )

    def below(top: int, chosen: int, missing: Sequence[int]) -> Iterator[int]:
        if not chosen:
            if all(need <= 0 for need in missing):
                yield 0
            return
        for highest in range(chosen - 1, top):
            missing_amounts = [need - zones[highest].get(name, 0) for (name, _), need in zip(needed, missing, strict=True)]
            if reachable(highest, chosen - 1, missing_amounts):
                yield from (1 << highest | lower for lower in below(highest, chosen - 1, missing_amounts))

    start = [amount for _, amount in needed]
    if reachable(len(zones), k, start):
        yield from below(len(zones), k, start)


def width(tree: NumaTree, amounts: Amounts) -> int:
    """Return the number of zones that a request must get.

    It is 1, or under `restricted` the smallest number whose total capacity could hold the request (0 if there is none)."""
    if tree.policy != "restricted":
        return 1
    if amounts not in tree.widths:
        tree.widths[amounts] = _width(tree, amounts)
    return tree.widths[amounts]


def _width(tree: NumaTree, amounts: Amounts) -> int:
    return next((k for k in range(1, len(tree.zones) + 1) if next(subsets(tree.capacity, amounts, k), None) is not None), 0)


@dataclass(frozen=True, slots=True)
class ZoneShortage:
    """Reason why a container gets no zones.

    Attributes:
        name: The resource.
        requested: Requested amount.
        free: Amount available to the pod, per zone.
        total: Capacity per zone.
        bound_zones: Zones to which init containers of the pod bind it, as a bitmask; 0 for none.
    """

    name: str
    requested: int
    free: tuple[int, ...]
    total: tuple[int, ...]
    bound_zones: int


class _PodAdmission:
    """Allocations of one pod on a node, container by container.

    CPUs and devices of ordinary init containers are reusable. Hints for later containers of the pod exclude all sets of
    zones without them, and these containers take them first. Memory of init containers is reusable as well, but does not
    bind the pod to zones."""

    def __init__(self, tree: NumaTree, free: Free) -> None:
        self._tree, self._free = tree, free
        self._reusable: dict[str, dict[int, int]] = {}  # by resource and zone
        self._allocated: list[tuple[int, str, int]] = []

    def admit(self, ask: ZoneAsk) -> int | None:
        """Return the zones that the next container gets, as a bitmask, and take its amounts from them.

        Return None, with nothing taken, if the kubelet rejects the container.
        """
        k = width(self._tree, ask.amounts)
        pool = next(self._pools(ask, k), None) if k else None
        if pool is not None:
            for name, amount in ask.amounts:
                if ask.container != INIT or not is_memory(name):
                    self._take(pool, name, amount, init=ask.container == INIT)
        return pool

    def shortage(self, ask: ZoneAsk) -> ZoneShortage:
        """Return the resource that a rejected container lacks: the first that no set of zones has, or its first resource."""
        k = width(self._tree, ask.amounts)
        short = (each for each in ask.amounts if not k or next(self._pools(ZoneAsk(ask.container, (each,)), k), None) is None)
        name, requested = next(short, ask.amounts[0])
        reusable = self._reusable.get(name, {})
        free = (max(0, zone.get(name, 0)) + reusable.get(z, 0) for z, zone in enumerate(self._free))
        return ZoneShortage(
            name, requested, tuple(free), tuple(zone.get(name, 0) for zone in self._tree.capacity), sum(1 << z for z in reusable)
        )

    def _pools(self, ask: ZoneAsk, k: int) -> Iterator[int]:
        reusable = {name: self._reusable[name] for name, _ in ask.amounts if self._reusable.get(name)}
        if not reusable:
            return subsets(self._free, ask.amounts, k)
        needed = sum({1 << z for zones in reusable.values() for z in zones})
        zones = [
            {name: zone.get(name, 0) + reusable.get(name, {}).get(z, 0) for name, _ in ask.amounts} for z, zone in enumerate(self._free)
        ]
        return (pool for pool in subsets(zones, ask.amounts, k) if pool & needed == needed)

    def _take(self, pool: int, name: str, amount: int, *, init: bool) -> None:
        reusable = self._reusable.setdefault(name, {})
        zones = bits(pool)
        # CPUs are taken zone by zone, devices from the reusable ones first.
        steps = [(z, again) for z in zones for again in (True, False)] if name == "cpu" else [(z, a) for a in (True, False) for z in zones]
        fresh: dict[int, int] = {}
        for z, again in steps:
            part = min(amount, reusable.get(z, 0) if again else max(0, self._free[z].get(name, 0)))
            amount -= part
            if part and again and not init:
                reusable[z] -= part
            elif part and not again:
                self._free[z][name] -= part
                self._allocated.append((z, name, part))
                fresh[z] = part
        for z, part in fresh.items() if init else ():
            reusable[z] = reusable.get(z, 0) + part
        self._reusable[name] = {z: part for z, part in reusable.items() if part}

    def end(self) -> None:
        """Return to the zones the amounts that only init containers used. Called once all containers are admitted."""
        for name, reusable in self._reusable.items():
            for z, part in reusable.items():
                self._free[z][name] += part

    def undo(self) -> None:
        """Return to the zones everything that the containers took."""
        for z, name, part in self._allocated:
            self._free[z][name] += part


def first_fit(tree: NumaTree, free: Free, wanted: Sequence[ZoneAsk]) -> list[int] | None:
    """Return the pools that the kubelet gives, per request, and take them from ``free``.

    Return None, with ``free`` unchanged, if the kubelet rejects the pod.

    Source: pkg/kubelet/cm, generateCPUTopologyHints and updateCPUsToReuse of cpumanager/policy_static.go,
    generateDeviceTopologyHints and devicesToAllocate of devicemanager."""
    got: list[int] = []
    admission = _PodAdmission(tree, free)
    for ask in wanted:
        pool = admission.admit(ask)
        if pool is None:
            admission.undo()
            return None
        got.append(pool)
    admission.end()
    return got


def shortage(tree: NumaTree, free: Free, wanted: Sequence[ZoneAsk]) -> ZoneShortage | None:
    """Return why the kubelet rejects a pod. None if it does not. ``free`` is unchanged."""
    admission = _PodAdmission(tree, [dict(zone) for zone in free])
    return next((admission.shortage(ask) for ask in wanted if admission.admit(ask) is None), None)


def items(cls: ContainerClass, tree: NumaTree, *, hints: bool) -> list[PoolItem] | None:
    """Return the items of a pod of the class that get pools on a node, without those that only the replay of the kubelet decides.

    Requests of init containers, and requests with more than MAX_POOLS possible pools, are left to that replay.

    Args:
        hints: Add a soft item for each container that hints concern and that the kubelet does not align.

    Returns:
        None if the kubelet would reject the pod even on the empty node.
    """
    found: list[PoolItem] = []
    for ask in asks(cls, tree):
        k = width(tree, ask.amounts)
        pools = tuple(islice(subsets(tree.available, ask.amounts, k), MAX_POOLS + 1)) if k else ()
        if not pools:
            return None
        if ask.container != INIT and len(pools) <= MAX_POOLS:  # with more pools, only the replay of the kubelet decides
            found.append(PoolItem(ask.container, ask.amounts, pools, True))
    if hints and len(tree.zones) > 1 and not any(item.container == WHOLE for item in found):
        have = {item.container for item in found}
        for i in cls.involved():
            if i not in have:
                amounts = tuple(
                    (name, amount) for name, amount in cls.requests[i] if name in ("cpu", "memory") and aligned(tree, ((name, 1),))
                )
                found.append(PoolItem(i, amounts, soft_pools(tree, amounts), False))
    return found


def soft_pools(tree: NumaTree, amounts: Amounts) -> tuple[int, ...]:
    """Return the pools of a container that is never rejected, tightest first: caches, NUMA zones, sockets, then the node."""
    whole = (1 << len(tree.zones)) - 1
    listed = [1 << z for z in range(len(tree.zones))] + [s for s in (*numa_zones(tree), *sockets(tree)) if s != whole]
    fitting = [p for p in dict.fromkeys(listed) if all(total(tree, p, name) >= amount for name, amount in amounts)]
    return (*(p for p in fitting if p != whole), whole)


def unions(tree: NumaTree, pools: Iterable[int]) -> list[int]:
    """Return the unions of overlapping pools: the sets of zones that can be short although no part is.

    A union of disjoint sets is short only if one set is. On nodes with more than MAX_ZONES_FOR_ALL_UNIONS zones, only
    unions of a few pools are returned."""
    used = {*pools, *numa_zones(tree)}  # caches share the memory of their NUMA zone
    closed = new = set(used)
    steps = 1
    while new and (len(tree.zones) <= MAX_ZONES_FOR_ALL_UNIONS or steps < MAX_UNION_POOLS):
        new = {union | pool for union in new for pool in used if union & pool} - closed
        closed = closed | new
        steps += 1
    return sorted(closed)


def wider(pools: Iterable[int], pool: int) -> list[int]:
    """Return the pools strictly inside ``pool``. They must be full before a container gets ``pool``."""
    return [p for p in pools if p != pool and p & pool == p]


def closeness(tree: NumaTree, levels: Closeness, a: int | None, b: int | None) -> int:
    """Return the points per unit of affinity for two containers with these pools (None: anywhere on the node)."""
    if a is None or b is None:
        return levels.sameNode
    return (levels.sameNode, levels.sameSocket, levels.sameZone, levels.cache)[tree.lowest(a, b)]
