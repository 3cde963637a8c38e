"""The policy object of nri-plugins that governs a node.

A node uses the object ``node.NAME``, or else that of its group, ``group.GROUP``, or else ``default``. The
plugin on the node writes its name into the NodeResourceTopology. Objects of the other plugin do not govern the
node.

Source: nri-plugins pkg/agent/agent.go, pkg/agent/node-resource-topology.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubestow.models.kube.objects import Node
from kubestow.models.kube.topology_objects import NodeResourceTopology
from kubestow.models.numa.nri_annotations import POLICY

T = TypeVar("T")

#: Names of the plugins in NodeResourceTopologies.
BALLOONS, TOPOLOGY_AWARE = "balloons", "topology-aware"
#: Labels with the group of a node; the current one first.
_GROUPS: Final = ("config.nri/group", "group.config.nri", f"{POLICY}/group")
#: Default namespace of a cluster's policies.
_HOME: Final = "kube-system"
#: The attribute of a NodeResourceTopology with the name of the plugin that wrote it.
_ATTRIBUTE: Final = "TopologyPolicy"


@dataclass
class Governed(Generic[T]):
    """The policy objects of one plugin, and the nodes that they govern.

    Attributes:
        policies: The objects, one per name.
        of: Number of the object that governs each node, -1 for none; int64[N].
    """

    policies: list[T]
    of: NDArray[np.int64]


def governed(nodes: Sequence[Node], policies: Mapping[str, T], topologies: Mapping[str, NodeResourceTopology], plugin: str) -> Governed[T]:
    """Return the policy objects of a plugin, and the object that governs each node.

    A node with a topology that another plugin wrote has none. Of objects with the same name, the one in ``kube-system``
    counts.

    Args:
        policies: The policy objects by ``namespace/name``.
        topologies: The topologies by name of the node.
        plugin: Name of the plugin.
    """
    listed: list[T] = []
    named: dict[str, int] = {}
    for key in sorted(policies, key=lambda key: (not key.startswith(f"{_HOME}/"), key)):
        if named.setdefault(key.partition("/")[2], len(listed)) == len(listed):
            listed.append(policies[key])
    policy_of = [
        named.get(_governing(node, named), -1) if running(topologies.get(node.metadata.name or "")) in (None, plugin) else -1
        for node in nodes
    ]
    return Governed(listed, np.array(policy_of, dtype=np.int64))


def running(topology: NodeResourceTopology | None) -> str | None:
    """Return the plugin that wrote a NodeResourceTopology; None if it does not say."""
    said = (attribute.value for attribute in (topology.attributes if topology is not None else None) or () if attribute.name == _ATTRIBUTE)
    return next(said, None)


def _governing(node: Node, named: Collection[str]) -> str:
    own = f"node.{node.metadata.name}"
    labels = node.metadata.labels or {}
    group = next((labels[label] for label in _GROUPS if labels.get(label)), None)
    return own if own in named else f"group.{group}" if group else "default"
