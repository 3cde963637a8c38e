"""The policy file: what preferences weigh, and the switches of their meaning. Every default stands here and nowhere else.

A policy is YAML, all fields optional. What differs from the defaults is written into the result, so that the checker scores by it too.
"""

from __future__ import annotations

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
    """Base of all sections: an unknown field is an error, a default is not written."""


class Multipliers(_Section, frozen=True):
    """What one point of each family counts in the soft tier; 0 switches the family off."""

    nodeAffinity: Annotated[_Multiplier, Meta(description="Preferred node affinity.")] = 1
    taints: Annotated[_Multiplier, Meta(description="PreferNoSchedule taints.")] = 1
    imageLocality: Annotated[_Multiplier, Meta(description="Images that a node already has.")] = 0
    podAffinity: Annotated[_Multiplier, Meta(description="Preferred pod affinity and anti-affinity.")] = 1
    requiredAffinity: Annotated[_Multiplier, Meta(description="The implicit weight of required pod affinity.")] = 1
    topologySpread: Annotated[_Multiplier, Meta(description="ScheduleAnyway constraints.")] = 1
    containerAffinity: Annotated[_Multiplier, Meta(description="Container-affinity annotations.")] = 1


class DefaultConstraint(_Section, frozen=True):
    """A spread constraint for pods that have none of their own and are selected by a Service, or owned by a ReplicaSet,
    ReplicationController or StatefulSet. It only costs: ScheduleAnyway."""

    topologyKey: Annotated[_Name, Meta(description="The node label whose values are the domains.")]
    maxSkew: Annotated[int, Meta(ge=1, le=2**31 - 1, description="Pods that a domain may have above the emptiest one.")]


#: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go, systemDefaultConstraints.
SYSTEM_CONSTRAINTS: Final = (DefaultConstraint("kubernetes.io/hostname", 3), DefaultConstraint("topology.kubernetes.io/zone", 5))


class Closeness(_Section, frozen=True):
    """Points per unit of container affinity; they must not rise outwards."""

    sameZone: Annotated[_Level, Meta(description="Both containers in one NUMA zone.")] = 2
    sameSocket: Annotated[_Level, Meta(description="In one socket, in different zones.")] = 1
    sameNode: Annotated[_Level, Meta(description="On one node, with nothing closer in common.")] = 0
    sameCache: Annotated[_Level | None, Meta(description="At one L3 cache, where these are known; null: sameZone + 1.")] = None

    def __post_init__(self) -> None:
        if not self.cache >= self.sameZone >= self.sameSocket >= self.sameNode:
            raise ValueError("sameCache >= sameZone >= sameSocket >= sameNode expected")

    @property
    def cache(self) -> int:
        """Return the points of two containers at one L3 cache."""
        return self.sameZone + 1 if self.sameCache is None else self.sameCache


class TopologyZone(_Section, frozen=True):
    """A NUMA zone of a node topology."""

    name: Annotated[_Name, Meta(description="The name of the zone, unique on its node.")]
    resources: Annotated[dict[str, str | int | float], Meta(description="The quantity of each resource that the zone has to give.")]
    socket: Annotated[str, Meta(description="Zones with the same text here share a socket.")] = ""


class Topology(_Section, frozen=True):
    """The topology of nodes without a NodeResourceTopology object; the first entry that covers a node counts."""

    zones: Annotated[tuple[TopologyZone, ...], Meta(min_length=1, max_length=64, description="The NUMA zones of such a node.")]
    nodes: Annotated[tuple[str, ...], Meta(description="Names of nodes that the entry covers.")] = ()
    nodeLabels: Annotated[dict[str, str], Meta(description="It also covers every node that has all of these labels.")] = {}
    topologyManagerPolicy: Annotated[
        Literal["none", "best-effort", "restricted", "single-numa-node"],
        Meta(description="The kubelet's policy; restricted and single-numa-node reject pods."),
    ] = "none"
    topologyManagerScope: Annotated[
        Literal["container", "pod"], Meta(description="Whether the kubelet aligns each container or the whole pod.")
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
        """Return whether this entry describes the node."""
        labels = node.metadata.labels or {}
        if node.metadata.name in self.nodes:
            return True
        return bool(self.nodeLabels) and all(labels.get(k) == v for k, v in self.nodeLabels.items())

    def as_object(self, name: str) -> topology_objects.NodeResourceTopology:
        """Return the NodeResourceTopology object that says the same."""
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


#: Prefixes that an annotation of move costs may have, as far as a message tells.
OWN: Final = ("kubestow.dev/", "controller.kubernetes.io/")
_Cost = Annotated[int, Meta(ge=1, le=1_000_000)]


class PriorityCost(_Section, frozen=True):
    """A cost for moving important pods."""

    atLeast: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1, description="The priority from which on it counts.")]
    cost: Annotated[_Cost, Meta(description="What a move of such a pod costs, where others cost 1.")]


class AgeCost(_Section, frozen=True):
    """A cost for moving pods that run for long."""

    atLeastHours: Annotated[int, Meta(ge=0, le=10**6, description="The age from which on it counts, by the newest pod of the snapshot.")]
    cost: Annotated[_Cost, Meta(description="What a move of such a pod costs, where others cost 1.")]


class Moves(_Section, frozen=True):
    """What moving a running pod costs, in plans: its own annotation, or the highest cost that an entry gives it, or 1."""

    annotation: Annotated[_Name, Meta(description="The annotation with which a pod states its own cost.")] = "kubestow.dev/move-cost"
    priorities: Annotated[tuple[PriorityCost, ...], Meta(description="Costs by the priority of the pod.")] = ()
    ages: Annotated[tuple[AgeCost, ...], Meta(description="Costs by the age of the pod.")] = ()

    def __post_init__(self) -> None:
        if not self.annotation.startswith(ANNOTATIONS):  # others are dropped when a snapshot is read
            raise ValueError(f"annotation: a name expected that begins with {' or '.join(OWN)}")


_Account = Annotated[str, Meta(pattern="^[^/]+/[^/]+$", max_length=317)]


class AntiAffinityUser(_Section, frozen=True):
    """Pods that may use required anti-affinity: those for which all that is given holds. An empty list holds for every pod."""

    namespaces: Annotated[tuple[_Name, ...], Meta(description="Their namespaces.")] = ()
    serviceAccounts: Annotated[tuple[_Account, ...], Meta(description="Their service accounts, NAMESPACE/NAME.")] = ()
    priorityClasses: Annotated[tuple[_Name, ...], Meta(description="Their priority classes.")] = ()
    keys: Annotated[
        Literal["any", "hostname", "none"], Meta(description="The topology keys that are granted: every key, the hostname, or none.")
    ] = "any"


class Policy(_Section, frozen=True):
    """A policy file."""

    apiVersion: Literal["kubestow.dev/v1alpha1"] = API_VERSION
    kind: Literal["Policy"] = "Policy"
    multipliers: Annotated[Multipliers, Meta(description="What one point of each family of preferences counts.")] = Multipliers()
    hardPodAffinityWeight: Annotated[_HARD_WEIGHT, Meta(description="The implicit weight of each required pod affinity term.")] = 1
    defaultConstraints: Annotated[tuple[DefaultConstraint, ...], Meta(description="Spread constraints of pods without their own.")] = (
        SYSTEM_CONSTRAINTS
    )
    strategy: Annotated[Strategy, Meta(description="What breaks ties after all preferences.")] = "spread"
    priceLabel: Annotated[str, Meta(description="The node label that `pack` sums instead of counting nodes.")] = ""
    closeness: Annotated[Closeness, Meta(description="Points for containers that want to be near each other.")] = Closeness()
    shorthand: Annotated[Shorthand, Meta(description="Whether `c3: [c1]` also pulls c1 to c3.")] = "directed"
    colocatePods: Annotated[bool, Meta(description="+10 between containers of a pod or namespace without an entry of their own.")] = False
    colocateNamespaces: Annotated[bool, Meta(description="+10 between containers of a pod or namespace without an entry of their own.")] = (
        False
    )
    daemonNamespaces: Annotated[tuple[str, ...], Meta(description="Namespaces whose pods are exempt from hard anti-affinity.")] = ()
    refuseAllNamespacesAntiAffinity: Annotated[
        bool, Meta(description="Whether required anti-affinity over all namespaces with another key than the hostname is refused.")
    ] = False
    executionGraceSeconds: Annotated[
        int, Meta(ge=0, le=10**9, description="Seconds that a rule which holds during execution may be broken before it counts.")
    ] = 0
    antiAffinityUsers: Annotated[
        tuple[AntiAffinityUser, ...], Meta(description="Who may use required anti-affinity; an empty list means everybody.")
    ] = ()
    symmetricPreferredAntiAffinity: Annotated[
        bool, Meta(description="Whether preferred anti-affinity of a pod that runs also counts against pods that are placed now.")
    ] = True
    topologies: Annotated[tuple[Topology, ...], Meta(description="NUMA zones of nodes without a NodeResourceTopology.")] = ()
    networkTiers: Annotated[
        tuple[_Name, ...], Meta(description="Node labels that stand for the tiers of Volcano's HyperNodes, tier 1 first.")
    ] = ()
    sharedGPUs: Annotated[
        Literal["none", "hami", "kai", "volcano"],
        Meta(description="The system that shares GPUs without DynamicResources, if any."),
    ] = "none"
    admissionPlugins: Annotated[
        tuple[Literal["PodNodeSelector", "PodTolerationRestriction"], ...],
        Meta(description="Admission plugins that the API server runs and that are off by default."),
    ] = ()
    quotaCharge: Annotated[
        QuotaCharge,
        Meta(description="What a ResourceQuota counts for a pod: its requests, or at least the nodes that its rules close to others."),
    ] = "requests"
    moves: Annotated[Moves, Meta(description="What moving a running pod costs.")] = Moves()

    def __post_init__(self) -> None:
        keys = [constraint.topologyKey for constraint in self.defaultConstraints]
        if len(set(keys)) < len(keys):
            raise ValueError("defaultConstraints: each topologyKey once expected")


DEFAULT: Final = Policy()


def without_preferences(policy: Policy, strategy: Strategy) -> Policy:
    """Return the policy for questions of rules alone: no preference weighs anything, and ``strategy`` breaks ties."""
    nothing = Multipliers(**dict.fromkeys(Multipliers.__struct_fields__, 0))
    return msgspec.structs.replace(policy, multipliers=nothing, strategy=strategy)


def read(path: str) -> Policy:
    """Read a policy file.

    Raises:
        InputError: it cannot be read, is not YAML, has an unknown field or a value out of range; the message names file and field.
    """
    return settings_file.read(path, Policy)


def node_topologies(policy: Policy, snapshot: Snapshot) -> dict[str, topology_objects.NodeResourceTopology]:
    """Return the topology of each node that has one, by node name: its NodeResourceTopology, or what the policy says."""
    found = {name: t for name, t in snapshot.node_topologies.items() if t.zones}
    for node in snapshot.nodes:
        name = node.metadata.name or ""
        if name not in snapshot.node_topologies:
            entry = next((t for t in policy.topologies if t.covers(node)), None)
            if entry is not None:
                found[name] = entry.as_object(name)
    return found
