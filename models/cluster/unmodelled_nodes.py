"""Fields of objects about nodes that are not honoured: zones of NodeResourceTopologies, and policies of nri-plugins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from models.documents.placement import Unmodelled
from models.kube.topology_objects import TopologyZone
from models.snapshot.snapshot import Snapshot

_BALLOONS: Final = "the CPUs that balloons have left, and types that matchExpressions or preserve decide, are not checked"
_COLOCATE: Final = "colocatePods and colocateNamespaces are read from the policy file, not from this object"
#: Types of zones that are read as nodes, sockets, dies and NUMA zones, in small letters and with spaces; a virtual node is the root.
_READ: Final = frozenset({"node", "socket", "die", "numa", "numa node", "numanode", "virtual node", ""})
#: Types of zones -> what becomes of them.
_ZONES: Final = {
    "balloon": "zones of type balloon are not read: CPUs of balloons count as those of the node",
    "allocation for container": "zones of type allocation for container are not read: running containers have no zones",
    "l3 cache": "zones of type L3 cache are not read: containers on one NUMA zone count as equally close",
}


def of_nodes(snapshot: Snapshot) -> Iterator[Unmodelled]:
    """Yield what is not honoured of the nodes, an entry for each node and effect."""
    names = [node.metadata.name or "" for node in snapshot.nodes]
    for name in names:
        found = snapshot.node_topologies.get(name)
        kinds = dict.fromkeys(_kind(zone) for zone in (found.zones if found is not None else None) or ())
        for kind in kinds:
            if kind not in _READ:
                effect = _ZONES.get(kind, f"zones of type {kind[:60]} are not read")
                yield Unmodelled(f"Node/{name}", "NodeResourceTopology", effect)
    if snapshot.balloons_policies:
        from models.numa.balloons import Balloons

        governed = Balloons(snapshot.nodes, snapshot.balloons_policies).governed
        yield from (Unmodelled(f"Node/{names[n]}", "BalloonsPolicy", _BALLOONS) for n in governed)
    for key, policy in sorted(snapshot.topology_aware_policies.items()):
        if policy.spec is not None and (policy.spec.colocatePods or policy.spec.colocateNamespaces):
            yield Unmodelled(f"TopologyAwarePolicy/{key}", "spec", _COLOCATE)


def _kind(zone: TopologyZone) -> str:
    return " ".join(zone.type.lower().replace("-", " ").replace("_", " ").split())
