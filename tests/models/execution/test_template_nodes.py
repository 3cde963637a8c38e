"""The nodes of each workload: from the document alone as from the snapshot that it was made of."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.placement import Assignment, GangResult, Placement, SnapshotRef
from kubestow.models.execution.template_nodes import from_placement, template_nodes
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.models.workloads.expand import expand
from tests.models.workloads.test_workloads import NODES, workload


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", {"replicas": 2}),
        ("ReplicaSet", {"replicas": 2}),
        ("ReplicationController", {"replicas": 2}),
        ("StatefulSet", {"replicas": 2, "serviceName": "s"}),
        ("Job", {"parallelism": 2}),
        ("Job", {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}),
        ("CronJob", {"parallelism": 2}),
    ],
)
def test_names_of_pods_tell_their_workload(kind: str, spec: dict[str, Any]) -> None:
    before = from_objects(NODES)
    given = [workload(kind, name, **spec) for name in ("web", "web-x", "a")]
    for each in given:
        each["metadata"]["namespace"] = "default"
    added = expand(before, from_objects(given, manifests=True))
    assignments = [Assignment(pod, f"n{i % 3 + 1}", i + 1, "default/g") for i, pod in enumerate(added.snapshot.to_create)]
    ref = SnapshotRef("", 3, 6, 6, workloads=[*added.workloads, "DaemonSet default/web"])
    placement = Placement(ref, "exact", "optimal", [], assignments, gangs=[GangResult("default/g", 6, 6, 4)])
    known, guessed = template_nodes(before, added.snapshot, ref.workloads, placement), from_placement(placement)
    assert [t.ref for t in guessed] == added.workloads
    for a, b in zip(known, guessed, strict=True):
        assert (a.assignments, a.nodes, a.by_name, a.gang, a.needed) == (b.assignments, b.nodes, b.by_name, b.gang, b.needed)
        assert (a.placed, a.unplaced, a.needed) == (2, 0, 4)
        assert (a.exists, b.exists) == (False, True)
