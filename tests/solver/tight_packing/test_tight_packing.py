"""Bounds hold for every placement that the rules allow, and packings have the pods that were asked for."""

from __future__ import annotations

import numpy as np
import pytest

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.scope import select
from kubestow.solver import rules
from kubestow.solver.bind_order.order import find_order
from kubestow.solver.rules.eligibility import fits, possible
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from kubestow.solver.tight_packing.tight_packing import TightPacking
from tests import tiny
from tests.benchmarks.bench_priority_matters import MEGABYTE, Setting, proved, snapshot
from tests.objects import Object, node, pod
from tests.solver.bounds.test_placed_bounds import tiny_cluster
from tests.solver.rules.test_agreement import accepted
from tests.solver.tight_packing.tiny_rooms import context

PLACED_ONLY = Policy(strategy="none", hardPodAffinityWeight=0, defaultConstraints=())
INSTANCES = 25


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.ALL)
def test_no_placement_exceeds_a_bound_and_packings_obey_the_rules(kind: str) -> None:
    """The bound holds for every incumbent of the higher tiers."""
    for seed in range(INSTANCES):
        cluster, scores = tiny_cluster(seed, kind)
        tiers = sorted({*cluster.priority.tolist()}, reverse=True)
        active = rules.build(cluster)
        limits = possible(cluster, active)
        upper = cluster.per_priority(fits(cluster, limits))
        tight = TightPacking(cluster, active, limits, context(20.0))
        for incumbent in {min(scores), max(scores)}:
            placed = dict(zip(tiers, incumbent, strict=True))
            for i, p in enumerate(tiers):
                best = max(s[i] for s in scores if all(s[j] >= incumbent[j] for j in range(i)))
                bound, result = tight.bound(p, placed, upper[p], 2.0)
                assert best <= bound <= upper[p], f"{kind} seed {seed} tier {p}"
                above = {q: placed[q] for q in tiers[:i]}
                nothing = np.zeros_like(limits)
                for counts in (result, tight.pack(nothing, above | {p: best}, 1.0)):
                    if counts is None:
                        continue
                    order = find_order(cluster, counts)
                    assert order.sequence is not None
                    assert accepted(cluster, order.sequence), f"{kind} seed {seed} tier {p}"


@pytest.mark.full
@pytest.mark.parametrize(
    ("cell", "value"),
    [
        (Setting(4, 4, 2, 100), 14),
        (Setting(8, 8, 1, 100), 63),
        (Setting(16, 8, 2, 105), 123),
        (Setting(16, 12, 2, 100, MEGABYTE), 192),  # all of them: nodes are filled to the last few units
        (Setting(32, 8, 1, 100, MEGABYTE), 256),
    ],
)
def test_small_overfull_clusters_are_proved(cell: Setting, value: int) -> None:
    """No pod less than all pods would be needed to see that the sum alone promises too much."""
    result = place(snapshot(cell, 3), Options(policy=PLACED_ONLY, time_limit=60, workers=2, causes=False))
    assert proved(result)
    assert len(result.assignments) == value


def test_amounts_that_64_bits_cannot_sum_prove_nothing() -> None:
    """Two nodes of 2**62 bytes each: all but one of the pods that have no CPUs left."""
    objects = [node(f"n{i}", cpu=str(3 - i), memory=str(2**62)) for i in range(2)]
    objects += [
        pod(f"p{i}", cpu=cpu, memory=memory) for i, (cpu, memory) in enumerate((("2", "4Ei"), ("1", "1Ki"), ("2", "1Ki"), ("2", "4Ei")))
    ]
    result = place(snapshots.from_objects(objects), Options(policy=PLACED_ONLY, workers=1, deterministic=True, causes=False))
    assert [(tier.value, tier.bound) for tier in result.objective] == [(3, 3)]


def test_the_same_bytes_each_time() -> None:
    options = Options(policy=PLACED_ONLY, time_limit=3, deterministic=True, workers=1, causes=False)
    cell = Setting(8, 4, 4, 105)
    first, second = (place(snapshot(cell, 1), options) for _ in range(2))
    assert first == second


def test_pods_that_are_tied_stay_and_others_are_packed_around_them() -> None:
    """Two of three nodes have a pod that must be alone of its kind; the rest is full to the last CPU."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    shy = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects: list[Object] = [node(f"n{i}", cpu="10", memory="64Gi") for i in range(3)]
    objects += [pod(f"shy{i}", cpu="3", labels={"app": "a"}, affinity=shy) for i in range(2)]
    objects += [pod(f"p{i}", cpu=str(size)) for i, size in enumerate((5, 2, 4, 3, 6, 4))]
    made = snapshots.from_objects(objects)
    cluster = compile_cluster(made, select(made), policy=PLACED_ONLY)
    active = rules.build(cluster)
    limits = possible(cluster, active)
    counts = np.zeros_like(limits)
    constrained = next(g for g, cls in enumerate(cluster.classes) if cls.anti)
    counts[constrained, :2] = 1
    tight = TightPacking(cluster, active, limits, context())
    assert tight.constrained
    result = tight.pack(counts, {0: 8}, 4.0)
    assert result is not None
    assert result[constrained].tolist() == [1, 1, 0]
    assert (result.T @ cluster.demand[:, 0] == 10_000).all()
    assert tight.pack(counts, {0: 9}, 1.0) is None
