"""Whether containers of a pod or of a namespace count as wishing to be near each other, by policy file and policy objects of the nodes."""

from __future__ import annotations

from typing import NamedTuple

from kubestow.checker.rules.node_policies.governing import by_name, governing
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.snapshot import Snapshot


class Colocation(NamedTuple):
    """``pods``: inside each pod. ``namespaces``: inside each namespace."""

    pods: bool
    namespaces: bool


def colocation(policy: Policy, snapshot: Snapshot) -> Colocation:
    """Return the switches of the policy file, and those that the TopologyAwarePolicy of each single node of the snapshot turns on."""
    pods, namespaces = policy.colocatePods, policy.colocateNamespaces
    objects = by_name(snapshot.topology_aware_policies)
    if not objects or not snapshot.nodes or (pods and namespaces):
        return Colocation(pods, namespaces)
    found = [governing(objects, node, snapshot.node_topologies.get(node.metadata.name or ""), "topology-aware") for node in snapshot.nodes]
    specs = [each.spec if each is not None else None for each in found]
    return Colocation(
        pods or all(spec is not None and bool(spec.colocatePods) for spec in specs),
        namespaces or all(spec is not None and bool(spec.colocateNamespaces) for spec in specs),
    )
