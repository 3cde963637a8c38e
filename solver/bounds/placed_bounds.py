"""Upper bounds for the placed tiers at every size, from a relaxation over pod classes and groups of nodes.

The bound of a tier p is on the pods of priority p over all placements that place at least ``placed[q]`` pods of every higher priority q.
That is what solver.search.exact's bounds mean: it holds the higher tiers at no less than their incumbents, too. If the higher tiers are
at their
optimum, it bounds the lexicographic optimum; if they are not, it is still true of every placement that is no worse in them, so that value
and bound of the first tier that is not proved bracket that tier's optimum, and what is said of the tiers below refers to these values.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.solver.bounds.aggregation import Kinds, Rules, groupings, kinds
from kubestow.solver.bounds.linear_relaxation import Relaxation, relax
from kubestow.solver.bounds.safe_dual_bounds import best_bound
from kubestow.solver.devices.supply import supply
from kubestow.solver.rules.eligibility import fits

#: A grouping of nodes is tried if it has at most this many (kind, group) pairs: more would take minutes and gigabytes for the last pod
#: in a thousand.
PAIRS = 200_000
#: A finer grouping is worth its own solve if it has so many times the pairs of the one before.
FINER = 4


def placed_bounds(
    cluster: Cluster,
    limits: Ints,
    placed: dict[int, int],
    *,
    seconds: float | None,
    deterministic: bool,
    stop: threading.Event | None = None,
) -> dict[int, int]:
    """Return per priority: pods that no placement exceeds among those with at least ``placed[q]`` pods of every higher priority q.

    ``limits``: int64[G, N], see :func:`kubestow.solver.rules.eligibility.possible`. ``placed``: the incumbent's pods. ``seconds`` (None: no
    limit): of
    the clock, or their nominal worth in iterations where ``deterministic``. The bounds are proved in integers, whatever the solver's
    rounding and wherever it was stopped: see :mod:`kubestow.solver.bounds.safe_dual_bounds`. None of them is above the sum of
    :func:`kubestow.solver.rules.eligibility.fits`.
    """
    started = time.monotonic()
    bounds = cluster.per_priority(fits(cluster, limits))
    open_tiers = [p for p in sorted(bounds, reverse=True) if bounds[p] > placed.get(p, 0)]
    if not open_tiers:
        return bounds
    cluster = _with_devices(cluster)
    rules = Rules(cluster)
    classes = kinds(cluster, limits, rules)
    stages = _stages(cluster, classes, rules)
    for i, groups in enumerate(stages):
        program = relax(cluster, classes, rules, groups, {p: placed.get(p, 0) for p in bounds})
        for j, p in enumerate(open_tiers):
            if bounds[p] <= placed.get(p, 0):
                continue
            share = None
            if seconds is not None:
                left = seconds if deterministic else seconds - (time.monotonic() - started)
                # A deterministic run cannot know what the others left over.
                share = left / (len(stages) * len(open_tiers) if deterministic else (len(stages) - i) * (len(open_tiers) - j))
                if share <= 0:
                    return bounds
            bounds[p] = min(bounds[p], _tier(program, p, share, deterministic, stop))
            if stop is not None and stop.is_set():
                return bounds
    return bounds


def _with_devices(cluster: Cluster) -> Cluster:
    """Return the cluster with the amounts of devices that pods take as further resources."""
    demand, free = supply(cluster)
    if not demand.shape[1]:
        return cluster
    return replace(cluster, demand=np.hstack([cluster.demand, demand]), free=np.hstack([cluster.free, free]))


def _stages(cluster: Cluster, classes: Kinds, rules: Rules) -> list[Ids]:
    """Groupings of the nodes, coarse ones first: they are solved in moments, and often say the same as the finest."""
    found = [(int(groups.max(initial=-1) + 1) * len(classes.total), groups) for groups in groupings(cluster, classes, rules)]
    small = [f for f in found if f[0] <= PAIRS] or found[-1:]
    stages = small[:1]
    for pairs, groups in small[1:]:
        if pairs * FINER <= stages[-1][0]:
            stages.append((pairs, groups))
    return [groups for _, groups in reversed(stages)]


def _tier(relaxation: Relaxation, p: int, seconds: float | None, deterministic: bool, stop: threading.Event | None) -> int:
    """The bound of one tier: lower tiers count for what they lend to spread constraints only, higher ones are held."""
    program, columns = relaxation.program.only((relaxation.priority >= p) | relaxation.always)
    limit = program.limit.copy()
    for q, row in relaxation.held.items():
        if q <= p:
            limit[row] = 0  # Σ -x ≤ 0 says nothing
    program.limit = limit
    objective = (relaxation.priority[columns] == p).astype(np.int64)
    return best_bound(program, objective, seconds=seconds, deterministic=deterministic, stop=stop)
