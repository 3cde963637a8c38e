"""Unmodelled fields of node objects: zones of NodeResourceTopologies, and policies of nri-plugins."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from kubestow.models.documents.placement import Unmodelled
from kubestow.models.kube.topology_objects import NodeResourceTopology, TopologyZone
from kubestow.models.numa import node_topology
from kubestow.models.numa.balloons import Balloons
from kubestow.models.numa.colocation import saying
from kubestow.models.numa.isolated_cpus import IsolatedCPUs
from kubestow.models.numa.node_policies import BALLOONS, TOPOLOGY_AWARE, governed, running
from kubestow.models.snapshot.snapshot import Snapshot

_BALLOONS: Final = "the CPUs that balloons have left, and types that matchExpressions or preserve decide, are not checked"
_COLOCATE: Final = "turned on for {} of {} nodes only: the policy file alone decides"
#: Zone types read as nodes, sockets, dies and NUMA zones, in lower case with spaces. A virtual node is the root.
_READ: Final = frozenset({"node", "socket", "die", "numa", "numa node", "numanode", "virtual node", ""})
#: The effect of unmodelled zones, by type.
_ZONES: Final = {
    "balloon": "zones of type balloon are not read, but for allocatable: CPUs count as those of the node, its containers as equally close",
    "allocation for container": "zones of type allocation for container are not read: running containers have no zones",
    "l3 cache": "zones of type L3 cache are not read: the Topology Manager rejects pods there, or they are in no NUMA zone",
}


class NodePlugins:
    """The nri-plugins on the nodes of a snapshot; see :class:`kubestow.models.numa.nri_annotations.NodePluginFacts`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.balloons_given = bool(snapshot.balloons_policies)

    @cached_property
    def _of(self) -> list[frozenset[str]]:
        """The possible plugins of each node: the reported one, otherwise those whose policies select it, otherwise both."""
        snapshot, kinds = self._snapshot, {BALLOONS: "balloons_policies", TOPOLOGY_AWARE: "topology_aware_policies"}
        given = {
            plugin: governed(snapshot.nodes, getattr(snapshot, name), snapshot.node_topologies, plugin).of for plugin, name in kinds.items()
        }
        found = []
        for n, node in enumerate(snapshot.nodes):
            said = running(snapshot.node_topologies.get(node.metadata.name or ""))
            here = {said} if said is not None else {plugin for plugin, of in given.items() if of[n] >= 0}
            found.append(frozenset(here or kinds))
        return found

    @cached_property
    def balloons(self) -> bool:
        """True if any node can run the balloons policy."""
        return any(BALLOONS in here for here in self._of)

    @cached_property
    def aware(self) -> bool:
        """True if any node can run the topology-aware policy."""
        return any(TOPOLOGY_AWARE in here for here in self._of)

    @cached_property
    def _known(self) -> list[bool]:
        """For each node that can run the topology-aware policy, True if its isolated CPUs are known."""
        snapshot = self._snapshot
        isolated = IsolatedCPUs(snapshot.nodes, snapshot.topology_aware_policies, snapshot.node_topologies, snapshot.pods)
        return [known for known, here in zip(isolated.known.tolist(), self._of, strict=True) if TOPOLOGY_AWARE in here]

    @property
    def isolated_known(self) -> bool:
        """True if the isolated CPUs of all nodes that can run the topology-aware policy are known."""
        return all(self._known)

    @property
    def isolated_partly(self) -> bool:
        """True if the isolated CPUs of any node are known."""
        return any(self._known)


def of_nodes(snapshot: Snapshot) -> Iterator[Unmodelled]:
    """Yield the unmodelled fields of nodes, one entry for each node and effect."""
    names = [node.metadata.name or "" for node in snapshot.nodes]
    for name in names:
        topology = snapshot.node_topologies.get(name)
        kinds = dict.fromkeys(_kind(zone) for zone in (topology.zones if topology is not None else None) or ())
        for kind in kinds:
            if kind == "l3 cache" and topology is not None and _has_caches(topology):
                continue
            if kind not in _READ:
                effect = _ZONES.get(kind, f"zones of type {kind[:60]} are not read")
                yield Unmodelled(f"Node/{name}", "NodeResourceTopology", effect)
    if snapshot.balloons_policies:
        governed = Balloons(snapshot.nodes, snapshot.balloons_policies, snapshot.node_topologies).governed
        yield from (Unmodelled(f"Node/{names[n]}", "BalloonsPolicy", _BALLOONS) for n in governed)
    for name, here in saying(snapshot).items():
        if 0 < here < len(snapshot.nodes):
            yield Unmodelled("TopologyAwarePolicy", f"spec.{name}", _COLOCATE.format(here, len(snapshot.nodes)))


def _has_caches(topology: NodeResourceTopology) -> bool:
    """Return True if the L3 caches of a node are modelled."""
    try:
        tree = node_topology.tree(topology)
    except node_topology.TopologyError:
        return True  # compilation reports the error
    return tree is not None and bool(tree.numa)


def _kind(zone: TopologyZone) -> str:
    return " ".join(zone.type.lower().replace("-", " ").replace("_", " ").split())
