"""The colocation switches of the policy file and of the nodes' policy objects: containers of a pod or namespace attract each other."""

from __future__ import annotations

from typing import NamedTuple

from kubestow.checker.reading.governing_policies import by_name, governing
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.snapshot import Snapshot


class Colocation(NamedTuple):
    """The switches.

    Attributes:
        pods: True if the containers of each pod attract each other.
        namespaces: True if the containers of each namespace attract each other.
    """

    pods: bool
    namespaces: bool


def colocation(policy: Policy, snapshot: Snapshot) -> Colocation:
    """Return the effective switches. A switch is on in the policy file, or in the TopologyAwarePolicy of every node."""
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
