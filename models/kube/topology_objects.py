"""NodeResourceTopology: the NUMA zones of a node, as the topology updaters write them."""

from __future__ import annotations

from models.kube.objects import ObjectMeta, RawQuantity, Struct


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
