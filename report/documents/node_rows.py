"""Capacity, requests and the largest pod that still fits, by node, zone or namespace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, Final, Literal

from kubestow.models.documents.answers import FittingPod, NodeRow, NodeTable
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import Node, Pod, Taint, is_terminal
from kubestow.models.kube.pod_requests import allocatable, is_resized, pod_limits, pod_request
from kubestow.models.snapshot.snapshot import Snapshot

By = Literal["node", "zone", "namespace"]
#: Sort orders: by name, otherwise the fullest row, or the one with most free capacity, first.
SORTS: Final = ("name", "cpu", "memory", "pods", "limits-cpu", "limits-memory", "free-cpu", "free-memory")
_ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_Amounts = Counter[str]


def zone_of(node: Node) -> str | None:
    """Return the zone of a node from its labels."""
    labels = node.metadata.labels or {}
    return next((labels[key] for key in _ZONE_LABELS if labels.get(key)), None)


def table(snapshot: Snapshot, nodes: Iterable[str] | None = None, *, by: By = "node", sort: str = "name") -> NodeTable:
    """Return the rows of the named nodes, by default of all. ``sort`` is one of ``SORTS``.

    Raises:
        QuantityError: An amount is invalid or beyond 64 bits.
    """
    chosen = None if nodes is None else set(nodes)
    rows = {node.metadata.name or "": _of_node(node) for node in snapshot.nodes if chosen is None or node.metadata.name in chosen}
    spaces: dict[str, NodeRow] = {}
    on: dict[str, set[str]] = {}
    memo: dict[int, tuple[dict[str, int], dict[str, int]]] = {}  # equal pods share their containers
    for pod in snapshot.pods:
        if is_terminal(pod):
            continue
        row = rows.get(pod.spec.nodeName or "")
        if row is None and (pod.spec.nodeName or chosen is not None):
            continue
        name = pod.metadata.namespace or "default"
        space = spaces.setdefault(name, NodeRow(name, 0, 0, {}, {}))
        if row is None:
            space.pending += 1
            continue
        on.setdefault(name, set()).add(row.name)
        for each in (row, space):
            each.pods += 1
            for into, amounts in zip((each.requests, each.limits), _asked(pod, memo, snapshot.gates), strict=True):
                _add(into, amounts)
    for row in rows.values():
        _finish(row)
    if snapshot.resource_slices:
        _add_devices(snapshot, rows)
    for name, space in spaces.items():
        space.nodes = len(on.get(name, ()))
    found = list(spaces.values()) if by == "namespace" else list(rows.values()) if by == "node" else _by_zone(rows.values())
    total = _sum("", rows.values())
    total.pending = sum(space.pending for space in spaces.values())
    listed = _sorted(found, sort, total if by == "namespace" else None)
    return NodeTable(by, listed, total, kubernetesVersion=snapshot.gates.version, featureGates=dict(snapshot.gates.given))


def _asked(pod: Pod, memo: dict[int, tuple[dict[str, int], dict[str, int]]], gates: FeatureGates) -> tuple[dict[str, int], dict[str, int]]:
    spec = pod.spec
    if is_resized(pod):
        return pod_request(pod, gates), pod_limits(pod, gates)
    plain = spec.initContainers is None and spec.resources is None and spec.overhead is None
    found = memo.get(id(spec.containers)) if plain else None
    if found is None:
        found = pod_request(pod, gates), pod_limits(pod, gates)
        if plain:
            memo[id(spec.containers)] = found
    return found


def _of_node(node: Node) -> NodeRow:
    status, spec = node.status, node.spec
    offered = allocatable((status.allocatable if status.allocatable is not None else status.capacity) if status else None)
    row = NodeRow(node.metadata.name or "", 1, 0, {}, {}, allocatable=offered, zone=zone_of(node) or "")
    row.cordoned = bool(spec is not None and spec.unschedulable)
    row.taints = [_taint(t) for t in (spec.taints if spec is not None else None) or () if t.effect in ("NoSchedule", "NoExecute")]
    return row


def _taint(taint: Taint) -> str:
    return f"{taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"


def _finish(row: NodeRow) -> None:
    """Set the free capacity of a node, and the largest pod that fits."""
    usage = {**row.requests, "pods": row.pods}
    row.free = {name: value - usage.get(name, 0) for name, value in row.allocatable.items()}
    row.free |= {name: -value for name, value in usage.items() if name not in row.allocatable and value}
    if row.free.get("pods", 0) > 0:
        # A pod without a request for a resource fits even if the resource is overcommitted.
        row.largest = [FittingPod(row.name, max(0, row.free.get("cpu", 0)), max(0, row.free.get("memory", 0)))]


def _add_devices(snapshot: Snapshot, rows: dict[str, NodeRow]) -> None:
    """Count the devices that each node can use, and the unallocated ones."""
    from kubestow.models.devices.read import visible_devices  # importing numpy takes longer than building rows

    found = visible_devices(snapshot)
    in_use = found.books.in_use | (found.books.shares > 0)
    for n, node in enumerate(snapshot.nodes):
        row = rows.get(node.metadata.name or "")
        for i in found.visible(n).tolist() if row is not None else ():
            device = found.devices[i]
            if row is not None:
                _add(row.devices, {device.driver: 1})
                _add(row.freeDevices, {device.driver: int(not in_use[device.unit])})


def _by_zone(rows: Iterable[NodeRow]) -> list[NodeRow]:
    zones: dict[str, list[NodeRow]] = {}
    for row in rows:
        zones.setdefault(row.zone, []).append(row)
    return [_sum(zone, members) for zone, members in zones.items()]


def _sum(name: str, rows: Iterable[NodeRow]) -> NodeRow:
    """Return the sum of nodes. The largest pods are those of nodes that accept pods without tolerations."""
    total = NodeRow(name, 0, 0, {}, {}, allocatable={}, free={}, devices={}, freeDevices={})
    largest: list[FittingPod] = []
    for row in rows:
        total.nodes += row.nodes
        total.pods += row.pods
        for part in ("requests", "limits", "allocatable", "free", "devices", "freeDevices"):
            _add(getattr(total, part), getattr(row, part))
        largest += row.largest if not row.cordoned and not row.taints else []
    for fitting in sorted(largest, key=lambda f: (-f.cpu, -f.memory, _natural(f.node))):
        if not total.largest or fitting.memory > total.largest[-1].memory:
            total.largest.append(fitting)
    return total


def _add(into: dict[str, int], amounts: dict[str, int]) -> None:
    for name, value in amounts.items():
        into[name] = into.get(name, 0) + value


def _sorted(rows: Sequence[NodeRow], sort: str, of: NodeRow | None) -> list[NodeRow]:
    """Return the rows in order. ``of`` provides the totals for rows without nodes of their own."""
    named = sorted(rows, key=lambda row: (not row.name, _natural(row.name)))
    if sort == "name":
        return named
    part, _, resource = sort.rpartition("-")

    def share(row: NodeRow) -> Fraction:
        whole = (of or row).allocatable.get(resource, 0)
        used = row.pods if resource == "pods" else (row.limits if part == "limits" else row.requests).get(resource, 0)
        return Fraction(used, whole) if whole > 0 else Fraction(used) * 2**63

    key: Callable[[NodeRow], Any] = (lambda row: row.free.get(resource, 0)) if part == "free" else share
    return sorted(named, key=key, reverse=True)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key by which ``n2`` comes before ``n10``."""
    return [(0, int(p), "") if p.isascii() and p.isdigit() and len(p) < 19 else (1, 0, p) for p in re.split(r"(\d+)", name) if p]
