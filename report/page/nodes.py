"""The columns of nodes and their zones."""

from __future__ import annotations

from typing import Any, Final

from kubestow.models.documents.policy import Policy, node_topologies
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube import objects, quantity
from kubestow.models.kube.pod_requests import allocatable
from kubestow.models.numa.node_topology import NumaTree, TopologyError, tree
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads import daemon_sets
from kubestow.report.documents import numbers
from kubestow.report.documents.node_rows import zone_of
from kubestow.report.page import words
from kubestow.report.page.places import PodPlaces, Result, policy_of

UNSCHEDULABLE: Final = 1
CONTROL_PLANE: Final = 2
FREED: Final = 4
ADDED: Final = 8
TO_DRAIN: Final = 16
FREE_BEFORE: Final = 32

#: Maximum numbers of nodes with labels, and with NUMA zones. Beyond these, they would make up most of the page.
MAX_LABELLED_NODES: Final = 500
MAX_NUMA_NODES: Final = 2_000

_ZONE: Final = "topology.kubernetes.io/zone"
_BETA: Final = "failure-domain.beta.kubernetes.io/zone"
_CONTROL: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def zones(snapshot: Snapshot) -> tuple[list[dict[str, str]], list[int]]:
    """Return the zones by name, with nodes without a zone last, and the zone index of each node."""
    names = [zone_of(node) for node in snapshot.nodes]
    ordered = sorted({name for name in names if name is not None})
    ids: dict[str | None, int] = {name: i for i, name in enumerate(ordered)}
    modern = any((node.metadata.labels or {}).get(_ZONE) for node in snapshot.nodes)
    key = _ZONE if modern or not ordered else _BETA
    found = [{"name": name, "key": key} for name in ordered]
    if None in names:
        ids[None] = len(found)
        found.append({"name": "", "key": key})
    return found, [ids[name] for name in names]


def columns(snapshot: Snapshot, result: Result, original: Snapshot | None, places: PodPlaces, notes: list[str]) -> dict[str, Any]:
    """Return ``nodes`` of the page.

    Args:
        snapshot: The snapshot.
        result: The result, if any.
        original: The snapshot before edits, if any.
        places: Places of the pods before and after.
        notes: Notes about unreadable data are appended here.

    Raises:
        InputError: An allocatable amount is invalid or beyond 64 bits.
    """
    nodes = snapshot.nodes
    _, zone = zones(snapshot)
    offers = [_offer(node) for node in nodes]
    found: dict[str, Any] = {
        "name": [node.metadata.name or "" for node in nodes],
        "zone": zone,
        "cpu": [offer.get("cpu", 0) for offer in offers],
        "memory": [offer.get("memory", 0) for offer in offers],
        "pods": [offer.get("pods", 0) for offer in offers],
        "flags": _flags(snapshot, result, original, places),
        "taints": [[words.taint(taint) for taint in (node.spec.taints if node.spec else None) or ()] for node in nodes],
    }
    if len(nodes) <= MAX_LABELLED_NODES:
        found["labels"] = [[f"{key}={value}" for key, value in sorted((node.metadata.labels or {}).items())] for node in nodes]
    found["numa"] = _numa(snapshot, policy_of(result), notes) if len(nodes) <= MAX_NUMA_NODES else {}
    return found


def _offer(node: objects.Node) -> dict[str, int]:
    """Return the allocatable amounts of a node, or its capacity if they are missing."""
    status = node.status
    given = (status.allocatable if status.allocatable is not None else status.capacity) if status is not None else None
    try:
        return allocatable(given)
    except quantity.QuantityError as error:
        raise InputError([f"Node {node.metadata.name}: allocatable: {error}"]) from error


def left_to_drain(plan: RebalancePlan, places: PodPlaces) -> set[int]:
    """Return the indices of drained nodes that keep pods other than DaemonSet and static pods."""
    return _used(places, -1, terminating=False) if plan.drain else set()


def _used(places: PodPlaces, view: int, *, terminating: bool) -> set[int]:
    """Return the nodes with pods other than DaemonSet and static pods. With ``terminating``, terminating pods count."""
    return {
        n
        for pod, n in zip(places.pods, places.place[view], strict=True)
        if n >= 0 and not daemon_sets.is_daemon(pod) and (terminating or not objects.is_terminating(pod))
    }


def _flags(snapshot: Snapshot, result: Result, original: Snapshot | None, places: PodPlaces) -> list[int]:
    plan = result if isinstance(result, RebalancePlan) else None
    freed, drain = (set(plan.freed), set(plan.drain)) if plan is not None else (set(), set())
    drain_pending = left_to_drain(plan, places) if plan is not None else set()
    # Mark nodes that were already empty only if the plan freed others.
    ever = _used(places, 0, terminating=True) | _used(places, -1, terminating=True) if freed else set(range(len(snapshot.nodes)))
    known = {node.metadata.name for node in original.nodes} if original is not None else None
    found = []
    for n, node in enumerate(snapshot.nodes):
        labels = node.metadata.labels or {}
        flags = UNSCHEDULABLE if node.spec is not None and node.spec.unschedulable else 0
        flags |= CONTROL_PLANE if any(key in labels for key in _CONTROL) else 0
        drained = node.metadata.name in drain
        flags |= FREED if node.metadata.name in freed or (drained and n not in drain_pending) else 0
        flags |= TO_DRAIN if drained and n in drain_pending else 0
        flags |= FREE_BEFORE if n not in ever and not flags & (FREED | TO_DRAIN) else 0
        flags |= ADDED if known is not None and node.metadata.name not in known else 0
        found.append(flags)
    return found


def _numa(snapshot: Snapshot, policy: Policy, notes: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return NUMA zones by node index (as text), in the kubelet's order, with their total resources.

    Nodes without zones are left out, as are those with unreadable zones, which add to ``notes``.
    """
    at = {node.metadata.name or "": n for n, node in enumerate(snapshot.nodes)}
    found = {}
    for name, topology in node_topologies(policy, snapshot).items():
        if name not in at:
            continue
        try:
            listed = tree(topology)
        except TopologyError as error:
            notes.append(f"NodeResourceTopology {name}: {error}")
            continue
        if listed is not None:
            found[at[name]] = _zones(listed)
    return {str(n): found[n] for n in sorted(found)}


def _zones(found: NumaTree) -> list[dict[str, Any]]:
    return [
        {"name": name, "resources": {resource: numbers.amount(resource, value) for resource, value in sorted(capacity.items())}}
        for name, capacity in zip(found.zones, found.capacity, strict=True)
    ]
