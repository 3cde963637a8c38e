"""Upper bounds on the placed tiers for instances of any size, from a relaxation over pod classes and groups of nodes.

The bound of tier p holds for every placement with at least ``placed[q]`` pods of every higher priority q. See
docs/bounds.md (Composition)."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.solver.bounds.aggregation import CrossRules, PodKinds, groupings, kinds
from kubestow.solver.bounds.linear_relaxation import Relaxation, relax
from kubestow.solver.bounds.safe_dual_bounds import best_bound
from kubestow.solver.devices.supply import supply
from kubestow.solver.rules.eligibility import fits

#: (kind, group) pairs. Finer groupings of nodes are skipped: they take minutes and gigabytes to tighten the bound by 0.1 %.
MAX_PAIRS = 200_000
#: A finer grouping is solved only if it has at least this many times the pairs of the previous one.
MIN_REFINEMENT_RATIO = 4


def placed_bounds(
    cluster: Cluster,
    eligibility: Ints,
    placed: dict[int, int],
    *,
    seconds: float | None,
    deterministic: bool,
    stop: threading.Event | None = None,
) -> dict[int, int]:
    """Return, per priority, the upper bound on placed pods if every higher priority q keeps at least ``placed[q]`` pods.

    The bounds are exact in integers, regardless of rounding in the solver and of when it stops: see
    :mod:`kubestow.solver.bounds.safe_dual_bounds`. None exceeds the sum of
    :func:`kubestow.solver.rules.eligibility.fits`.

    Args:
        eligibility: Pod eligibility of pairs, int64[G, N], from :func:`kubestow.solver.rules.eligibility.possible`.
        placed: Pods of the incumbent, by priority.
        seconds: Time limit. None means no limit.
        deterministic: Convert ``seconds`` to a fixed number of iterations.
        stop: Event that ends the computation early.
    """
    started = time.monotonic()
    bounds = cluster.per_priority(fits(cluster, eligibility))
    open_tiers = [p for p in sorted(bounds, reverse=True) if bounds[p] > placed.get(p, 0)]
    if not open_tiers:
        return bounds
    cluster = _with_devices(cluster)
    rules = CrossRules(cluster)
    classes = kinds(cluster, eligibility, rules)
    stages = _stages(cluster, classes, rules)
    for i, groups in enumerate(stages):
        program = relax(cluster, classes, rules, groups, {p: placed.get(p, 0) for p in bounds})
        for j, p in enumerate(open_tiers):
            if bounds[p] <= placed.get(p, 0):
                continue
            share = None
            if seconds is not None:
                remaining_seconds = seconds if deterministic else seconds - (time.monotonic() - started)
                # A deterministic run cannot know what the others left over.
                share = remaining_seconds / (len(stages) * len(open_tiers) if deterministic else (len(stages) - i) * (len(open_tiers) - j))
                if share <= 0:
                    return bounds
            bounds[p] = min(bounds[p], _tier(program, p, share, deterministic, stop))
            if stop is not None and stop.is_set():
                return bounds
    return bounds


def _with_devices(cluster: Cluster) -> Cluster:
    """Return the cluster with the device amounts that pods take added as resources."""
    demand, free = supply(cluster)
    if not demand.shape[1]:
        return cluster
    return replace(cluster, demand=np.hstack([cluster.demand, demand]), free=np.hstack([cluster.free, free]))


def _stages(cluster: Cluster, classes: PodKinds, rules: CrossRules) -> list[Ids]:
    """Return groupings of the nodes, coarse to fine. Coarse ones are solved quickly and often give the bound of the finest."""
    sized = [(int(groups.max(initial=-1) + 1) * len(classes.total), groups) for groups in groupings(cluster, classes, rules)]
    small = [f for f in sized if f[0] <= MAX_PAIRS] or sized[-1:]
    stages = small[:1]
    for pairs, groups in small[1:]:
        if pairs * MIN_REFINEMENT_RATIO <= stages[-1][0]:
            stages.append((pairs, groups))
    return [groups for _, groups in reversed(stages)]


def _tier(relaxation: Relaxation, p: int, seconds: float | None, deterministic: bool, stop: threading.Event | None) -> int:
    """Return the bound of one tier. Higher tiers are held; of lower tiers, only pods that spread constraints count matter."""
    program, columns = relaxation.program.only((relaxation.priority >= p) | relaxation.always)
    limit = program.limit.copy()
    for q, row in relaxation.tier_rows.items():
        if q <= p:
            limit[row] = 0  # makes the row Σ -x ≤ 0, which always holds
    program.limit = limit
    objective = (relaxation.priority[columns] == p).astype(np.int64)
    return best_bound(program, objective, seconds=seconds, deterministic=deterministic, stop=stop)
