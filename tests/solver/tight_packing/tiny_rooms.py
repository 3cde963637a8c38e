"""Random packing problems that brute force can solve: nodes of different kinds, several resources, priorities, and pods that may not be
everywhere."""

from __future__ import annotations

import itertools

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.tight_packing.demands import PackingDemands


def problem(seed: int, *, classes: int = 4, nodes: int = 3) -> PackingDemands:
    """Up to ``classes`` classes of one to three pods, on nodes with about the capacity that the classes request."""
    rng = np.random.default_rng(seed)
    k, n, resources = int(rng.integers(1, classes + 1)), int(rng.integers(1, nodes + 1)), int(rng.integers(1, 4))
    demand = rng.integers(0, 8, (k, resources)) * rng.choice((1, 1, 7, 1000), resources)
    demand[:, -1] = 1  # pod slots
    count = rng.integers(1, 4, k)
    share = demand.T @ count / n
    room = np.floor(share * rng.choice((0.7, 0.9, 1.0, 1.2), (n, 1))).astype(np.int64) + rng.integers(0, 2, (n, resources))
    if rng.random() < 0.5:
        room[:] = room[0]
    allowed = rng.random((k, n)) < (0.8 if rng.random() < 0.5 else 1.0)
    allowed &= (demand[:, None, :] <= room).all(axis=2)
    return PackingDemands(np.arange(k), count, demand, rng.choice((0, 10), k), room, allowed)


def fits(demands: PackingDemands, counts: Ints) -> bool:
    """Return whether int64[K, N] respects capacities, counts and eligible nodes."""
    load = counts.T @ demands.demand
    return bool((load <= demands.room).all() and (counts.sum(axis=1) <= demands.count).all() and not counts[~demands.allowed].any())


def reachable(demands: PackingDemands) -> set[tuple[int, ...]]:
    """Every vector of placed pods per class."""
    found = {(tuple([0] * len(demands.count)), tuple(map(tuple, demands.room.tolist())))}
    for k in range(len(demands.count)):
        following = set()
        for placed, room in found:
            for pods in itertools.product(range(int(demands.count[k]) + 1), repeat=len(room)):
                if sum(pods) > demands.count[k] or any(p and not a for p, a in zip(pods, demands.allowed[k], strict=True)):
                    continue
                residual = np.array(room) - np.array(pods)[:, None] * demands.demand[k]
                if (residual >= 0).all():
                    following.add(((*placed[:k], sum(pods), *placed[k + 1 :]), tuple(map(tuple, residual.tolist()))))
        found = following
    return {placed for placed, _ in found}


def max_placed(demands: PackingDemands) -> dict[int, int]:
    """The lexicographic optimum: pods per priority."""
    tiers = sorted(set(demands.priority.tolist()), reverse=True)
    values = [
        tuple(sum(v for v, q in zip(placed, demands.priority, strict=True) if q == p) for p in tiers) for placed in reachable(demands)
    ]
    return dict(zip(tiers, max(values), strict=True))


def context(seconds: float = 5.0) -> RunContext:
    return RunContext.start(Options(time_limit=seconds, workers=1))
