"""The checker's own reading of a kubelet's NUMA zones: the zones of a node, and the requests of a pod to be aligned.

A set of zones is a bitmask over the zones in the kubelet's order (by id); bit 0 is the first zone. CPU is in
thousandths (mCPU), every other resource in whole units. Capacities are rounded down, requests up.

Source: docs/sources.md#container-affinity; pkg/kubelet/cm (topologymanager, cpumanager/policy_static.go,
memorymanager/policy_static.go, devicemanager/topology_hints.go); scheduler-plugins pkg/noderesourcetopology;
nri-plugins cmd/plugins/topology-aware/policy/pools.go.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kubestow.checker.reading import resources
from kubestow.models.kube import objects, quantity, topology_objects
from kubestow.models.kube.pod_spec import GUARANTEED, qos_class

Amounts = dict[str, int]

_POLICY: Final = "topologyManagerPolicy"
_SCOPE: Final = "topologyManagerScope"
_KNOWN: Final = {_POLICY: ("none", "best-effort", "restricted", "single-numa-node"), _SCOPE: ("container", "pod")}
_DEPRECATED: Final = re.compile(r"(SingleNUMANode|Restricted|BestEffort)(Container|Pod)Level")
_CURRENT: Final = {"SingleNUMANode": "single-numa-node", "Restricted": "restricted", "BestEffort": "best-effort"}
_NUMBERS: Final = re.compile(r"[0-9]+(/[0-9]+)*\Z")
_NUMBERED_NODE: Final = re.compile(r"node-[0-9]+")


class MachineError(ValueError):
    """A NodeResourceTopology that cannot be read. The message is one line that names it."""


@dataclass(frozen=True)
class Machine:
    """The NUMA zones of a node.

    Attributes:
        zones: Names of the zones.
        sockets: Zones of each socket, dies included, as bitmasks.
        available_by_zone: Available amounts per zone.
        total: Total amounts per zone.
        policy: Topology Manager policy.
        scope: Topology Manager scope.
        offered: Names of the resources in the node's allocatable.
        around: Caches of each NUMA zone as bitmasks if zones are L3 caches, else empty.
    """

    zones: tuple[str, ...]
    sockets: tuple[int, ...]
    available_by_zone: tuple[Amounts, ...]
    total: tuple[Amounts, ...]
    policy: str
    scope: str
    offered: Collection[str]
    around: tuple[int, ...] = ()

    @property
    def rejects(self) -> bool:
        """True if pods that cannot be aligned are rejected."""
        return self.policy in ("restricted", "single-numa-node")

    @property
    def whole(self) -> int:
        return (1 << len(self.zones)) - 1

    def lists(self, resource: str) -> bool:
        """Return True if a zone lists the resource, even with amount 0."""
        return any(resource in zone for zone in self.total)

    def available(self, zones: int, resource: str) -> int:
        """Return the available amount in a set of zones."""
        if self.around and resource != "cpu":
            first = [zones & around & -(zones & around) for around in self.around]  # one cache per NUMA zone carries the shared amount
            zones = sum(first)
        return sum(zone.get(resource, 0) for place, zone in enumerate(self.available_by_zone) if zones >> place & 1)

    def show(self, zones: int) -> str:
        """Return the names of a set of zones."""
        return ", ".join(name for place, name in enumerate(self.zones) if zones >> place & 1)


# --- nodes --------------------------------------------------------------------------------------------------------------


def read(node: objects.Node, found: topology_objects.NodeResourceTopology) -> Machine | None:
    """Return the zones of a node in either dialect, or None if the object lists no NUMA zone.

    Raises:
        MachineError: a zone or resource listed twice, cyclic parents, an unknown policy or scope, or a malformed quantity.
    """
    try:
        settings = _settings(found)
        leaves, places = _leaves(found.zones or ())
        if not leaves:
            return None
        amounts = [_amounts(zone) for zone in leaves]
        groups: Sequence[object] = places if any(place is not None for place in places) else _neighbours(leaves)
        around: list[int] = []
        if settings[_POLICY] in ("none", "best-effort"):
            leaves, amounts, groups, around = _caches(found.zones or (), leaves, amounts, groups)
    except MachineError as error:
        raise MachineError(f"NodeResourceTopology {node.metadata.name or ''}: {error}") from None
    status = node.status or objects.NodeStatus()
    sockets: dict[object, int] = {}
    for bit, group in enumerate(groups):
        sockets[group] = sockets.get(group, 0) | 1 << bit
    return Machine(
        zones=tuple(zone.name for zone in leaves),
        sockets=tuple(sockets.values()),
        available_by_zone=tuple(free for free, _ in amounts),
        total=tuple(total for _, total in amounts),
        policy=settings[_POLICY],
        scope=settings[_SCOPE],
        offered=frozenset((status.allocatable if status.allocatable is not None else status.capacity) or ()),
        around=tuple(around),
    )


_Leaves = list[topology_objects.TopologyZone]
_Pairs = list[tuple[Amounts, Amounts]]


def _caches(
    listed: Sequence[topology_objects.TopologyZone], leaves: _Leaves, amounts: _Pairs, groups: Sequence[object]
) -> tuple[_Leaves, _Pairs, Sequence[object], list[int]]:
    """Replace the NUMA zones by their L3 caches. Without caches nothing changes.

    Returns:
        The caches, their amounts and groups, and a bitmask of the caches of each NUMA zone (empty without caches).
    """
    zones = {zone.name: zone for zone in listed}
    inside: dict[str, _Leaves] = {leaf.name: [] for leaf in leaves}
    for zone in listed:
        if _kind(zone.type) == "l3 cache":
            home = next((name for name in _upwards(zone, zones) if name in inside), None)
            if home is not None:
                inside[home].append(zone)
    if not any(inside.values()):
        return leaves, amounts, groups, []
    found: tuple[_Leaves, _Pairs, list[object], list[int]] = [], [], [], []
    for leaf, (available, total), group in zip(leaves, amounts, groups, strict=True):
        own = sorted(inside[leaf.name], key=_order)
        found[3].append(sum(1 << len(found[0]) + i for i in range(len(own) or 1)))
        for cache in own or [leaf]:
            cpus = _amounts(cache)
            found[0].append(cache)
            found[1].append(
                ({**available, "cpu": cpus[0].get("cpu", 0)}, {**total, "cpu": cpus[1].get("cpu", 0)}) if own else (available, total)
            )
            found[2].append(group)
    return found


def _settings(found: topology_objects.NodeResourceTopology) -> dict[str, str]:
    """Return policy and scope: the defaults, overridden by the first deprecated name if known, then by the attributes."""
    settings = {_POLICY: "none", _SCOPE: "container"}
    deprecated = _DEPRECATED.fullmatch(found.topologyPolicies[0]) if found.topologyPolicies else None
    if deprecated is not None:
        settings = {_POLICY: _CURRENT[deprecated[1]], _SCOPE: deprecated[2].lower()}
    for attribute in found.attributes or ():
        if attribute.name in _KNOWN:
            if attribute.value not in _KNOWN[attribute.name]:
                raise MachineError(f"attribute {attribute.name}: unknown value {attribute.value[:60]!r}")
            settings[attribute.name] = attribute.value
    return settings


def _leaves(listed: Sequence[topology_objects.TopologyZone]) -> tuple[list[topology_objects.TopologyZone], list[str | None]]:
    """Return the NUMA zones in the kubelet's order, and the socket of each as far as parents determine it.

    Raises:
        MachineError: A zone is listed twice.
    """
    zones: dict[str, topology_objects.TopologyZone] = {}
    for zone in listed:
        if zone.name in zones:
            raise MachineError(f"zone {zone.name[:60]!r} is listed twice")
        zones[zone.name] = zone
    above = {name: list(_upwards(zone, zones)) for name, zone in zones.items()}
    kinds = {name: _kind(zone.type) for name, zone in zones.items()}
    parents = {name for zone, names in above.items() if kinds[zone] != "l3 cache" for name in names}
    pooled = not {"socket", "die"}.isdisjoint(kinds.values())

    def is_zone(name: str) -> bool:
        if kinds[name] != "node":
            return kinds[name] == "numa"
        # The root of the machine may also be called a node.
        if name in parents or "numa" in kinds.values():
            return False
        return not pooled or bool(zones[name].parent) or _NUMBERED_NODE.fullmatch(name) is not None

    chosen = {name for name in zones if is_zone(name)}
    for kind in ("die", "socket"):  # levels with one child are omitted, so a pool without children is a zone
        covered = {name for leaf in chosen for name in above[leaf]}
        chosen |= {name for name in zones if kinds[name] == kind and name not in covered and name not in chosen}
    leaves = sorted((zone for zone in listed if zone.name in chosen), key=_order)
    return leaves, [_socket([leaf.name, *above[leaf.name]], kinds) for leaf in leaves]


def _upwards(zone: topology_objects.TopologyZone, zones: Mapping[str, topology_objects.TopologyZone]) -> Iterator[str]:
    """Yield the names of the pools that contain a zone. The last one need not be listed."""
    met = {zone.name}
    at: topology_objects.TopologyZone | None = zone
    while at is not None and at.parent:
        if at.parent in met:
            raise MachineError(f"zone {zone.name[:60]!r} is inside itself")
        met.add(at.parent)
        yield at.parent
        at = zones.get(at.parent)


def _kind(text: str) -> str:
    """Return the kind of a zone in a normal form."""
    words = re.sub(r"[-_\s]+", " ", text.lower()).strip()
    return "numa" if words in ("numa node", "numanode", "numa") else words


def _order(zone: topology_objects.TopologyZone) -> tuple[bool, list[tuple[int, str]]]:
    """Return a sort key: the numbers at the end of the name. Names without numbers sort last."""
    numbers = _NUMBERS.search(zone.name)
    if numbers is None:
        return True, []
    plain = [part.lstrip("0") for part in numbers[0].split("/")]
    return False, [(len(part), part) for part in plain]


def _socket(path: Iterable[str], kinds: Mapping[str, str]) -> str | None:
    """Return the first socket or unlisted pool on the way up from a zone, or else the outermost die."""
    die = None
    for name in path:
        if kinds.get(name, "socket") == "socket":
            return name
        if kinds[name] == "die":
            die = name
    return die


def _neighbours(leaves: Sequence[topology_objects.TopologyZone]) -> list[object]:
    """Return the socket of each zone according to the costs.

    Zones at the lowest cost between two zones share a socket. Without costs all zones do.
    """
    names = {zone.name for zone in leaves}
    costs = [(c.value, z.name, c.name) for z in leaves for c in z.costs or () if c.name in names and c.name != z.name]
    if not costs:
        return [0] * len(leaves)
    least = min(costs)[0]
    group: dict[str, frozenset[str]] = {name: frozenset({name}) for name in names}
    for cost, a, b in costs:
        if cost == least:
            joined = group[a] | group[b]
            group.update(dict.fromkeys(joined, joined))
    return [group[zone.name] for zone in leaves]


def _amounts(zone: topology_objects.TopologyZone) -> tuple[Amounts, Amounts]:
    available: Amounts = {}
    total: Amounts = {}
    for listed in zone.resources or ():
        if listed.name in available:
            raise MachineError(f"zone {zone.name[:60]!r} lists {listed.name[:60]!r} twice")
        given = [raw for raw in (listed.available, listed.allocatable, listed.capacity) if raw is not None]
        if not given:
            continue
        whole = next(raw for raw in (listed.allocatable, listed.capacity, listed.available) if raw is not None)
        try:
            available[listed.name], total[listed.name] = _whole(listed.name, given[0]), _whole(listed.name, whole)
        except quantity.QuantityError as error:
            raise MachineError(f"zone {zone.name[:60]!r}: {listed.name[:60]!r}: {error}") from None
    return available, total


def _whole(name: str, raw: objects.RawQuantity) -> int:
    value = quantity.parse(raw) * (1000 if name == "cpu" else 1)
    quantity.ceil(value)
    return max(0, value.numerator // value.denominator)


# --- pods ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ZoneRequest:
    """A request that must be served from one set of zones.

    Attributes:
        container: Name of the container; empty for the whole pod.
        amounts: Requested amounts.
        stays: False for ordinary init containers, which return their amounts before the next request.
    """

    container: str
    amounts: Mapping[str, int]
    stays: bool


def asks(pod: objects.Pod, scope: str) -> list[ZoneRequest]:
    """Return the requests to be aligned, in the order of admission. Empty requests are omitted.

    For a Guaranteed pod without pod-level resources these are memory, huge pages, and the CPUs of containers that
    request whole CPUs. For every pod they include all other resources.

    Raises:
        QuantityError: a malformed request, or one beyond 64 bits.
    """
    whole = pod.spec.resources or objects.ResourceRequirements()
    decides_for_all = any(_native(name) for name in (*(whole.requests or ()), *(whole.limits or ())))
    native = qos_class(pod) == GUARANTEED and not decides_for_all
    found = [
        ZoneRequest(c.name or "", _asked(c, native), init is False or c.restartPolicy == "Always")
        for init, containers in ((True, pod.spec.initContainers), (False, pod.spec.containers))
        for c in containers or ()
    ]
    if scope == "pod":
        names = sorted({name for ask in found for name in ask.amounts})
        found = [ZoneRequest("", {name: _together(found, name) for name in names}, True)]
    return [ask for ask in found if ask.amounts]


def _native(resource: str) -> bool:
    return resource == "cpu" or is_ram(resource)


def is_ram(resource: str) -> bool:
    return resource == "memory" or resource.startswith("hugepages-")


def _asked(container: objects.Container, native: bool) -> Amounts:
    """Return the amounts of a container to be aligned."""
    given = container.resources or objects.ResourceRequirements()
    found = {}
    for name, raw in {**(given.limits or {}), **(given.requests or {})}.items():
        if resources.counts(name) and (native or not _native(name)):
            amount = quantity.milli(raw) if name == "cpu" else quantity.units(raw)
            if amount > 0 and (name != "cpu" or amount % 1000 == 0):  # a fraction of a CPU comes from the shared ones
                found[name] = amount
    return found


def _together(found: Sequence[ZoneRequest], name: str) -> int:
    """Return the amount of a resource that the containers of a pod need together.

    It is the larger of the final total and the peak during the start. Init containers start first.
    """
    running = starting = 0
    for ask in found:
        amount = ask.amounts.get(name, 0)
        if ask.stays:
            running += amount
        else:
            starting = max(starting, running + amount)  # only sidecars run at this point
    return max(running, starting)
