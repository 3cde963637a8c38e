"""The NUMA zones of a node, their sockets, and the node's Topology Manager.

One ``NodeResourceTopology`` object becomes one :class:`NumaTree`. Two dialects are read. NFD and
scheduler-plugins list NUMA zones of type ``Node`` with names ``node-<n>`` and costs. nri-plugins lists pools of
type ``socket``, ``die`` and ``numa node`` with parents. It omits a level with a single child, so a socket or
die without children is its own only NUMA zone.

Source: docs/sources.md#container-affinity; scheduler-plugins
pkg/noderesourcetopology/nodeconfig/topologymanager.go; nri-plugins cmd/plugins/topology-aware/policy/pools.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.models.kube import objects, quantity, topology_objects

POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
SCOPES: Final = ("container", "pod")
#: The deprecated ``topologyPolicies`` names: policy and scope in one.
_LEGACY: Final = {
    "SingleNUMANodeContainerLevel": ("single-numa-node", "container"),
    "SingleNUMANodePodLevel": ("single-numa-node", "pod"),
    "RestrictedContainerLevel": ("restricted", "container"),
    "RestrictedPodLevel": ("restricted", "pod"),
    "BestEffortContainerLevel": ("best-effort", "container"),
    "BestEffortPodLevel": ("best-effort", "pod"),
}
#: ``node-3``, ``NUMA node #3``, ``die #0/1`` (die 1 of socket 0).
_ID: Final = re.compile(r"(\d+(?:/\d+)*)$", re.ASCII)
_NFD_NAME: Final = re.compile(r"node-\d+", re.ASCII)


class TopologyError(ValueError):
    """A NodeResourceTopology contradicts itself or has unknown values; one line, without the object's name."""


@dataclass(frozen=True)
class NumaTree:
    """The NUMA zones of one node, in the kubelet's order (by id).

    A zone set is a bitmask over that order; bit 0 is the first zone.

    Attributes:
        socket: The socket of each zone, numbered from 0 by first zone; a die counts as part of its socket.
        available: Per zone, the free amount of each resource (mCPU for cpu, otherwise whole units, rounded
            down, ≥ 0).
        capacity: Per zone, the total amount of each resource, in the same units.
    """

    zones: tuple[str, ...]
    socket: tuple[int, ...]
    available: tuple[Mapping[str, int], ...]
    capacity: tuple[Mapping[str, int], ...]
    policy: str
    scope: str
    #: The NUMA zone of each zone, if the zones are L3 caches that share NUMA zones. Empty: each is a NUMA zone.
    numa: tuple[int, ...] = ()
    #: Memo of :func:`kubestow.solver.numa.zone_pools.width`, by amounts.
    widths: dict[tuple[tuple[str, int], ...], int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def rejects(self) -> bool:
        """True if the kubelet rejects pods that it cannot align."""
        return self.policy in ("restricted", "single-numa-node")

    def lowest(self, zones_a: int, zones_b: int) -> int:
        """Return the level of the lowest pool that holds both zone sets: 3 one L3 cache, 2 one NUMA zone, 1 one
        socket, 0 node.

        The pool of a zone set is the smallest subtree that covers it. An empty set is not confined and has the
        whole node. Source: docs/sources.md#container-affinity.

        Args:
            zones_a: Bitmask of zones.
            zones_b: Bitmask of zones.
        """
        both = zones_a | zones_b
        if not zones_a or not zones_b:
            return 0
        if both.bit_count() == 1:
            return 3 if self.numa else 2
        if self.numa and len({n for zone, n in enumerate(self.numa) if both >> zone & 1}) == 1:
            return 2
        return 1 if len({s for zone, s in enumerate(self.socket) if both >> zone & 1}) == 1 else 0


def tree(topology: topology_objects.NodeResourceTopology) -> NumaTree | None:
    """Return the tree of a node; None if no NUMA zones are listed.

    Raises:
        TopologyError: A zone, or a resource of a zone, is listed twice; parents form a cycle; the attributes
            have an unknown Topology Manager policy or scope; or a quantity is malformed.
    """
    policy, scope = _manager(topology)
    listed = _Zones(topology.zones or ())
    leaves = sorted(listed.leaves(), key=_kubelet_order)
    if not leaves:
        return None
    amounts, sockets = [_amounts(zone) for zone in leaves], _sockets(listed, leaves)
    caches = listed.caches(leaves if policy in ("none", "best-effort") else ()) or [[] for _ in leaves]
    numa = tuple(n for n, below in enumerate(caches) for _ in below or (None,))
    if any(caches):
        amounts = [amount for n, below in enumerate(caches) for amount in _of_caches(below, amounts[n])]
    return NumaTree(
        zones=tuple(each.name for zone, below in zip(leaves, caches, strict=True) for each in below or (zone,)),
        socket=tuple(sockets[n] for n in numa),
        available=tuple(available for available, _ in amounts),
        capacity=tuple(capacity for _, capacity in amounts),
        policy=policy,
        scope=scope,
        numa=numa if any(caches) else (),
    )


def _of_caches(
    caches: Sequence[topology_objects.TopologyZone], amounts: tuple[dict[str, int], dict[str, int]]
) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Return the amounts of the L3 caches of a NUMA zone: their own CPUs, and the zone's other resources, which they share."""
    if not caches:
        return [amounts]
    own = [_amounts(cache) for cache in caches]
    return [({**amounts[0], "cpu": available.get("cpu", 0)}, {**amounts[1], "cpu": total.get("cpu", 0)}) for available, total in own]


def _manager(topology: topology_objects.NodeResourceTopology) -> tuple[str, str]:
    """Return policy and scope: the defaults, overridden by the deprecated field, then by the attributes (the last one wins)."""
    policy, scope = _LEGACY.get(next(iter(topology.topologyPolicies or ()), ""), ("none", "container"))
    for attribute in topology.attributes or ():
        if attribute.name == "topologyManagerPolicy":
            policy = _one_of(attribute, POLICIES)
        elif attribute.name == "topologyManagerScope":
            scope = _one_of(attribute, SCOPES)
    return policy, scope


def _one_of(attribute: topology_objects.TopologyAttribute, known: Sequence[str]) -> str:
    if attribute.value not in known:
        raise TopologyError(f"attribute {attribute.name}: {attribute.value[:60]!r} is none of {', '.join(known)}")
    return attribute.value


class _Zones:
    """All listed zones, inner ones included, and their relations."""

    def __init__(self, zones: Iterable[topology_objects.TopologyZone]) -> None:
        self._zones: dict[str, topology_objects.TopologyZone] = {}
        for zone in zones:
            if zone.name in self._zones:
                raise TopologyError(f"zone {zone.name[:60]!r} is listed twice")
            self._zones[zone.name] = zone
        self._ancestors = {name: self._chain(zone) for name, zone in self._zones.items()}

    def _chain(self, zone: topology_objects.TopologyZone) -> tuple[str, ...]:
        """Return the names from the parent upwards; the last one may be an unlisted zone."""
        chain: list[str] = []
        above: topology_objects.TopologyZone | None = zone
        while above is not None and above.parent:
            if above.parent == zone.name or above.parent in chain:
                raise TopologyError(f"zone {zone.name[:60]!r}: its parents form a cycle")
            chain.append(above.parent)
            above = self._zones.get(above.parent)
        return tuple(chain)

    def leaves(self) -> list[topology_objects.TopologyZone]:
        """Return the NUMA zones, in input order."""
        inner = {name for zone, chain in self._ancestors.items() if not _is_cache(self._zones[zone]) for name in chain}
        kinds = {_kind(zone) for zone in self._zones.values()}
        leaves = [zone for zone in self._zones.values() if _kind(zone) == "numa" or (zone.name not in inner and self._is_nfd(zone, kinds))]
        covered = {name for leaf in leaves for name in self._ancestors[leaf.name]}
        # Dies first: a socket above a die that counts as its NUMA zone is no leaf.
        for kind in ("die", "socket"):
            lone = [zone for zone in self._zones.values() if _kind(zone) == kind and zone.name not in covered]
            covered.update(name for zone in lone for name in self._ancestors[zone.name])
            leaves += lone
        order = {name: place for place, name in enumerate(self._zones)}
        return sorted(leaves, key=lambda zone: order[zone.name])

    def caches(self, leaves: Sequence[topology_objects.TopologyZone]) -> list[list[topology_objects.TopologyZone]]:
        """Return the L3 caches in each NUMA zone, in the order of their numbers."""
        caches: dict[str, list[topology_objects.TopologyZone]] = {leaf.name: [] for leaf in leaves}
        for zone in sorted(filter(_is_cache, self._zones.values()), key=_kubelet_order):
            home = next((name for name in self._ancestors[zone.name] if name in caches), None)
            if home is not None:
                caches[home].append(zone)
        return list(caches.values())

    def _is_nfd(self, zone: topology_objects.TopologyZone, kinds: set[str]) -> bool:
        """Return True if a childless zone of type ``Node`` is a NUMA zone; with pools it may also be the machine's root."""
        if _kind(zone) != "node" or "numa" in kinds:
            return False
        pools = "socket" in kinds or "die" in kinds
        return not pools or bool(zone.parent) or _NFD_NAME.fullmatch(zone.name) is not None

    def socket_of(self, leaf: topology_objects.TopologyZone) -> str | None:
        """Return a key that identifies the socket of a leaf; None if the parents do not say."""
        above = None
        for name in (leaf.name, *self._ancestors[leaf.name]):
            zone = self._zones.get(name)
            if zone is None or _kind(zone) == "socket":
                return name
            if _kind(zone) == "die":
                above = name  # unless something above the die is found
        return above


def _kind(zone: topology_objects.TopologyZone) -> str:
    """Return numa, die, socket, node (a NUMA zone or the root, by dialect), or "" for others such as the virtual root."""
    kind = " ".join(zone.type.lower().replace("-", " ").replace("_", " ").split())
    if kind in ("numa node", "numanode", "numa"):
        return "numa"
    return kind if kind in ("die", "socket", "node") else ""


def _is_cache(zone: topology_objects.TopologyZone) -> bool:
    return " ".join(zone.type.lower().replace("-", " ").replace("_", " ").split()) == "l3 cache"


def _kubelet_order(zone: topology_objects.TopologyZone) -> tuple[bool, tuple[tuple[int, str], ...]]:
    """Sort by id. Zones without one come last, in input order (sorting is stable)."""
    match = _ID.search(zone.name)
    digits = [number.lstrip("0") for number in match[1].split("/")] if match else []
    return (match is None, tuple((len(number), number) for number in digits))  # compares like numbers of any length


def _sockets(listed: _Zones, leaves: Sequence[topology_objects.TopologyZone]) -> tuple[int, ...]:
    """Return the sockets by parent, or else by cost, or else one for all."""
    keys = [listed.socket_of(leaf) for leaf in leaves]
    if any(key is not None for key in keys):
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        return tuple(numbers[key] for key in keys)
    return _by_cost(leaves)


def _by_cost(leaves: Sequence[topology_objects.TopologyZone]) -> tuple[int, ...]:
    """Return sockets by cost: zones connected by links of the smallest cost share a socket."""
    place = {zone.name: index for index, zone in enumerate(leaves)}
    pairs = [
        (cost.value, index, place[cost.name])
        for index, zone in enumerate(leaves)
        for cost in zone.costs or ()
        if cost.name in place and cost.name != zone.name
    ]
    if not pairs:
        return (0,) * len(leaves)
    smallest = min(value for value, _, _ in pairs)
    group = list(range(len(leaves)))
    for value, a, b in pairs:
        if value == smallest:
            group = [group[a] if g == group[b] else g for g in group]
    numbers = {g: number for number, g in enumerate(dict.fromkeys(group))}
    return tuple(numbers[g] for g in group)


def _amounts(zone: topology_objects.TopologyZone) -> tuple[dict[str, int], dict[str, int]]:
    """Return the free and total amounts of a zone. A resource without any amount is not listed."""
    available: dict[str, int] = {}
    capacity: dict[str, int] = {}
    for resource in zone.resources or ():
        unused = _first(resource.available, resource.allocatable, resource.capacity)
        total = _first(resource.allocatable, resource.capacity, resource.available)
        if resource.name in available:
            raise TopologyError(f"zone {zone.name[:60]!r}: resource {resource.name[:60]!r} is listed twice")
        if unused is None or total is None:
            continue
        try:
            available[resource.name] = _floor(resource.name, unused)
            capacity[resource.name] = _floor(resource.name, total)
        except quantity.QuantityError as error:
            raise TopologyError(f"zone {zone.name[:60]!r}: resource {resource.name[:60]!r}: {error}") from None
    return available, capacity


def is_memory(name: str) -> bool:
    """Return True if the kubelet's Memory Manager allocates a resource."""
    return name == "memory" or name.startswith("hugepages-")


def _first(*raw: objects.RawQuantity | None) -> objects.RawQuantity | None:
    return next((value for value in raw if value is not None), None)


def _floor(name: str, raw: objects.RawQuantity) -> int:
    """Return an amount rounded down, at least 0. Whole requests fit an amount exactly if they fit its whole part."""
    value = quantity.parse(raw) * (1000 if name == "cpu" else 1)
    quantity.ceil(value)  # must fit 64 bits
    return max(0, value.numerator // value.denominator)
