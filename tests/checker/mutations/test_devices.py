"""Documents of the recorded snapshots that name devices: all of them true, and none accepted once one word of them is changed."""

from __future__ import annotations

import copy
import gzip
import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tests.conformance
from kubestow.checker.placement import Judge, verify
from kubestow.checker.rules.dynamic_resources.document import expected
from kubestow.checker.rules.dynamic_resources.rule import DynamicResources
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef, from_builtins, to_builtins
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.checker.mutations.devices import MUTATIONS, Document
from tests.tiers import sampled

DATA = Path(tests.conformance.__file__).parent / "data" / "dra.jsonl.gz"
SNAPSHOTS = 300


@cache
def _recorded() -> list[dict[str, Any]]:
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@cache
def _original(number: int) -> tuple[Snapshot, Document, list[Document]]:
    """Pending pods bound one after the other wherever they are taken, as a document; and all devices that are published."""
    snapshot = from_objects(_recorded()[number]["snapshot"]["items"], validate=False)
    waiting = [pod for pod in snapshot.pods if not pod.spec.nodeName]
    judge = Judge(snapshot, waiting)
    allocator = next(rule.devices for rule in judge.rules if isinstance(rule, DynamicResources))
    assert allocator is not None
    entries: list[Assignment] = []
    for pod in waiting:
        node = next((name for name in judge.nodes if not judge.faults(pod, name)), None)
        if node is not None:
            judge.bind([(pod, node)])
            key = objects.pod_key(pod)
            devices = expected(allocator.allocated(pod) or [])
            entries.append(Assignment(key, node, len(entries) + 1, devices=devices))
    reference = SnapshotRef(snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), len(waiting))
    document = to_builtins(Placement(reference, "exact", "feasible", [], entries))
    published = [
        {"driver": each.spec.driver, "pool": each.spec.pool.name, "device": device.name}
        for each in snapshot.resource_slices.values()
        for device in each.spec.devices or ()
    ]
    return snapshot, document, published


def _found(snapshot: Snapshot, document: Document) -> list[str]:
    return [each.why for each in verify(snapshot, from_builtins(document, Placement)) if each.rule == "DynamicResources"]


@pytest.mark.parametrize("number", sampled(range(SNAPSHOTS), every=20, full=5))
def test_no_lie_about_devices_is_believed(number: int) -> None:
    snapshot, document, published = _original(number)
    assert _found(snapshot, document) == []
    for mutation in MUTATIONS:
        rng = Random(f"{mutation.__name__}-{number}")
        changed = copy.deepcopy(document)
        what = mutation(rng, changed, published)
        assert what is None or _found(snapshot, changed), f"{mutation.__name__}: {what}"


def test_every_mutation_finds_something_to_change() -> None:
    for mutation in MUTATIONS:
        tried = (mutation(Random(number), copy.deepcopy(_original(number)[1]), _original(number)[2]) for number in range(40))
        assert any(tried), mutation.__name__
