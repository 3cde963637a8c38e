"""Whether containers of a pod, or of a namespace, want to be near each other: switches of the policy file and of the nodes' policies.

The topology-aware policy of nri-plugins has the switches in its policy object. They count where all nodes of the snapshot have an object
that says so. Where only some nodes have, only the policy file decides.
"""

from __future__ import annotations

from msgspec.structs import replace

from kubestow.models.documents.policy import Policy
from kubestow.models.numa.node_policies import TOPOLOGY_AWARE, governed
from kubestow.models.snapshot.snapshot import Snapshot

_SWITCHES = ("colocatePods", "colocateNamespaces")


def switched(policy: Policy, snapshot: Snapshot) -> Policy:
    """Return the policy with the switches as they count in a snapshot."""
    found = {name: True for name, nodes in saying(snapshot).items() if snapshot.nodes and nodes == len(snapshot.nodes)}
    return replace(policy, **found) if found else policy


def saying(snapshot: Snapshot) -> dict[str, int]:
    """Return how many nodes have a policy object that turns each switch on."""
    if not snapshot.topology_aware_policies:
        return {}
    found = governed(snapshot.nodes, snapshot.topology_aware_policies, snapshot.node_topologies, TOPOLOGY_AWARE)
    specs = [found.policies[i].spec for i in found.of.tolist() if i >= 0]
    return {name: sum(bool(getattr(spec, name, None)) for spec in specs) for name in _SWITCHES}
