"""The checker finds out once what holds for all replicas, and counts pods by kind: the same verdicts as of plain replays, pod by pod.

Two readings are compared with it on changed documents of random clusters: :mod:`tests.checker.naive`, which shares neither books nor counts
with it, and the checker itself where no two pods count as replicas. At length:

    python -m tests.checker.naive.test_naive 0 10000
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from random import Random
from unittest.mock import patch

import msgspec
import pytest

from kubestow.checker import judge, replicas
from kubestow.checker.placement import check, verify
from kubestow.models.documents.placement import Placement, TierResult, from_builtins
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests import tiny, tiny_soft
from tests.checker.mutations import originals, placements
from tests.checker.mutations.originals import Document, Original
from tests.checker.naive import document as naive
from tests.checker.test_shared import thrown

#: Solved clusters of which documents are changed, and seeds of those with pods on nodes at random; of few where time matters.
CLUSTERS, SEEDS = 96, 400
FEW = 36
KINDS = tuple(dict.fromkeys((*tiny.ALL, *tiny_soft.KINDS)))


class Apart(replicas.Replicas):
    """No pod is a replica of another one."""

    def numbers(self, pods: Iterable[objects.Pod]) -> list[int]:
        return [self._number(pod) for pod in pods]

    def _number(self, pod: objects.Pod) -> int:
        if id(pod) not in self._known:
            self._known[id(pod)] = len(self.first)
            self.first.append(pod)
        return self._known[id(pod)]


def twin(rng: Random, pod: Document) -> Document:
    """A replica of a pod, or a pod that is one but for a single field."""
    metadata = {**pod["metadata"], "name": pod["metadata"]["name"] + "-twin"}
    found: Document = {**pod, "metadata": metadata, "spec": {**pod["spec"]}}
    match rng.choice(("", "", "labels", "namespace", "nodeSelector", "tolerations", "priority")):
        case "labels":
            metadata["labels"] = {"app": rng.choice(tiny.APPS), "tier": "other"}
        case "namespace":
            metadata["namespace"] = "other"
        case "nodeSelector":
            found["spec"]["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd"))}
        case "tolerations":
            found["spec"]["tolerations"] = [{"operator": "Exists"}]
        case "priority":
            found["spec"]["priority"] = 7
    return found


@cache
def scattered(seed: int, kind: str) -> Original:
    """A random cluster with replicas and at times gangs, and a document that has its pods on nodes at random."""
    rng = Random(f"scattered-{kind}-{seed}")
    made = tiny.snapshot if kind in tiny.ALL else tiny_soft.snapshot
    found = made(seed, kind, nodes=4, pods=5)
    found += [twin(rng, each) for each in found if each["kind"] == "Pod" and rng.random() < 0.7]
    if rng.random() < 0.3:
        found = tiny.with_gangs(found, seed)
    snapshot = from_objects(found)
    snapshot.gates = tiny.GATES if kind == "gated" else snapshot.gates
    placement = thrown(snapshot, rng, from_scratch=rng.random() < 0.4)
    if rng.random() < 0.5:
        placement.objective += [TierResult("topologySpread", 1, 1), TierResult("strategy", 1, 1)]
    return Original(found, snapshot, msgspec.json.encode(placement), modelled=False)


def moved(rng: Random, doc: Document, original: Original) -> None:
    """Some pods are on other nodes."""
    names = [node.metadata.name for node in original.snapshot.nodes]
    for entry in rng.sample(doc["assignments"], rng.randint(0, len(doc["assignments"]))):
        entry["node"] = rng.choice(names)


def reordered(rng: Random, doc: Document, _: Original) -> None:
    """Pods are bound in another order."""
    orders = [entry["order"] for entry in doc["assignments"]]
    rng.shuffle(orders)
    for entry, order in zip(doc["assignments"], orders, strict=True):
        entry["order"] = order


def drawn(number: int, clusters: int, seeds: int) -> tuple[Snapshot, Placement]:
    """A cluster and a document of it with one to three changes."""
    rng = Random(f"naive-{number}")
    original = originals.placement(rng.randrange(clusters)) if number % 2 else scattered(rng.randrange(seeds), rng.choice(KINDS))
    document = original.document()
    for part in ("assignments", "unplaced", "gangs", "causes", "unmodelled"):
        document.setdefault(part, [])
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice((*placements.MUTATIONS, moved, moved, moved, reordered, reordered))(rng, document, original)
    return original.snapshot, from_builtins(document, Placement)


def differences(numbers: Iterable[int], clusters: int, seeds: int) -> tuple[list[int], Counter[str]]:
    """Return the documents of which readings differ, and how many violations there were of each rule."""
    wrong, rules = [], Counter[str]()
    for number in numbers:
        snapshot, placement = drawn(number, clusters, seeds)
        found, checked = verify(snapshot, placement), check(snapshot, placement)
        with patch.object(replicas, "Replicas", Apart), patch.object(judge, "Replicas", Apart):
            apart = check(snapshot, placement)
        if sorted(found, key=repr) != sorted(naive.verify(snapshot, placement), key=repr) or checked != apart:
            wrong.append(number)
        rules.update(each.rule for each in found)
    return wrong, rules


def test_a_plain_replay_comes_to_the_same_verdicts() -> None:
    wrong, rules = differences(range(400), FEW, FEW)
    assert wrong == []
    assert len(rules) > 10


@pytest.mark.slow
def test_plain_replays_of_ten_thousand_documents_come_to_the_same_verdicts() -> None:
    wrong, rules = differences(range(1000, 11_000), CLUSTERS, SEEDS)
    assert wrong == []
    assert min(rules.values()) > 5, rules


if __name__ == "__main__":
    import sys

    first, count = map(int, sys.argv[1:])
    bad, each_rule = differences(range(first, first + count), CLUSTERS, SEEDS)
    print(*each_rule.most_common(), f"{count} documents, {len(bad)} with other verdicts: {bad[:10]}", sep="\n")
    sys.exit(bool(bad))
