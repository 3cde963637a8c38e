"""Nodes filled one after the other: all pods where next to nothing may be left over, and never too many."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kubestow.solver.tight_packing.demands import PackingDemands
from kubestow.solver.tight_packing.node_filling import NodeFilling
from tests.solver.tight_packing.tiny_rooms import fits, problem, reachable
from tests.tiers import sampled


def equal(seed: int, nodes: int, each: int, *, limited: bool = False) -> PackingDemands:
    """Nodes of one size that together have room for all pods, in two resources, and less than one unit a node more; ``limited``: a third
    of the pods may not be on the nodes of one of two kinds."""
    rng = np.random.default_rng(seed)
    size = nodes * each
    demand = np.column_stack([rng.integers(100, 1001, (size, 2)), np.ones(size, dtype=np.int64)])
    room = np.tile(-(-demand.sum(axis=0) // nodes), (nodes, 1))
    room[:, 2] = 110
    allowed = np.ones((size, nodes), dtype=bool)
    if limited:
        allowed[np.ix_(rng.random(size) < 0.3, np.arange(nodes) % 2 == 0)] = False
    ones = np.ones(size, dtype=np.int64)
    return PackingDemands(np.arange(size), ones, demand, 0 * ones, room, allowed)


def steps(limit: int) -> Callable[[], bool]:
    remaining = iter(range(limit))
    return lambda: next(remaining, None) is None


@pytest.mark.parametrize(
    ("nodes", "each", "limited"),
    [(24, 8, False), (12, 12, False), (8, 30, False), (24, 10, True), pytest.param(64, 30, False, marks=pytest.mark.full)],
)
def test_fills_nodes_to_the_last_unit(nodes: int, each: int, limited: bool) -> None:
    demands = equal(1, nodes, each, limited=limited)
    filling = NodeFilling(demands, demands.count, seed=0)
    assert filling.promising
    assert (filling.spare[:2] < nodes).all()
    assert filling.run(steps(40_000))
    counts = filling.counts()
    assert fits(demands, counts)
    assert counts.sum() == demands.count.sum()


@pytest.mark.parametrize("seed", range(6))
def test_the_pods_that_few_nodes_begin_with_are_drawn_again(seed: int) -> None:
    """Ten times as many pods as nodes: most are on nodes before the others are dealt out, and often the wrong ones."""
    demands = equal(seed, 3, 30)
    filling = NodeFilling(demands, demands.count, seed=0)
    assert filling.run(steps(40_000))
    assert fits(demands, filling.counts())
    assert filling.counts().sum() == demands.count.sum()


@pytest.mark.parametrize("seed", sampled(range(200), every=20, full=4))
def test_never_claims_what_brute_force_cannot_do(seed: int) -> None:
    demands = problem(seed)
    filling = NodeFilling(demands, demands.count, seed=seed)
    done = filling.run(steps(200))
    assert done == (tuple(demands.count.tolist()) in reachable(demands))  # so few nodes are the last ones
    if done:
        assert fits(demands, filling.counts())
        assert (filling.counts().sum(axis=1) == demands.count).all()


def test_gives_up_where_no_node_can_be_filled() -> None:
    """Bytes: among that many sums none is met."""
    demands = equal(2, 16, 8)
    demands.demand[:, 1] = np.random.default_rng(0).integers(10**8, 10**9, len(demands.demand))
    demands.room[:, 1] = -(-demands.demand[:, 1].sum() // 16)
    over = steps(1_000)
    filling = NodeFilling(demands, demands.count, seed=0)
    assert not filling.run(over)
    assert not over()  # long before


def test_room_for_more_is_not_its_matter() -> None:
    demands = equal(3, 16, 8)
    demands.room[:, :2] += 100
    assert not NodeFilling(demands, demands.count, seed=0).promising
    demands.room[:, 0] = 1
    assert not NodeFilling(demands, demands.count, seed=0).promising


def test_the_same_seed_gives_the_same_packing() -> None:
    demands = equal(4, 10, 12)
    first, second = (NodeFilling(demands, demands.count, seed=5) for _ in range(2))
    for filling in (first, second):
        assert filling.run(steps(40_000))
    assert (first.counts() == second.counts()).all()
