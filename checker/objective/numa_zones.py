"""The checker's judgement of NUMA zones: listed zones, kubelet rejections, and the points of container affinity.

Zones belong to one node, so nodes are judged one by one. The checker reads the objects with its own code. The
amounts confined to a set of zones must not exceed what the set has, for every set. That is Hall's condition
(doi:10.1112/jlms/s1-10.37.26).

Source: docs/sources.md#container-affinity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.checker.objective import topology_manager
from kubestow.checker.objective.colocation import colocation
from kubestow.checker.objective.families.container_affinity import NodeContainerAffinity
from kubestow.checker.objective.kubelet import Kubelet, zones_due
from kubestow.checker.objective.topology_manager import Machine, ZoneRequest
from kubestow.models.documents.placement import Assignment
from kubestow.models.documents.policy import Policy, node_topologies
from kubestow.models.kube import objects, quantity
from kubestow.models.snapshot.snapshot import Snapshot

#: Rule names of faults: of listed zones, and of kubelet rejections.
ZONES: Final = "Zones"
KUBELET: Final = "NodeResourceTopologyMatch"

#: Largest number of zones for which every set of zones is checked for capacity. Nodes with more zones check unions of up to
#: :data:`_MAX_UNITED_POOLS` pools that overlap in a chain. That covers all unions of three pools, with two more that link them.
MAX_ZONES_FOR_ALL_SETS: Final = 10
_MAX_UNITED_POOLS: Final = 5


@dataclass
class Zones:
    """The judgement of a placement.

    Attributes:
        points: Points of container affinity, without the policy's multiplier.
        faults: Tuples of pod key, node, rule and reason. The pod is empty if zones are overcommitted.
    """

    points: int = 0
    faults: list[tuple[str, str, str, str]] = field(default_factory=list)


@dataclass
class _PlacedPod:
    """A placed pod.

    Attributes:
        key: Its ``namespace/name``.
        pod: The pod.
        entry: Its assignment.
        asks: Requests that its kubelet aligns; empty if the kubelet does not reject pods.
        pools: Zones of its containers as bitmasks.
    """

    key: str
    pod: objects.Pod
    entry: Assignment
    asks: Sequence[ZoneRequest] = ()
    pools: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Item:
    """Amounts taken from one pool.

    Attributes:
        key: Key of the pod.
        container: Name of the container; empty for the whole pod.
        amounts: The amounts.
        pool: The zones as a bitmask.
        aligned: True if the kubelet aligns them.
    """

    key: str
    container: str
    amounts: Mapping[str, int]
    pool: int
    aligned: bool

    def __str__(self) -> str:
        return f"container {self.container}" if self.container else "the pod"


def judge(snapshot: Snapshot, placed: Sequence[Assignment], absent: Collection[str], policy: Policy) -> Zones:
    """Return the points and faults of a placement.

    Args:
        snapshot: The snapshot.
        placed: Assignments in bind order. Unknown pods and nodes, ended pods and repeated mentions are ignored.
        absent: Keys of bound pods that are placed again. All other bound pods stay, anywhere on their nodes.
        policy: The policy.

    Raises:
        MachineError: a NodeResourceTopology that cannot be read.
        QuantityError: a quantity is malformed or beyond 64 bits.
    """
    topologies = node_topologies(policy, snapshot)
    nodes = {node.metadata.name or "": node for node in snapshot.nodes}
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods if not objects.is_terminal(pod)}
    listed = {entry.pod: entry for entry in reversed(placed) if entry.pod in pods and entry.node in nodes}
    there: dict[str, list[_PlacedPod]] = {}
    for entry in placed:
        if listed.get(entry.pod) is entry:
            there.setdefault(entry.node, []).append(_PlacedPod(entry.pod, pods[entry.pod], entry))
    gone = frozenset(absent)
    fixed: dict[str, list[objects.Pod]] = {}
    for key, bound in pods.items():
        if bound.spec.nodeName in there and key not in listed and key not in gone:
            fixed.setdefault(bound.spec.nodeName or "", []).append(bound)
    zones, near = Zones(), colocation(policy, snapshot) if policy.multipliers.containerAffinity else None
    zone_requests: dict[object, Sequence[ZoneRequest]] = {}
    for name, entries in there.items():
        topology = topologies.get(name)
        machine = topology_manager.read(nodes[name], topology) if topology is not None else None
        if machine is not None and machine.rejects:
            for pod in entries:
                spec, status = pod.pod.spec, pod.pod.status  # replicas in a snapshot share the parts of their specs
                qos = status.qosClass if status else None
                memo = (id(spec.containers), id(spec.initContainers), id(spec.resources), qos, machine.scope)
                if memo not in zone_requests:
                    zone_requests[memo] = topology_manager.asks(pod.pod, machine.scope)
                pod.asks = zone_requests[memo]
        _judge_node(name, machine, entries, zones)
        if near is not None:
            affinity = NodeContainerAffinity(machine, policy, near)
            zones.points += affinity.points([(pod.pod, pod.pools) for pod in entries], fixed.get(name, ()))
    return zones


def _judge_node(name: str, machine: Machine | None, placed: Sequence[_PlacedPod], zones: Zones) -> None:
    faults: list[tuple[str, str, str]] = []
    for pod in placed:
        faults += [(pod.key, ZONES, why) for why in _read_pools(pod, machine)]
    if machine is not None:
        faults += _zone_faults(machine, placed)
        faults += _rejected(machine, placed)
    zones.faults += [(key, name, rule, why) for key, rule, why in faults]


# --- listed zones -------------------------------------------------------------------------------------------------------


def _running(pod: objects.Pod) -> list[objects.Container]:
    """Return app containers and sidecars."""
    return [*(pod.spec.containers or ()), *(c for c in pod.spec.initContainers or () if c.restartPolicy == "Always")]


def _read_pools(placed: _PlacedPod, machine: Machine | None) -> Iterator[str]:
    """Fill in the pools of a pod's containers and yield faults of the listed zones. Containers without a readable list have no pool."""
    known = {container.name or "" for container in _running(placed.pod)}
    seen: set[str] = set()
    for listed in placed.entry.containers:
        if listed.name not in known:
            yield f"the pod runs no container {listed.name!r}"
            continue
        if listed.name in seen:
            yield f"container {listed.name} is listed twice"
            continue
        seen.add(listed.name)
        if machine is None:
            if listed.zones:
                yield f"container {listed.name} has zones, of a node without NUMA zones"
            continue
        unknown = [zone for zone in listed.zones if zone not in machine.zones]
        if unknown:
            yield f"container {listed.name}: the node has no zone {unknown[0]!r}"
        elif len(set(listed.zones)) < len(listed.zones):
            yield f"container {listed.name}: a zone is listed twice"
        elif listed.zones:
            placed.pools[listed.name] = sum(1 << machine.zones.index(zone) for zone in listed.zones)


def _items(placed: _PlacedPod, machine: Machine) -> Iterator[_Item]:
    """Yield the amounts that a pod takes from its listed zones."""
    aligned: dict[str, dict[str, int]] = {}
    for ask in placed.asks:
        amounts = {name: amount for name, amount in ask.amounts.items() if machine.lists(name)}
        if ask.stays and amounts:
            aligned[ask.container] = amounts
    if "" in aligned:  # aligned as a whole
        if placed.pools:
            yield _Item(placed.key, "", aligned[""], next(iter(placed.pools.values())), aligned=True)
        return
    for container in _running(placed.pod):
        name = container.name or ""
        if name in placed.pools:
            own = aligned.get(name)
            yield _Item(placed.key, name, _shared(container, machine) if own is None else own, placed.pools[name], aligned=own is not None)


def _shared(container: objects.Container, machine: Machine) -> dict[str, int]:
    """Return the requested cpu (mCPU) and memory (bytes) of a container that the kubelet does not align.

    A limit replaces a missing request. Resources that the zones of the machine do not list are left out.
    """
    given = container.resources or objects.ResourceRequirements()
    amounts = {**(given.limits or {}), **(given.requests or {})}
    found = {}
    for name, read in (("cpu", quantity.milli), ("memory", quantity.units)):
        if name in amounts and machine.lists(name) and read(amounts[name]) > 0:
            found[name] = read(amounts[name])
    return found


# --- faults of zones ----------------------------------------------------------------------------------------------------


def _zone_faults(machine: Machine, placed: Sequence[_PlacedPod]) -> Iterator[tuple[str, str, str]]:
    items: list[_Item] = []
    for pod in placed:
        own = list(_items(pod, machine))
        items += own
        if own and not own[0].container and len(set(pod.pools.values())) > 1:
            yield pod.key, ZONES, f"the kubelet aligns the pod as one ({machine.scope} scope), but its containers have different zones"
    room = _Room(machine, items)
    for item in items:
        why = _wrong_width(item, machine) if item.aligned else room.why_not(item)
        if why is not None:
            yield item.key, ZONES, f"{item}: {why}"
    for why in room.overfull():
        yield "", ZONES, why


def _wrong_width(item: _Item, machine: Machine) -> str | None:
    due, has = zones_due(machine, item.amounts), item.pool.bit_count()
    if not due:
        return f"all zones together could not hold it ({machine.policy})"
    return None if has == due else f"has {has} zone{'s' if has > 1 else ''}, under {machine.policy} it gets {due}"


class _Room:
    """The amounts confined to the listed zones of one node, in the final state."""

    def __init__(self, machine: Machine, items: Iterable[_Item]) -> None:
        self._machine = machine
        self._pools: dict[int, Counter[str]] = {}
        self._used: dict[int, Counter[str]] = {}
        self._reasons: dict[tuple[int, tuple[tuple[str, int], ...]], str | None] = {}
        for item in items:
            # A container that is not aligned and has all zones can run in any zone.
            if item.aligned or item.pool != machine.whole:
                self._pools.setdefault(item.pool, Counter()).update(item.amounts)

    def _inside(self, zones: int) -> Counter[str]:
        """Return the amounts taken from pools inside a set of zones."""
        if zones not in self._used:
            total: Counter[str] = Counter()
            for pool, amounts in self._pools.items():
                if pool & zones == pool:
                    total.update(amounts)
            self._used[zones] = total
        return self._used[zones]

    def why_not(self, item: _Item) -> str | None:
        """Return why a container that the kubelet does not align cannot have its pool, or None. Equal containers share the result."""
        memo = item.pool, tuple(sorted(item.amounts.items()))
        if memo not in self._reasons:
            self._reasons[memo] = self._why_not(item)
        return self._reasons[memo]

    def _why_not(self, item: _Item) -> str | None:
        machine = self._machine
        if item.pool.bit_count() != 1 and item.pool not in (*machine.around, *machine.sockets, machine.whole):
            return f"zones {machine.show(item.pool)} are no zone, socket or node"
        zones = [1 << place for place in range(len(machine.zones))]
        for tighter in (*zones, *machine.around, *machine.sockets):
            if tighter & item.pool == tighter and tighter not in (item.pool, machine.whole) and self._has_room(tighter, item):
                return f"has zones {machine.show(item.pool)}, but {machine.show(tighter)} has room for it"
        return None

    def _has_room(self, pool: int, item: _Item) -> bool:
        """Return True if a container could have the narrower pool ``pool`` instead of its own.

        No set of zones that includes ``pool`` may become overcommitted. Sets that include the container's own pool contain
        the container already, unless that pool is the whole machine.
        """
        machine = self._machine
        counted = item.pool != machine.whole
        return all(
            self._inside(zones)[name] + amount <= machine.available(zones, name)
            for zones in self._unions({*self._pools, pool})
            if pool & zones == pool and not (counted and item.pool & zones == item.pool)
            for name, amount in item.amounts.items()
        )

    def _unions(self, used: set[int]) -> set[int]:
        """Return unions of overlapping pools. Other unions are omitted: if one is overcommitted, a part of it is."""
        used = {*used, *self._machine.around}  # caches share the memory of their NUMA zone
        unions = new = set(used)
        pools = 1
        while new and (len(self._machine.zones) <= MAX_ZONES_FOR_ALL_SETS or pools < _MAX_UNITED_POOLS):
            new = {union | pool for union in new for pool in used if union & pool} - unions
            unions = unions | new
            pools += 1
        return unions

    def overfull(self) -> Iterator[str]:
        """Yield the smallest sets of zones with less than the amounts confined to them. Only unions of used pools can
        be overcommitted.
        """
        machine = self._machine
        found: list[tuple[int, str]] = []
        for zones in sorted(self._unions(set(self._pools)), key=lambda union: (union.bit_count(), union)):
            for name, amount in sorted(self._inside(zones).items()):
                has = machine.available(zones, name)
                if amount > has and not any(resource == name and smaller & zones == smaller for smaller, resource in found):
                    found.append((zones, name))
                    yield f"zones {machine.show(zones)} have {_text(name, has)} of {name}, the containers inside take {_text(name, amount)}"


def _text(name: str, amount: int) -> str:
    return quantity.format_cpu(amount) if name == "cpu" else str(amount)


def _rejected(machine: Machine, placed: Sequence[_PlacedPod]) -> Iterator[tuple[str, str, str]]:
    """Yield the pods that the kubelet rejects on arrival. Listed zones are ignored."""
    if not machine.rejects:
        return
    manager = Kubelet(machine)
    for pod in placed:
        why = manager.admit(pod.asks)
        if why is not None:
            yield pod.key, KUBELET, why
