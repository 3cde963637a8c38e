"""Pods that the rules allow together and that no order binds: proved, with the cause."""

from __future__ import annotations

import itertools
import random

import pytest

from kubestow.checker.placement import Judge
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import Multipliers, Policy
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.devices import asks, claim, device, device_class, either, published, snapshot, using
from tests.objects import Object, node

PLAIN = Policy(multipliers=Multipliers(0, 0, 0, 0, 0, 0), strategy="none")


def card(of: str, cards: int = 1) -> list[Object]:
    """A node whose cards are given as a whole or in two halves."""
    counters = {"counterSet": "", "counters": {"memory": {"value": "2Gi"}}}
    listed, sets = [], []
    for i in range(cards):
        sets.append({"name": f"card{i}", "counters": {"memory": {"value": "2Gi"}}})
        for name, kind, memory in ((f"card{i}", "whole", "2Gi"), (f"card{i}-a", "half", "1Gi"), (f"card{i}-b", "half", "1Gi")):
            uses = counters | {"counterSet": f"card{i}", "counters": {"memory": {"value": memory}}}
            listed.append(device(name, a={"type": kind}, consumesCounters=[uses]))
    return [
        node(of, labels={"kubernetes.io/hostname": of}),
        published(f"{of}-counters", of=of, slices=2, sharedCounters=sets),
        published(f"{of}-devices", listed, of=of, slices=2),
    ]


CLASSES = [device_class(f"gpu-{kind}", f'device.attributes["gpu.example.com"].type == "{kind}"') for kind in ("whole", "half")]


def gang(*kinds: tuple[str, ...], named: bool = True) -> list[Object]:
    """A gang whose pods ask for the first of these kinds of devices that is free; each has a claim of its own, ``named`` or made of
    a template."""
    found: list[Object] = []
    for i, ways in enumerate(kinds):
        request = either("gpu", *({"name": kind, **asks(of=f"gpu-{kind}")} for kind in ways))
        found.append(claim(f"c{i}", request, owner="" if named else f"p{i}"))
        member = using(f"p{i}", f"c{i}") if named else using(f"p{i}", made=(f"c{i}",))
        member["metadata"].setdefault("annotations", {})["kubestow.dev/gang"] = "g"
        found.append(member)
    return found


def solved(given: Snapshot, *, causes: bool = True) -> Placement:
    return place(given, Options(engine="exact", workers=1, time_limit=30, policy=PLAIN, causes=causes))


@pytest.mark.parametrize("named", [True, False])
def test_a_gang_that_first_fit_leaves_no_room_for_is_impossible_with_a_cause(named: bool) -> None:
    """Two halves would do, but the first pod to arrive gets the whole card."""
    found = solved(snapshot(*CLASSES, *card("n1"), *gang(("whole", "half"), ("whole", "half"), named=named)))
    assert found.status == "infeasible"
    assert [(tier.value, tier.bound) for tier in found.objective] == [(0, 0)]
    [cause] = found.causes
    assert cause.pods == ["default/p0", "default/p1"]
    assert cause.alone
    [fact] = cause.facts
    assert fact.rule == "DynamicResources"
    assert "at most 1 of 2 pods can be bound in any order, and 2 are needed" in fact.message
    assert "cannot be placed: 1 gpu-whole asked for: 0 of 1 free on n1; a claim gets the first of its free alternatives" in fact.message
    assert {way.change for way in cause.waysOut} >= {"addNodes"}


def test_a_gang_whose_alternatives_are_listed_the_other_way_round_is_placed() -> None:
    found = solved(snapshot(*CLASSES, *card("n1"), *gang(("half", "whole"), ("half", "whole"))))
    assert len(found.assignments) == 2
    assert not found.causes


def bindable(given: Snapshot) -> bool:
    """Return whether the checker accepts the waiting pods on some nodes in some order, one by one."""
    pods = [given.pods[i] for i in select(given).pending]
    names = [each.metadata.name or "" for each in given.nodes]
    for order in itertools.permutations(pods):
        for where in itertools.product(names, repeat=len(pods)):
            judge = Judge(given, pods)
            if not any(judge.bind([(pod, name)])[0] for pod, name in zip(order, where, strict=True)):
                return True
    return False


def drawn(seed: int) -> Snapshot:
    rng = random.Random(f"gangs-of-devices-{seed}")
    nodes = [each for i in range(rng.choice((1, 1, 2))) for each in card(f"n{i}", rng.choice((1, 1, 2)))]
    ways = (("whole", "half"), ("whole", "half"), ("half", "whole"), ("whole",), ("half",))
    return snapshot(*CLASSES, *nodes, *gang(*(rng.choice(ways) for _ in range(rng.choice((2, 2, 3)))), named=rng.random() < 0.5))


def compare(seed: int) -> bool:
    given = drawn(seed)
    found = solved(given, causes=seed % 3 == 0)
    assert [(tier.value == tier.bound) for tier in found.objective] == [True], f"seed {seed}"
    assert bool(found.assignments) == bindable(given), f"seed {seed}"
    assert bool(found.causes) == (not found.assignments and seed % 3 == 0), f"seed {seed}"
    return bool(found.assignments)


def test_a_few_gangs_with_alternatives_are_placed_as_brute_force_says() -> None:
    assert 0 < sum(compare(seed) for seed in range(4)) < 4


@pytest.mark.full
def test_gangs_with_alternatives_are_placed_as_brute_force_says() -> None:
    assert sum(compare(seed) for seed in range(4, 60)) > 10
