"""Without bystanders a drain is judged as with them."""

from __future__ import annotations

import random

import pytest

from kubestow.checker.capacity.waves.unrelated_pods import UnrelatedPods
from kubestow.checker.plan.remaining_steps import rest_faults
from kubestow.models.documents.placement import SnapshotRef
from kubestow.models.documents.rebalance_plan import Move
from kubestow.models.documents.upgrade import UpgradeWave
from kubestow.models.edits.upgrade import as_plan, stays
from kubestow.models.kube.objects import pod_key
from tests import tiny
from tests.checker.capacity.clusters import running
from tests.tiers import sampled


@pytest.mark.parametrize("kind", [kind for kind in tiny.KINDS if kind != "gated"])
@pytest.mark.parametrize("seed", sampled(range(60), every=12, full=4))
def test_a_drain_is_judged_the_same_without_bystanders(seed: int, kind: str) -> None:
    snapshot = running(seed, kind, nodes=6, pods=14)
    rng = random.Random(seed)
    bystanders = UnrelatedPods(snapshot, ())
    names = [node.metadata.name or "" for node in snapshot.nodes]
    for drained in names:
        leaving = stays(snapshot.pods, [drained])
        others = rng.sample([name for name in names if name != drained], k=min(2, len(names) - 1))
        if not others:
            return
        moves = [Move(i, rng.choice((1, i)), pod_key(pod), drained, rng.choice(others), "") for i, pod in enumerate(leaving, 1)]
        moves.sort(key=lambda move: move.wave)
        plan = as_plan(UpgradeWave(1, [drained], moves=moves), SnapshotRef(snapshot.sha256, 0, 0, 0))
        part = bystanders.without(snapshot, {drained, *others})
        assert {(f.pod, f.node, f.rule) for f in rest_faults(part, plan)} == {(f.pod, f.node, f.rule) for f in rest_faults(snapshot, plan)}


def test_there_are_bystanders() -> None:
    left = 0
    for seed in range(10):
        snapshot = running(seed, "mixed", nodes=6, pods=14)
        left += len(snapshot.pods) - len(UnrelatedPods(snapshot, ()).without(snapshot, {"n0"}).pods)
    assert left > 3
