"""The ways to fill a node, compared with all combinations of its pods."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.construction import full_patterns as module
from kubestow.solver.construction.full_patterns import Listing, Sizes, full_patterns, sizes_of
from kubestow.solver.rules.eligibility import possible
from tests.objects import Object, node, pod

UNLIMITED_PODS = 110


def compiled(objects: list[Object]) -> Cluster:
    snapshot = from_objects(objects)
    return compile_cluster(snapshot, select(snapshot), policy=Policy(strategy="none", hardPodAffinityWeight=0))


def measured(objects: list[Object]) -> Sizes:
    cluster = compiled(objects)
    return sizes_of(cluster, possible(cluster, rules.build(cluster)))


def drawn(seed: int, *, resources: int, spare: int) -> Sizes:
    """Pods of a few sizes, and nodes cut from them with the given spare capacity."""
    rng = random.Random(seed)
    demand = np.unique([[rng.randint(0, 6) for _ in range(resources)] for _ in range(rng.randint(1, 4))], axis=0)
    demand = demand[demand.any(axis=1)]
    if not len(demand):
        demand = np.ones((1, resources), dtype=np.int64)
    on = np.array([[rng.randint(0, 3) for _ in demand] for _ in range(rng.randint(1, 4))], dtype=np.int64)
    room = on @ demand + np.array([[rng.randint(0, spare) for _ in range(resources)] for _ in on])
    upper = np.minimum(on.sum(axis=0)[:, None], np.array([[rng.randint(0, 9) for _ in on] for _ in demand])) if seed % 3 else None
    count = on.sum(axis=0)
    return Sizes(demand, np.arange(len(demand)), room, np.repeat(count[:, None], len(on), axis=1) if upper is None else upper, count)


def test_tables_of_more_cells_than_64_bits_count_are_not_made() -> None:
    one = np.ones((1, 1), dtype=np.int64)
    sizes = Sizes(np.array([[1, 1]]), np.array([0]), np.array([[2**45, 2**18]]), one, one[0])
    assert full_patterns(sizes, np.array([UNLIMITED_PODS]), Listing(sizes.room[0], 10), np.random.default_rng(0)) is None


def listed(sizes: Sizes, slots: Ints | None = None, *, spare: Ints | None = None, limit: int = 100_000) -> list[Ints] | None:
    """What is listed; by default nodes may leave over what all of them waste."""
    room = np.full(len(sizes.room), UNLIMITED_PODS) if slots is None else slots
    return full_patterns(sizes, room, Listing(sizes.waste if spare is None else spare, limit), np.random.default_rng(0))


def every(sizes: Sizes, n: int, slots: int) -> set[tuple[int, ...]]:
    """The patterns of a node by trying all combinations."""
    result = set()
    for pattern in itertools.product(*(range(min(int(m), int(c)) + 1) for m, c in zip(sizes.upper[:, n], sizes.count, strict=True))):
        residual = sizes.room[n] - np.array(pattern) @ sizes.demand
        if (residual >= 0).all() and (residual <= sizes.waste).all() and sum(pattern) <= slots:
            result.add(pattern)
    return result


@pytest.mark.parametrize("resources", [1, 2, 3])
@pytest.mark.parametrize("spare", [0, 1])
def test_all_patterns_are_listed_and_no_others(resources: int, spare: int) -> None:
    total = 0
    for seed in range(60):
        sizes = drawn(seed, resources=resources, spare=spare)
        slots = np.full(len(sizes.room), 4 if seed % 5 == 0 else UNLIMITED_PODS)
        result = listed(sizes, slots)
        assert result is not None
        for n, patterns in enumerate(result):
            assert len({tuple(p) for p in patterns.tolist()}) == len(patterns)
            assert {tuple(p) for p in patterns.tolist()} == every(sizes, n, int(slots[n]))
            total += len(patterns)
    assert total > 100


def test_sizes_are_in_whole_units_and_large_ones_first() -> None:
    objects = [node("n", cpu="3", memory="4Gi"), pod("a", cpu="500m", memory="512Mi"), pod("b", cpu="2", memory="3Gi")]
    objects += [pod("c", cpu="500m", memory="512Mi", labels={"app": "c"})]
    sizes = measured(objects)
    assert sizes.demand.tolist() == [[4, 6], [1, 1]]
    assert sizes.room.tolist() == [[6, 8]]
    assert sizes.count.tolist() == [1, 2]
    assert sizes.waste.tolist() == [0, 0]


def test_pods_that_ask_for_nothing_have_no_size() -> None:
    idle = pod("idle")
    del idle["spec"]["containers"][0]["resources"]
    sizes = measured([node("n", cpu="1", memory="1Gi"), pod("a", cpu="1", memory="1Gi"), idle])
    assert sizes.count.tolist() == [1]
    assert sorted(sizes.of.tolist()) == [-1, 0]


def test_nodes_that_take_nobody_waste_nothing() -> None:
    objects = [node("n", cpu="1", memory="1Gi"), node("off", cpu="9", unschedulable=True), pod("a", cpu="1", memory="1Gi")]
    assert measured(objects).waste.tolist() == [0, 0]


def many() -> Sizes:
    """Two nodes of 12 units, and pods of 3, 2 and 1 unit that take all units but one."""
    count = np.array([3, 4, 6], dtype=np.int64)
    return Sizes(np.array([[3], [2], [1]]), np.arange(3), np.array([[12], [12]]), np.repeat(count[:, None], 2, axis=1), count)


def test_of_many_patterns_some_are_listed() -> None:
    whole, some = listed(many()), listed(many(), limit=5)
    assert whole is not None
    assert some is not None
    assert len(whole[0]) > 5 >= len(some[0]) > 0
    assert {tuple(p) for p in some[0].tolist()} <= {tuple(p) for p in whole[0].tolist()}


def test_less_may_be_left_over_than_all_nodes_waste() -> None:
    sizes = many()
    result = listed(sizes, spare=np.zeros_like(sizes.waste))
    assert result is not None
    assert all((patterns @ sizes.demand == sizes.room[0]).all() for patterns in result)


def test_sums_that_are_too_large_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TABLE_CELLS", 10)
    assert listed(many()) is None


def test_too_many_sizes_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SIZES", 2)
    assert listed(many()) is None


def test_no_time_no_patterns() -> None:
    sizes = many()
    assert full_patterns(sizes, np.full(2, UNLIMITED_PODS), Listing(sizes.waste, 100, lambda: True), np.random.default_rng(0)) is None
