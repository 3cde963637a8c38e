"""The incremental state of failures says what a Judge says on the snapshot that each failure leaves."""

from __future__ import annotations

import random
import re
from itertools import combinations

import pytest

from kubestow.checker.capacity.failures import comes_back, without
from kubestow.checker.capacity.outage import Outage
from kubestow.checker.placement import Judge
from kubestow.models.kube.objects import pod_key
from tests import tiny
from tests.checker.capacity.clusters import asked, running
from tests.tiers import sampled

KINDS = [kind for kind in tiny.KINDS if kind != "gated"]


def unnamed(faults: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Replace pod names: if several pods are in the way, the reported one depends on the order."""
    return sorted((rule, re.sub(r"\bpod \S+", "a pod", why)) for rule, why in faults)


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", sampled(range(40), every=10, full=5))
def test_pods_that_lost_their_nodes_meet_what_a_judge_of_the_edited_snapshot_says(seed: int, kind: str, at_once: int) -> None:
    snapshot = running(seed, kind)
    rng = random.Random(seed)
    outage = Outage(snapshot, ())
    names = [node.metadata.name or "" for node in snapshot.nodes]
    for gone in combinations(names, at_once):
        edited, back = without(snapshot, gone, (), asked(snapshot))
        judge = Judge(edited, back)
        runners = [outage.runners[pod_key(pod)] for pod in back]
        assert {runner.key for runner in runners} == {
            runner.key for name in gone for runner in outage.residents[name] if comes_back(runner.pod, None)
        }
        outage.fail(gone)
        for pod, runner in rng.sample(list(zip(back, runners, strict=True)), len(back)):
            left = [name for name in names if name not in gone]
            for name in left:
                assert unnamed(outage.faults(runner, name)) == unnamed(judge.faults(pod, name)), (gone, runner.key, name)
            name = rng.choice(left) if left else ""
            if name:
                assert outage.has_room(runner, name) == all(rule != "NodeResourcesFit" for rule, _ in judge.faults(pod, name))
                judge.bind([(pod, name)])
                outage.put(runner, name)
        assert outage.final_faults() == [(pod_key(pod), name, (rule, why)) for pod, name, rule, why in judge.final_faults()]
        outage.restore()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_undone_is_as_it_was(kind: str) -> None:
    snapshot = running(3, kind)
    outage, fresh = Outage(snapshot, ()), Outage(snapshot, ())
    names = list(outage.nodes)
    for gone in names:
        outage.fail([gone])
        for runner in outage.residents[gone]:
            outage.put(runner, names[0] if gone != names[0] else names[-1])
        outage.restore()
    for name in names:
        for runner in fresh.residents[name]:
            for other in names:
                assert unnamed(outage.faults(outage.runners[runner.key], other)) == unnamed(fresh.faults(runner, other))
