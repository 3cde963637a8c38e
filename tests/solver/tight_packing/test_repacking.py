"""Repacking: packs pods that are known to fit, respects capacities, and gives up if there is no packing."""

from __future__ import annotations

import numpy as np
import pytest

from kubestow.solver.tight_packing.demands import PackingDemands
from kubestow.solver.tight_packing.repacking import Repacking
from tests.solver.tight_packing.tiny_rooms import fits, problem, reachable
from tests.solver.time_slices import checks
from tests.tiers import sampled


def planted(seed: int, nodes: int, each: int, spare: float) -> PackingDemands:
    """Pods with a known complete placement, on nodes of equal size with the given spare capacity."""
    rng = np.random.default_rng(seed)
    demand = rng.integers(100, 1000, (nodes * each, 2))
    load = demand.reshape(nodes, each, 2).sum(axis=1)
    room = np.full((nodes, 2), 0) + np.ceil(load.mean(axis=0) * (1 + spare)).astype(np.int64)
    size = len(demand)
    ones = np.ones(size, dtype=np.int64)
    return PackingDemands(np.arange(size), ones, demand, 0 * ones, room, np.ones((size, nodes), dtype=bool))


@pytest.mark.parametrize(("nodes", "each", "spare"), [(8, 8, 0.005), (16, 8, 0.01), (8, 5, 0.04), (4, 20, 0.002)])
def test_packs_with_hardly_any_room_to_spare(nodes: int, each: int, spare: float) -> None:
    demands = planted(1, nodes, each, spare)
    repacking = Repacking(demands, demands.count, seed=0)
    assert repacking.worst() < 0
    assert repacking.run(checks(2_000))
    counts = repacking.counts()
    assert fits(demands, counts)
    assert counts.sum() == demands.count.sum()


@pytest.mark.parametrize("seed", sampled(range(120), every=20, full=4))
def test_never_claims_what_brute_force_cannot_do(seed: int) -> None:
    demands = problem(seed)
    if not demands.allowed.any(axis=1).all():
        return
    repacking = Repacking(demands, demands.count, seed=seed)
    done = repacking.run(checks(60))
    real = tuple(demands.count.tolist()) in reachable(demands)
    assert done <= real
    if done:
        assert fits(demands, repacking.counts())


def test_the_same_seed_gives_the_same_packing() -> None:
    demands = planted(3, 8, 6, 0.02)
    first, second = (Repacking(demands, demands.count, seed=5) for _ in range(2))
    for repacking in (first, second):
        repacking.run(checks(100))
    assert (first.node == second.node).all()


def test_pods_stay_where_they_may_be() -> None:
    demands = planted(4, 6, 6, 0.1)
    demands.allowed[:18, 3:] = False
    demands.allowed[18:, :3] = False
    repacking = Repacking(demands, demands.count, seed=0)
    repacking.run(checks(200))
    assert not repacking.counts()[~demands.allowed].any()
