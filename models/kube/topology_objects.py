"""NodeResourceTopology, the NUMA zones of a node as topology updaters write them; and the node policies of nri-plugins."""

from __future__ import annotations

from kubestow.models.kube.objects import ObjectMeta, RawQuantity, Struct


class TopologyResource(Struct):
    name: str
    capacity: RawQuantity | None = None
    allocatable: RawQuantity | None = None
    available: RawQuantity | None = None


class TopologyAttribute(Struct):
    name: str
    value: str


class TopologyCost(Struct):
    name: str
    value: int


class TopologyZone(Struct):
    name: str
    type: str
    parent: str | None = None
    costs: list[TopologyCost] | None = None
    attributes: list[TopologyAttribute] | None = None
    resources: list[TopologyResource] | None = None


class NodeResourceTopology(Struct):
    metadata: ObjectMeta
    topologyPolicies: list[str] | None = None
    attributes: list[TopologyAttribute] | None = None
    zones: list[TopologyZone] | None = None


class BalloonExpression(Struct):
    """An expression over containers. Only its presence is read."""

    key: str | None = None


class BalloonPreserve(Struct):
    matchExpressions: list[BalloonExpression] | None = None


class BalloonComponent(Struct):
    """A part of a composite balloon. Only its presence is read."""

    balloonType: str | None = None


class BalloonType(Struct):
    """A type of balloon (config.nri). ``maxCPUs`` is None or 0 without a limit."""

    name: str = ""
    namespaces: list[str] | None = None
    matchExpressions: list[BalloonExpression] | None = None
    maxCPUs: int | None = None
    components: list[BalloonComponent] | None = None


class BalloonsPolicySpec(Struct):
    balloonTypes: list[BalloonType] | None = None
    reservedPoolNamespaces: list[str] | None = None
    preserve: BalloonPreserve | None = None


class BalloonsPolicy(Struct):
    metadata: ObjectMeta
    spec: BalloonsPolicySpec | None = None


class TopologyAwarePolicySpec(Struct):
    """The spec of a TopologyAwarePolicy. An absent ``preferIsolatedCPUs`` means True."""

    colocatePods: bool | None = None
    colocateNamespaces: bool | None = None
    preferIsolatedCPUs: bool | None = None
    preferSharedCPUs: bool | None = None
    reservedPoolNamespaces: list[str] | None = None


class TopologyAwarePolicy(Struct):
    metadata: ObjectMeta
    spec: TopologyAwarePolicySpec | None = None
