"""Random tiny clusters in which everything runs, so that nodes can fail; and questions about their failures."""

from __future__ import annotations

import random
from typing import Any

from kubestow.models.documents.placement import SnapshotRef
from kubestow.models.documents.survival import Scenarios, Survival
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests import tiny

Object = dict[str, Any]


def running(seed: int, kind: str, *, nodes: int = 4, pods: int = 7) -> Snapshot:
    """A cluster of :mod:`tests.tiny` in which nearly all pods run somewhere, regardless of rules, most with a ReplicaSet."""
    rng = random.Random(f"running-{kind}-{seed}")
    objects = tiny.snapshot(seed, kind, nodes=nodes, pods=pods)
    names = [each["metadata"]["name"] for each in objects if each["kind"] == "Node"]
    for each in objects:
        if each["kind"] == "Pod" and not each["spec"].get("schedulingGates"):
            if not each["spec"].get("nodeName") and rng.random() < 0.9:
                each["spec"]["nodeName"] = rng.choice(names)
                each["status"] = {"phase": "Running"}
            if rng.random() < 0.85:
                each["spec"]["priority"] = rng.choice((0, 0, 5))
                owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "set", "controller": True}
                each["metadata"]["ownerReferences"] = [owner]
    return from_objects(objects)


def asked(snapshot: Snapshot, **question: Any) -> Survival:
    """A Survival of nothing yet."""
    ref = SnapshotRef(snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), 0)
    return Survival(ref, question.pop("fail", "node"), False, Scenarios(0, 0, 0, 0, 0), [], [], **question)
