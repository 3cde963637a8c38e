"""New places of evicted pods: all possible continuations, or a sample, in the order of kube-scheduler's queue."""

from __future__ import annotations

import random

import pytest

from kubestow.audit.descheduler import continuations
from kubestow.audit.descheduler.continuations import Scheduler
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node, pod
from tests.tiers import sampled


def scheduler(things: list[Object], homes: dict[int, int]) -> Scheduler:
    return Scheduler(from_objects(things), homes, DEFAULT, (), lambda: False)


def tiny(seed: int) -> tuple[list[Object], dict[int, int]]:
    """Make three nodes with a few pods, some evicted, some with affinity or anti-affinity."""
    dice = random.Random(seed)
    nodes = [node(f"n{k}", cpu=dice.choice(["1", "2"])) for k in range(3)]
    kinds = {
        "apart": {"podAntiAffinity": dice.choice(["apart", "any"])},
        "near": {"podAffinity": "any"},
        "any": {},
    }
    pods, homes = [], {}
    for k in range(dice.randint(3, 6)):
        kind = dice.choice(list(kinds))
        affinity = {
            part: {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"kind": other}}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
            for part, other in kinds[kind].items()
        }
        at, cpu, priority = dice.randrange(3), dice.choice(["300m", "600m"]), dice.choice([0, 5])
        labels = {"kind": kind}
        pods.append(pod(f"p{k}", node_name=f"n{at}", cpu=cpu, owner="ReplicaSet/r", labels=labels, affinity=affinity, priority=priority))
        if dice.random() < 0.7:
            homes[k] = at
    return [*nodes, *pods], homes


@pytest.mark.parametrize("seed", sampled(range(64), every=8, full=4))
def test_ways_that_are_drawn_are_among_all_there_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    things, homes = tiny(seed)
    every = scheduler(things, homes).continuations()
    assert every.exhaustive
    monkeypatch.setattr(continuations, "MAX_EXHAUSTIVE_QUEUE_PODS", -1)
    some = scheduler(things, homes).continuations()
    assert not some.exhaustive
    assert all(end in every.ends for end in some.ends)
    assert all(set(end) == set(homes) for end in every.ends)


def test_who_is_more_important_comes_first_and_those_that_wait_take_part() -> None:
    # One place for three: the waiting pod is the most important.
    things = [node("n1", cpu="1"), pod("low", cpu="1", node_name="n1", owner="ReplicaSet/r", priority=1)]
    things += [pod("waits", cpu="1", priority=9, owner="ReplicaSet/r")]
    found = scheduler(things, {0: 0}).continuations()
    assert found.ends == [{1: 0, 0: -1}]


def test_a_pod_that_finds_no_node_tries_again_when_another_has_one() -> None:
    near = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "b"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    things = [node("n1"), pod("a", node_name="n1", owner="ReplicaSet/a", affinity=near, priority=9)]
    things += [pod("b", node_name="n1", owner="ReplicaSet/b", labels={"app": "b"})]
    assert scheduler(things, {0: 0, 1: 0}).continuations().ends == [{0: 0, 1: 0}]


def test_many_ways_are_not_all_looked_at() -> None:
    things = [node(f"n{k}") for k in range(12)] + [pod(f"p{k}", node_name="n0", owner="ReplicaSet/r") for k in range(6)]
    found = scheduler(things, dict.fromkeys(range(6), 0)).continuations()
    assert not found.exhaustive
    assert 2 <= len(found.ends) <= 12
    again = scheduler(things, dict.fromkeys(range(6), 0)).continuations()
    assert found == again
