"""One state that continues from wave to wave gives the same verdicts as a new snapshot for each wave."""

from __future__ import annotations

import random

import pytest

from kubestow.checker.capacity.waves.running_state import RunningState
from kubestow.checker.capacity.waves.separate_snapshots import SeparateSnapshots
from kubestow.checker.violation import Violation
from kubestow.models.documents.placement import SnapshotRef
from kubestow.models.documents.rebalance_plan import Move
from kubestow.models.documents.upgrade import NewNode, Upgrade, UpgradeWave
from kubestow.models.edits.upgrade import new_name, stays
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from tests import tiny
from tests.checker.capacity.clusters import running
from tests.tiers import sampled

KINDS = [kind for kind in tiny.KINDS if kind != "gated"]
TO = {"spec": {"taints": []}, "metadata": {"labels": {"version": "2"}}}


def _made(rng: random.Random, snapshot: Snapshot) -> Upgrade:
    """Waves that drain nodes in any order; their pods go anywhere, in any order: most of it is wrong."""
    ref = SnapshotRef(snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), 0)
    pool = [node.metadata.name or "" for node in snapshot.nodes]
    document = Upgrade(ref, "", pool, 1, 1, True, False, [], to=rng.choice((None, TO)))
    there, taken = set(pool), set(pool)
    where = {pod_key(pod): pod.spec.nodeName or "" for pod in stays(snapshot.pods, pool)}
    left = rng.sample(pool, len(pool))
    while left:
        drained = [left.pop() for _ in range(min(len(left), rng.choice((1, 1, 2))))]
        new = [NewNode(new_name(taken, name), name) for name in drained]
        late = rng.random() < 0.3
        open_ = sorted(there - set(drained)) + ([] if late else [each.name for each in new])
        own = [key for key, node in where.items() if node in drained]
        moves = [Move(i, rng.choice((1, i)), key, where[key], rng.choice(open_), "") for i, key in enumerate(own, 1)] if open_ else []
        moves.sort(key=lambda move: move.wave)
        wave = UpgradeWave(len(document.waves) + 1, drained, [] if late else new, new if late else [], moves)
        document.waves.append(wave)
        for move in moves:
            where[move.pod] = move.to
        there = (there - set(drained)) | {each.name for each in new}
        if len(moves) < len(own):
            break
    return document


def _marks(found: list[Violation]) -> set[tuple[str, str]]:
    """Which of several pods at rest is named depends on their order of arrival."""
    return {(fault.rule, fault.pod if fault.why.startswith("step") or "budget" in fault.why else "") for fault in found}


def _compare(snapshot: Snapshot, document: Upgrade) -> tuple[int, int]:
    """Hold the two ways to each other; how many waves are in order, and how many are not."""
    passage, anew = RunningState(snapshot, document, document.waves), SeparateSnapshots(snapshot, document, 10**9)
    good = bad = 0
    for wave in document.waves:
        passage.begin(wave)
        anew.begin(wave)
        there, others = ({pod_key(pod) for pod in stays(way.pods_on(wave.drain), wave.drain)} for way in (passage, anew))
        assert there == others
        found, expected = passage.drain(wave), anew.drain(wave)
        assert _marks(found) == _marks(expected), (wave, found, expected)
        good, bad = good + (not found), bad + bool(found)
    return good, bad


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", sampled(range(60), every=12, full=4))
def test_waves_of_any_kind_are_judged_as_on_snapshots_of_their_own(seed: int, kind: str) -> None:
    snapshot = running(seed, kind, nodes=5, pods=10)
    _compare(snapshot, _made(random.Random(seed), snapshot))


def test_some_waves_are_in_order_and_others_are_not() -> None:
    found = [_compare(at, _made(random.Random(seed), at)) for seed in range(4) for at in (running(seed, "mixed", nodes=5, pods=10),)]
    assert min(map(sum, zip(*found, strict=True))) > 1
