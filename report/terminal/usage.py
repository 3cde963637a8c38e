"""Utilisation of each node after a placement."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from kubestow.models.documents.placement import Placement
from kubestow.models.kube.objects import is_terminal, pod_key
from kubestow.models.kube.pod_requests import allocatable, pod_request
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.node_rows import zone_of
from kubestow.report.terminal.columns import share

#: Resources in tables, in mCPU, bytes and pods.
RESOURCES: Final = ("cpu", "memory", "pods")


@dataclass
class Usage:
    """Requested and allocatable amounts of one or more nodes.

    Attributes:
        name: Name of the node or zone.
        zone: Name of the zone, if any.
        nodes: Number of nodes.
        new: Number of pods added by the placement.
        used: Requested amounts by resource.
        allocatable: Allocatable amounts by resource.
    """

    name: str
    zone: str | None
    nodes: int = 1
    new: int = 0
    used: Counter[str] = field(default_factory=Counter)
    allocatable: Counter[str] = field(default_factory=Counter)

    def fullness(self) -> list[int]:
        """Return the utilisation of the resources in 1/10,000, largest first, as a sort key."""
        return sorted((share(self.used[r], self.allocatable[r], 10_000) for r in RESOURCES), reverse=True)


def per_node(snapshot: Snapshot, placement: Placement) -> list[Usage]:
    """Return the usage of every node, in input order, with remaining bound pods and assigned pods.

    Pods that are placed again count on their new node only.
    """
    usages = {}
    for node in snapshot.nodes:
        status = node.status
        offered = allocatable((status.allocatable if status.allocatable is not None else status.capacity) if status else None)
        name = node.metadata.name or ""
        usages[name] = Usage(name, zone_of(node), allocatable=Counter({r: offered.get(r, 0) for r in RESOURCES}))
    goes = {a.pod: a.node for a in placement.assignments}
    left_out = {u.pod for u in placement.unplaced}
    for pod in snapshot.pods:
        key = pod_key(pod)
        new = goes.get(key)
        where = new if new is not None else pod.spec.nodeName
        usage = usages.get(where or "")
        if usage is None or key in left_out or (new is None and is_terminal(pod)):
            continue
        request = pod_request(pod, snapshot.gates)
        usage.used.update({"cpu": request.get("cpu", 0), "memory": request.get("memory", 0), "pods": 1})
        usage.new += new is not None
    return list(usages.values())


def per_zone(usages: list[Usage]) -> list[Usage]:
    """Return usage summed by zone, sorted by name. Nodes without a zone come last."""
    zones: dict[str | None, Usage] = {}
    for usage in usages:
        total = zones.setdefault(usage.zone, Usage(usage.zone or "no zone", usage.zone, nodes=0))
        total.nodes += usage.nodes
        total.new += usage.new
        total.used.update(usage.used)
        total.allocatable.update(usage.allocatable)
    return sorted(zones.values(), key=lambda z: (z.zone is None, z.name))
