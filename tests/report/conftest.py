"""A small cluster and a placement, in the form that renderers take."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kubestow.models.documents.placement import Assignment, Placement, Reason, Seconds, SnapshotRef, TierResult, Unplaced
from kubestow.models.kube.objects import Container, Node, NodeStatus, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kubestow.models.snapshot.snapshot import Snapshot


def _node(name: str, zone: str | None = None, cpu: str = "4") -> Node:
    labels = {} if zone is None else {"topology.kubernetes.io/zone": zone}
    status = NodeStatus(allocatable={"cpu": cpu, "memory": "8Gi", "pods": "110"})
    return Node(metadata=ObjectMeta(name=name, labels=labels), status=status)


def _pod(name: str, *, node: str | None = None, cpu: str = "1", priority: int = 0) -> Pod:
    containers = [Container(name="app", resources=ResourceRequirements(requests={"cpu": cpu, "memory": "1Gi"}))]
    return Pod(metadata=ObjectMeta(name=name, namespace="prod"), spec=PodSpec(nodeName=node, priority=priority, containers=containers))


@pytest.fixture
def make_node() -> Callable[..., Node]:
    return _node


@pytest.fixture
def make_pod() -> Callable[..., Pod]:
    return _pod


@pytest.fixture
def snapshot() -> Snapshot:
    """Nodes n1 (zone a), n2 (zone b), n3 (no zone); ``old`` bound to n1; web-1, web-2 (priority 10), db-0, db-1 pending."""
    nodes = [_node("n1", "a"), _node("n2", "b"), _node("n3")]
    pods = [_pod("old", node="n1"), _pod("web-1", priority=10), _pod("web-2", priority=10), _pod("db-0", cpu="9"), _pod("db-1", cpu="9")]
    return Snapshot(nodes=nodes, pods=pods, sha256="abc")


@pytest.fixture
def placement() -> Placement:
    """web-1 and web-2 placed (bound in reverse order of listing), db-0 and db-1 not, for the same reason."""
    reasons = [Reason("NodeResourcesFit", 3, "insufficient cpu")]
    return Placement(
        snapshot=SnapshotRef("abc", 3, 5, 4),
        engine="exact",
        status="feasible",
        objective=[TierResult("placed", 2, 2, 10), TierResult("placed", 0, 1, 0)],
        assignments=[Assignment("prod/web-2", "n2", 2), Assignment("prod/web-1", "n1", 1)],
        unplaced=[Unplaced("prod/db-0", reasons), Unplaced("prod/db-1", reasons)],
        seconds=Seconds(0.1, 0.2, 0.3, 0.1),
    )
