"""Switches that attract containers of a pod, or of a namespace, to each other.

They come from the policy file and from the policy objects of nri-plugins' topology-aware policy. The latter
count only if all nodes of the snapshot have an object with the switch. If only some nodes have, the policy file
decides.
"""

from __future__ import annotations

from msgspec.structs import replace

from kubestow.models.documents.policy import Policy
from kubestow.models.numa.node_policies import TOPOLOGY_AWARE, governed
from kubestow.models.snapshot.snapshot import Snapshot

_SWITCHES = ("colocatePods", "colocateNamespaces")


def switched(policy: Policy, snapshot: Snapshot) -> Policy:
    """Return the policy with the switches that count in a snapshot."""
    switches = {name: True for name, nodes in saying(snapshot).items() if snapshot.nodes and nodes == len(snapshot.nodes)}
    return replace(policy, **switches) if switches else policy


def saying(snapshot: Snapshot) -> dict[str, int]:
    """Return, for each switch, the number of nodes whose policy object turns it on."""
    if not snapshot.topology_aware_policies:
        return {}
    governed_nodes = governed(snapshot.nodes, snapshot.topology_aware_policies, snapshot.node_topologies, TOPOLOGY_AWARE)
    specs = [governed_nodes.policies[i].spec for i in governed_nodes.of.tolist() if i >= 0]
    return {name: sum(bool(getattr(spec, name, None)) for spec in specs) for name in _SWITCHES}
