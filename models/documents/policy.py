"""The policy file: weights of preferences, and switches for their meaning. All defaults are in this module.

A policy is YAML, and all fields are optional. Results carry the values that differ from the defaults, so that the checker uses them too.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from kubestow.models.documents import settings_file
from kubestow.models.kube import objects, quantity, topology_objects
from kubestow.models.snapshot.interning import ANNOTATIONS
from kubestow.models.snapshot.snapshot import Snapshot

Strategy = Literal["spread", "pack", "none"]
Shorthand = Literal["directed", "symmetric"]
QuotaCharge = Literal["requests", "opportunityCost"]

API_VERSION: Final = "kubestow.dev/v1alpha1"
_Multiplier = Annotated[int, Meta(ge=0, le=1000)]
_Level = Annotated[int, Meta(ge=-100, le=100)]
_HARD_WEIGHT = Annotated[int, Meta(ge=0, le=100)]
_Name = Annotated[str, Meta(min_length=1, max_length=253)]


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all sections. An unknown field is an error; default values are not written."""


class Multipliers(_Section, frozen=True):
    """The weight of one point of each family in the soft tier; 0 switches the family off."""

    nodeAffinity: Annotated[_Multiplier, Meta(description="Preferred node affinity.")] = 1
    taints: Annotated[_Multiplier, Meta(description="PreferNoSchedule taints.")] = 1
    imageLocality: Annotated[_Multiplier, Meta(description="Images that a node already has.")] = 0
    podAffinity: Annotated[_Multiplier, Meta(description="Preferred pod affinity and anti-affinity.")] = 1
    requiredAffinity: Annotated[_Multiplier, Meta(description="The implicit weight of required pod affinity.")] = 1
    topologySpread: Annotated[_Multiplier, Meta(description="ScheduleAnyway constraints.")] = 1
    containerAffinity: Annotated[_Multiplier, Meta(description="Container-affinity annotations.")] = 1


def families(package: str, path: Iterable[str]) -> list[type]:
    """Return the named classes in a package of families of preferences, in the order of their multipliers.

    Args:
        package: The package's name. It has a module for each family.
        path: Its ``__path__``.

    Raises:
        ValueError: A family has no multiplier.
    """
    modules = [import_module(f"{package}.{module.name}") for module in iter_modules(path)]
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
    named = {str(vars(kind)["name"]): kind for kind in kinds if "name" in vars(kind)}
    return [named[name] for name in sorted(named, key=Multipliers.__struct_fields__.index)]


class DefaultConstraint(_Section, frozen=True):
    """A ScheduleAnyway spread constraint for pods without constraints of their own. It applies to pods that a Service selects or that
    a ReplicaSet, ReplicationController or StatefulSet owns."""

    topologyKey: Annotated[_Name, Meta(description="The node label whose values are the domains.")]
    maxSkew: Annotated[int, Meta(ge=1, le=2**31 - 1, description="Pods that a domain may have above the domain with the fewest.")]


#: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go, systemDefaultConstraints.
SYSTEM_CONSTRAINTS: Final = (DefaultConstraint("kubernetes.io/hostname", 3), DefaultConstraint("topology.kubernetes.io/zone", 5))


class Closeness(_Section, frozen=True):
    """Points per unit of container affinity, by distance. They must not increase with distance."""

    sameZone: Annotated[_Level, Meta(description="Both containers share a NUMA zone.")] = 2
    sameSocket: Annotated[_Level, Meta(description="They share a socket but no NUMA zone.")] = 1
    sameNode: Annotated[_Level, Meta(description="They share a node but no socket.")] = 0
    sameCache: Annotated[_Level | None, Meta(description="They share an L3 cache, if caches are known; null means sameZone + 1.")] = None

    def __post_init__(self) -> None:
        if not self.cache >= self.sameZone >= self.sameSocket >= self.sameNode:
            raise ValueError("sameCache >= sameZone >= sameSocket >= sameNode expected")

    @property
    def cache(self) -> int:
        """The points of two containers that share an L3 cache."""
        return self.sameZone + 1 if self.sameCache is None else self.sameCache


class TopologyZone(_Section, frozen=True):
    """A NUMA zone of a node topology."""

    name: Annotated[_Name, Meta(description="The name of the zone, unique on its node.")]
    resources: Annotated[dict[str, str | int | float], Meta(description="The allocatable quantity of each resource in the zone.")]
    socket: Annotated[str, Meta(description="The socket; zones with equal values share one.")] = ""


class Topology(_Section, frozen=True):
    """The NUMA topology of nodes without a NodeResourceTopology object. The first entry that matches a node applies."""

    zones: Annotated[tuple[TopologyZone, ...], Meta(min_length=1, max_length=64, description="The NUMA zones of each such node.")]
    nodes: Annotated[tuple[str, ...], Meta(description="Names of the nodes.")] = ()
    nodeLabels: Annotated[dict[str, str], Meta(description="Labels of further nodes; a matching node has every label.")] = {}
    topologyManagerPolicy: Annotated[
        Literal["none", "best-effort", "restricted", "single-numa-node"],
        Meta(description="The kubelet's Topology Manager policy; restricted and single-numa-node reject pods."),
    ] = "none"
    topologyManagerScope: Annotated[
        Literal["container", "pod"], Meta(description="The scope of the policy: each container, or the whole pod.")
    ] = "container"

    def __post_init__(self) -> None:
        names = [zone.name for zone in self.zones]
        if len(set(names)) < len(names):
            raise ValueError("zone names must differ")
        if not self.nodes and not self.nodeLabels:
            raise ValueError("nodes or nodeLabels expected")
        for zone in self.zones:
            for name, raw in zone.resources.items():
                try:
                    if quantity.units(raw) < 0:
                        raise quantity.QuantityError(f"got {raw!r}, expected no negative amount")
                except quantity.QuantityError as error:
                    raise ValueError(f"zone {zone.name}: resources[{name}]: {error}") from None

    def covers(self, node: objects.Node) -> bool:
        """Return True if the entry names the node or matches its labels."""
        labels = node.metadata.labels or {}
        if node.metadata.name in self.nodes:
            return True
        return bool(self.nodeLabels) and all(labels.get(k) == v for k, v in self.nodeLabels.items())

    def as_object(self, name: str) -> topology_objects.NodeResourceTopology:
        """Return the entry as a NodeResourceTopology object with the given name."""
        grouped = any(zone.socket for zone in self.zones)
        return topology_objects.NodeResourceTopology(
            metadata=objects.ObjectMeta(name=name),
            attributes=[
                topology_objects.TopologyAttribute("topologyManagerPolicy", self.topologyManagerPolicy),
                topology_objects.TopologyAttribute("topologyManagerScope", self.topologyManagerScope),
            ],
            zones=[
                topology_objects.TopologyZone(
                    name=zone.name,
                    type="Node",
                    parent=(zone.socket or None) if grouped else None,
                    resources=[
                        topology_objects.TopologyResource(n, capacity=q, allocatable=q, available=q) for n, q in zone.resources.items()
                    ],
                )
                for zone in self.zones
            ],
        )


#: Allowed annotation prefixes that the message names.
MOVE_COST_PREFIXES: Final = ("kubestow.dev/", "controller.kubernetes.io/")
_Cost = Annotated[int, Meta(ge=1, le=1_000_000)]


class PriorityCost(_Section, frozen=True):
    """A cost for moving high-priority pods."""

    atLeast: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1, description="The lowest priority that the cost applies to.")]
    cost: Annotated[_Cost, Meta(description="The cost of moving such a pod; the default is 1.")]


class AgeCost(_Section, frozen=True):
    """A cost for moving long-running pods."""

    atLeastHours: Annotated[
        int,
        Meta(ge=0, le=10**6, description="The lowest age that the cost applies to, measured at the newest pod's creation, in hours."),
    ]
    cost: Annotated[_Cost, Meta(description="The cost of moving such a pod; the default is 1.")]


class Moves(_Section, frozen=True):
    """The cost of moving a running pod in a plan: its own annotation, otherwise the highest matching entry, otherwise 1."""

    annotation: Annotated[_Name, Meta(description="The annotation in which a pod states its own cost.")] = "kubestow.dev/move-cost"
    priorities: Annotated[tuple[PriorityCost, ...], Meta(description="Costs by the priority of the pod.")] = ()
    ages: Annotated[tuple[AgeCost, ...], Meta(description="Costs by the age of the pod.")] = ()

    def __post_init__(self) -> None:
        if not self.annotation.startswith(ANNOTATIONS):  # others are dropped when a snapshot is read
            raise ValueError(f"annotation: expected a name that begins with {' or '.join(MOVE_COST_PREFIXES)}")


_Account = Annotated[str, Meta(pattern="^[^/]+/[^/]+$", max_length=317)]


class AntiAffinityUser(_Section, frozen=True):
    """Pods that may use required anti-affinity. A pod must match every list; an empty list matches every pod."""

    namespaces: Annotated[tuple[_Name, ...], Meta(description="Their namespaces.")] = ()
    serviceAccounts: Annotated[tuple[_Account, ...], Meta(description="Their service accounts, NAMESPACE/NAME.")] = ()
    priorityClasses: Annotated[tuple[_Name, ...], Meta(description="Their priority classes.")] = ()
    keys: Annotated[
        Literal["any", "hostname", "none"], Meta(description="The topology keys they may use: every key, the hostname only, or no key.")
    ] = "any"


class Policy(_Section, frozen=True):
    """A policy file."""

    apiVersion: Literal["kubestow.dev/v1alpha1"] = API_VERSION
    kind: Literal["Policy"] = "Policy"
    multipliers: Annotated[Multipliers, Meta(description="The weight of one point of each family of preferences.")] = Multipliers()
    hardPodAffinityWeight: Annotated[_HARD_WEIGHT, Meta(description="The implicit weight of each required pod affinity term.")] = 1
    defaultConstraints: Annotated[
        tuple[DefaultConstraint, ...], Meta(description="Spread constraints of pods that have none of their own.")
    ] = SYSTEM_CONSTRAINTS
    strategy: Annotated[Strategy, Meta(description="The tie-break after all preferences.")] = "spread"
    priceLabel: Annotated[str, Meta(description="The node label that `pack` sums instead of counting nodes.")] = ""
    closeness: Annotated[Closeness, Meta(description="Points for containers that want to be near each other.")] = Closeness()
    shorthand: Annotated[Shorthand, Meta(description="Symmetric if `c3: [c1]` also attracts c1 to c3.")] = "directed"
    colocatePods: Annotated[bool, Meta(description="+10 between containers of a pod or namespace without an entry of their own.")] = False
    colocateNamespaces: Annotated[bool, Meta(description="+10 between containers of a pod or namespace without an entry of their own.")] = (
        False
    )
    daemonNamespaces: Annotated[tuple[str, ...], Meta(description="Namespaces whose pods are exempt from hard anti-affinity.")] = ()
    refuseAllNamespacesAntiAffinity: Annotated[
        bool, Meta(description="True if required anti-affinity over all namespaces is refused unless its key is the hostname.")
    ] = False
    executionGraceSeconds: Annotated[
        int, Meta(ge=0, le=10**9, description="Grace period of violated RequiredDuringExecution rules, in seconds.")
    ] = 0
    antiAffinityUsers: Annotated[
        tuple[AntiAffinityUser, ...], Meta(description="Pods that may use required anti-affinity; an empty list means all pods.")
    ] = ()
    symmetricPreferredAntiAffinity: Annotated[
        bool, Meta(description="True if preferred anti-affinity of running pods also counts against the pods to place.")
    ] = True
    topologies: Annotated[tuple[Topology, ...], Meta(description="NUMA zones of nodes without a NodeResourceTopology.")] = ()
    networkTiers: Annotated[
        tuple[_Name, ...], Meta(description="Node labels that represent the tiers of Volcano's HyperNodes, tier 1 first.")
    ] = ()
    sharedGPUs: Annotated[
        Literal["none", "hami", "kai", "volcano"],
        Meta(description="The system that shares GPUs without DynamicResources, or none."),
    ] = "none"
    admissionPlugins: Annotated[
        tuple[Literal["PodNodeSelector", "PodTolerationRestriction"], ...],
        Meta(description="Enabled admission plugins of the API server that are off by default."),
    ] = ()
    quotaCharge: Annotated[
        QuotaCharge,
        Meta(description="The charge of a pod to a ResourceQuota: its requests, or at least the capacity that its rules close."),
    ] = "requests"
    moves: Annotated[Moves, Meta(description="The cost of moving a running pod.")] = Moves()

    def __post_init__(self) -> None:
        keys = [constraint.topologyKey for constraint in self.defaultConstraints]
        if len(set(keys)) < len(keys):
            raise ValueError("defaultConstraints: expected each topologyKey once")


DEFAULT: Final = Policy()


def without_preferences(policy: Policy, strategy: Strategy) -> Policy:
    """Return the policy with all multipliers set to 0 and the given tie-break, for questions about hard rules only."""
    nothing = Multipliers(**dict.fromkeys(Multipliers.__struct_fields__, 0))
    return msgspec.structs.replace(policy, multipliers=nothing, strategy=strategy)


def read(path: str) -> Policy:
    """Read a policy file.

    Raises:
        InputError: The file cannot be read, is not YAML, or has an unknown field or a value out of range.
    """
    return settings_file.read(path, Policy)


def node_topologies(policy: Policy, snapshot: Snapshot) -> dict[str, topology_objects.NodeResourceTopology]:
    """Return the NUMA topology of nodes by name: their NodeResourceTopology, otherwise the matching policy entry."""
    found = {name: t for name, t in snapshot.node_topologies.items() if t.zones}
    for node in snapshot.nodes:
        name = node.metadata.name or ""
        if name not in snapshot.node_topologies:
            entry = next((t for t in policy.topologies if t.covers(node)), None)
            if entry is not None:
                found[name] = entry.as_object(name)
    return found
