"""Differences of nodes: deleted, new, recreated, cordoned, tainted, not Ready, or with other labels or capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from kubestow.live.apply.differences import fields
from kubestow.live.apply.differences.found import DoneChanges, Drift
from kubestow.models.kube import objects
from kubestow.models.kube.closed_nodes import LET_IN, OWN_TAINTS, UNSCHEDULABLE
from kubestow.models.snapshot.snapshot import Snapshot

#: Taints that the node lifecycle controller adds to unhealthy nodes.
_NOT_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

Nodes = Mapping[str, objects.Node]


def drifts(before: Nodes, now: Nodes, done: DoneChanges) -> Iterator[Drift]:
    """Yield the differences between the nodes of two snapshots that the run did not make."""
    for name, node in before.items():
        there = now.get(name)
        if there is None:
            yield Drift("Node", name, "gone", f"Node {name} is gone", name)
            continue
        if node.metadata.uid and there.metadata.uid and node.metadata.uid != there.metadata.uid:
            message = f"Node {name} was deleted and made again: it is another node by uid"
            yield Drift("Node", name, "recreated", message, name, str(there.metadata.uid))
        if node != there:
            yield from _changes(name, node, there, closed=name in done.closed)
    for name, node in now.items():
        if name not in before:
            yield Drift("Node", name, "new", f"Node {name} is new", name, repr(_view(node)))


def _changes(name: str, one: objects.Node, other: objects.Node, *, closed: bool) -> Iterator[Drift]:
    cordoned = _is_cordoned(other)
    if cordoned != _is_cordoned(one) and not (cordoned and closed):
        yield Drift("Node", name, "cordon", f"Node {name} is {'' if cordoned else 'no longer '}cordoned", name)
    sick, was = (next((t.key for t in _taints(node) if t.key in _NOT_READY), None) for node in (other, one))
    if bool(sick) != bool(was):
        message = f"Node {name} is not Ready: it has the taint {sick}" if sick else f"Node {name} is Ready again"
        yield Drift("Node", name, "not ready" if sick else "ready", message, name)
    for each in fields.changed(_view(one), _view(other)):
        yield Drift("Node", name, each.path[0], f"Node {name}: {fields.clause(each)}", name, repr(each.new))


def _taints(node: objects.Node) -> list[objects.Taint]:
    return (node.spec.taints if node.spec is not None else None) or []


def _is_cordoned(node: objects.Node) -> bool:
    """Return True if the node is cordoned, by field or by taint; the taint follows the field with a delay."""
    return bool(node.spec is not None and node.spec.unschedulable) or any(taint.key == UNSCHEDULABLE for taint in _taints(node))


def _view(node: objects.Node) -> dict[str, Any]:
    """Return the properties of a node that placement reads, without cordon and readiness, which are reported separately."""
    status = node.status or objects.NodeStatus()
    apart = (UNSCHEDULABLE, LET_IN, *_NOT_READY)
    taints = {f"{t.key}={t.value}" if t.value else t.key: f":{t.effect}" for t in _taints(node) if t.key not in apart}
    found = fields.metadata(node.metadata)
    return found | {"taints": taints, "allocatable": status.allocatable if status.allocatable is not None else status.capacity or {}}


def opened(now: Snapshot, before: Snapshot, closed: set[str]) -> Snapshot:
    """Return the snapshot ``now`` without the cordons of the run.

    Args:
        now: The current state.
        before: The snapshot from before the run. Nodes cordoned in it stay cordoned.
        closed: Names of the nodes that the run cordoned.
    """
    cordoned = {node.metadata.name for node in before.nodes if _is_cordoned(node)}
    ours = {name for name in closed if name not in cordoned}
    if not any(node.metadata.name in ours for node in now.nodes):
        return now
    found = now.copy()
    found.nodes = [_open(node) if node.metadata.name in ours else node for node in now.nodes]
    return found


def _open(node: objects.Node) -> objects.Node:
    taints = [taint for taint in _taints(node) if taint.key not in OWN_TAINTS]
    spec = msgspec.structs.replace(node.spec or objects.NodeSpec(), unschedulable=None, taints=taints or None)
    return msgspec.structs.replace(node, spec=spec)
