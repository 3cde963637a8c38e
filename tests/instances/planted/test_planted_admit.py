"""Planted instances of admission: nothing fits before, the planted moves are accepted one by one, and fewer do not suffice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubestow.checker.placement import Judge, rejecting_rules
from kubestow.models.gangs.gangs import find
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.instances.planted.planted_admit import MOST, SHAPES, Admit, planted_admit

pytestmark = pytest.mark.full

Object = dict[str, Any]
SEEDS = range(24)


def after(instance: Admit, moves: list[tuple[str, str | None]]) -> Snapshot:
    """The snapshot with pods (by key) on other nodes; None: gone."""
    where = dict(moves)
    found = []
    for item in instance.objects:
        key = f"{item['metadata'].get('namespace')}/{item['metadata']['name']}"
        if item["kind"] == "Pod" and key in where:
            if where[key] is None:
                continue
            item = {**item, "spec": {**item["spec"], "nodeName": where[key]}}
        found.append(item)
    return from_objects(found)


def opened(snapshot: Snapshot, pod: str) -> set[str]:
    """The nodes that take a waiting pod now."""
    waiting = next(p for p in snapshot.pods if pod_key(p) == pod)
    judge = Judge(snapshot, [waiting])
    return {name for name in judge.nodes if not judge.faults(waiting, name)}


def movable(instance: Admit) -> Iterator[tuple[str, str]]:
    """Running pods that may move, and their nodes."""
    for item in instance.objects:
        if item["kind"] == "Pod" and "nodeName" in item["spec"] and "annotations" not in item["metadata"]:
            yield f"{item['metadata']['namespace']}/{item['metadata']['name']}", item["spec"]["nodeName"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_planted_moves_are_accepted_and_let_all_be_placed(seed: int) -> None:
    instance = planted_admit(seed)
    assert len(instance.moves) == instance.k
    assert 4 <= sum(item["kind"] == "Node" for item in instance.objects) <= 30
    start = after(instance, [])
    assert start.warnings == []
    assert start.ignored == {}
    assert not any(opened(start, pod) for pod in instance.waiting)
    free = {pod for pod, _ in movable(instance)}
    done: list[tuple[str, str | None]] = []
    for pod, source, target in instance.moves:
        now = after(instance, done)
        moving = next(p for p in now.pods if pod_key(p) == pod)
        assert pod in free
        assert moving.spec.nodeName == source
        assert rejecting_rules(now, moving, target) == []
        done.append((pod, target))
    end = after(instance, done)
    waiting = [p for p in end.pods if pod_key(p) in instance.placement]
    faults = Judge(end, waiting).bind([(p, instance.placement[pod_key(p)]) for p in waiting])
    assert faults == [[] for _ in waiting]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_waits_is_read_as_the_gang_that_it_is(seed: int) -> None:
    instance = planted_admit(seed)
    snapshot = after(instance, [])
    names = [gang.name for gang in find(snapshot, select(snapshot)) if len(gang.pods) == gang.needed == len(instance.waiting)]
    assert len(instance.waiting) == 1 or instance.gang is not None
    assert names == [instance.gang] or (len(instance.waiting) == 1 and names == [])


@pytest.mark.parametrize("seed", [s for s in SEEDS if SHAPES[s % len(SHAPES)] != "chain"])
def test_fewer_moves_open_too_few_nodes(seed: int) -> None:
    """A node takes a waiting pod only when b of its pods have left it, regardless of other moves; the cheapest choice of nodes costs k."""
    instance = planted_admit(seed)
    on: dict[str, list[str]] = {}
    for pod, name in movable(instance):
        on.setdefault(name, []).append(pod)
    zones = {
        item["metadata"]["name"]: item["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for item in instance.objects
        if item["kind"] == "Node"
    }
    prices: dict[str, list[int]] = {}
    first = instance.waiting[0]
    for name, pods in on.items():
        if not name.startswith("pool"):
            assert name not in opened(after(instance, [(pod, None) for pod in pods]), first)
            continue
        price = next(
            k
            for k in range(1, len(pods) + 1)
            if any(name in opened(after(instance, [(p, None) for p in some]), first) for some in _choices(pods, k))
        )
        prices.setdefault(zones[name] if instance.shape == "zone" else "", []).append(price)
        everybody_gone: list[tuple[str, str | None]] = [(pod, None) for pod in pods]
        if len(instance.waiting) > 1:  # a second one never fits there
            alone = after(instance, [*everybody_gone, (first, name)])
            assert name not in opened(alone, instance.waiting[1])
    need = len(instance.waiting)
    costs = [sum(sorted(some)[:need]) for some in prices.values() if len(some) >= need]
    assert min(costs) == instance.k


def _choices(pods: list[str], k: int) -> Iterator[tuple[str, ...]]:
    """Blockers are alike: any k of them are as good as the first, but for a second choice that checks it."""
    yield tuple(pods[:k])
    yield tuple(pods[-k:])


@pytest.mark.parametrize("seed", range(3, 40, 4))
def test_a_chain_moves_from_its_end(seed: int) -> None:
    """Breadth first over all accepted moves: the first state in which enough nodes are open is k moves away."""
    instance = planted_admit(seed, nodes=4)
    assert instance.shape == "chain"
    homes = dict(movable(instance))
    names = [item["metadata"]["name"] for item in instance.objects if item["kind"] == "Node"]
    level: set[tuple[tuple[str, str], ...]] = {tuple(sorted(homes.items()))}
    seen = set(level)
    for depth in range(MOST + 1):
        found = [len(opened(after(instance, list(state)), instance.waiting[0])) >= len(instance.waiting) for state in level]
        if any(found):
            assert depth == instance.k
            return
        following = set()
        for state in level:
            now = after(instance, list(state))
            for pod, at in state:
                moving = next(p for p in now.pods if pod_key(p) == pod)
                for name in names:
                    if name != at and rejecting_rules(now, moving, name) == []:
                        following.add(tuple(sorted({**dict(state), pod: name}.items())))
        level = following - seen
        seen |= level
    raise AssertionError("the chain never opens")


def test_arguments_are_honoured_and_seeds_differ() -> None:
    for shape, k in [(shape, k) for shape in SHAPES for k in range(1, MOST + 1)]:
        instance = planted_admit(1, k=k, shape=shape, nodes=12)
        assert (instance.k, instance.shape) == (k, shape)
        assert instance.objects == planted_admit(1, k=k, shape=shape, nodes=12).objects
        assert instance.objects != planted_admit(2, k=k, shape=shape, nodes=12).objects
    sizes = {planted_admit(seed).k for seed in range(60)}
    assert sizes == set(range(1, MOST + 1))
