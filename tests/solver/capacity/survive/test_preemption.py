"""Preemption after a failure, against every set of pods that could be preempted and every placement."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain, combinations

import msgspec
import pytest

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.objects import Pod, controller_of, is_terminal, is_terminating, pod_key
from kubestow.models.snapshot.scope import is_mirror, select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.capacity.survive.survive import survive
from kubestow.solver.runtime.options import Options
from tests.objects import node, pod
from tests.solver.capacity.survive.clusters import running, without
from tests.solver.rules.test_agreement import accepted, matrix, reachable

KINDS = ("static", "resources", "ports", "affinity", "anti", "spread", "mixed")
PRIORITY = 10
ASKED = SurviveOptions(priority=PRIORITY, preemption=True)
OPTIONS = Options(time_limit=20, workers=1, causes=False)
_change = msgspec.structs.replace


def with_priorities(seed: int, kind: str) -> Snapshot:
    """A random cluster that runs, where half of the pods have to come back, and some of these never preempt."""
    rng = random.Random(seed)
    snapshot = running(seed, kind, nodes=3, pods=5)
    chosen = [(rng.choice((0, PRIORITY)), "Never" if rng.random() < 0.1 else None) for _ in snapshot.pods]
    snapshot.pods = [
        _change(pod, spec=_change(pod.spec, priority=priority, preemptionPolicy=policy))
        for pod, (priority, policy) in zip(snapshot.pods, chosen, strict=True)
    ]
    return snapshot


def victims(remaining: Snapshot) -> list[Pod]:
    return [
        pod
        for pod in remaining.pods
        if pod.spec.nodeName and not (is_terminal(pod) or is_terminating(pod) or is_mirror(pod)) and (pod.spec.priority or 0) < PRIORITY
        if (owner := controller_of(pod)) is None or owner.kind != "DaemonSet"
    ]  # fmt: skip


def most_back(snapshot: Snapshot, gone: Sequence[str]) -> tuple[int, int]:
    """Return the number of pods to reschedule after a failure, and the maximum that can be, by enumeration."""
    remaining = without(snapshot, gone, PRIORITY)
    waiting = [pod for pod in remaining.pods if not pod.spec.nodeName and not is_terminal(pod)]
    may = victims(remaining)
    best = 0
    for chosen in chain.from_iterable(combinations(may, k) for k in range(len(may) + 1)):
        away = {id(pod) for pod in chosen}
        trial = remaining.copy()
        trial.pods = [pod for pod in remaining.pods if id(pod) not in away]
        cluster = compile_cluster(trial, select(trial))
        needed = {pod.spec.nodeName for pod in chosen}
        for state, order in reachable(cluster).items():
            counts = matrix(cluster, state)
            there = {
                cluster.nodes.names[n] for g, n in zip(*counts.nonzero(), strict=True)
                if cluster.classes[g].pod.spec.preemptionPolicy != "Never"
            }  # fmt: skip
            if int(counts.sum()) > best and needed <= there and accepted(cluster, order):
                best = int(counts.sum())
        if best == len(waiting):
            break
    return len(waiting), best


def check(seed: int, kind: str) -> int:
    """Assert that the outcomes are those of brute force; how many certificates preempt."""
    snapshot = with_priorities(seed, kind)
    result = survive(snapshot, ASKED, OPTIONS)
    least = {tuple(found.failed): found.least for found in result.counterexamples}
    preempting = 0
    for scenario in result.outcomes:
        for failed in (scenario.failed, *scenario.alike):
            waiting, back = most_back(snapshot, failed)
            if scenario.outcome == "unknown":  # running pods that break rules by themselves, which no proof covers
                continue
            assert scenario.displaced == waiting, failed
            assert scenario.outcome == ("survives" if back == waiting else "pending"), failed
        assert scenario.outcome != "pending" or least[tuple(scenario.failed)] == scenario.displaced - back
        if scenario.preempted:
            preempting += 1
            where = {pod_key(pod): pod.spec.nodeName for pod in victims(without(snapshot, scenario.failed, PRIORITY))}
            assert {where[key] for key in scenario.preempted} <= {entry.node for entry in scenario.assignments}
    return preempting


@pytest.mark.parametrize("kind", ["resources", "anti"])
def test_a_few_preempt_as_brute_force_says(kind: str) -> None:
    for seed in range(2):
        check(seed, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_preempt_as_brute_force_says(kind: str) -> None:
    assert sum(check(seed, kind) for seed in range(25))


def test_the_fewest_are_preempted_and_only_below_the_priority() -> None:
    objects = [
        node("n0"), node("n1"),
        pod("vip", cpu="3", node_name="n0", owner="ReplicaSet/vip", priority=100),
        *(pod(f"small{i}", cpu="1", node_name="n1", owner="ReplicaSet/s", priority=0) for i in range(2)),
        pod("large", cpu="2", node_name="n1", owner="ReplicaSet/l", priority=1),
    ]  # fmt: skip
    result = survive(from_objects(objects), SurviveOptions(priority=100, preemption=True), OPTIONS)
    assert result.certified
    (scenario,) = [each for each in result.outcomes if each.displaced]
    assert len(scenario.preempted) == 2
    assert "default/large" in scenario.preempted
    assert not survive(from_objects(objects), SurviveOptions(priority=1, preemption=True), OPTIONS).certified


def test_pods_that_never_preempt_do_not() -> None:
    objects = [
        node("n0"), node("n1"), pod("small", cpu="3", node_name="n1", owner="ReplicaSet/s", priority=0),
        pod("vip", cpu="3", node_name="n0", owner="ReplicaSet/vip", priority=100, preemptionPolicy="Never"),
    ]  # fmt: skip
    result = survive(from_objects(objects), SurviveOptions(priority=100, preemption=True), OPTIONS)
    assert [(found.failed, found.least) for found in result.counterexamples] == [(["n0"], 1)]


def test_daemon_pods_are_not_preempted() -> None:
    objects = [
        node("n0"), node("n1"), pod("agent", cpu="3", node_name="n1", owner="DaemonSet/a", priority=0),
        pod("vip", cpu="3", node_name="n0", owner="ReplicaSet/vip", priority=100),
    ]  # fmt: skip
    assert not survive(from_objects(objects), SurviveOptions(priority=100, preemption=True), OPTIONS).certified
