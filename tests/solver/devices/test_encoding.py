"""The encoding says exactly whether some allocation of devices serves all pods: brute force on random tables is the judge."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.scope import select
from kubestow.solver import rules
from kubestow.solver.construction.greedy import construct
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.devices import claim_modes
from kubestow.solver.devices.device_groups import DeviceGroups
from kubestow.solver.rules.dynamic_resources.encoding import DeviceEncoder
from kubestow.solver.rules.dynamic_resources.rule import DynamicResources
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.rules.placement_model import build_model
from tests import tiny
from tests.objects import node, pod
from tests.solver.devices.tables import Instance, can_serve, instance
from tests.solver.rules.test_agreement import matrix, reachable

FEW, CI, LONG = 12, 130, 4000
#: Pods of a class.
MANY = 2


def cluster_of(instance: Instance) -> Cluster:
    objects = [node(f"n{i}") for i in range(instance.nodes)]
    for g in range(len(instance.claims)):
        objects += [pod(f"p{g}-{k}", cpu=f"{g + 1}m") for k in range(MANY)]
    snapshot = snapshots.from_objects(objects)
    return compile_cluster(snapshot, select(snapshot))


def encoded(instance: Instance, cluster: Cluster) -> tuple[PlacementModel, bool]:
    """Return the model of an instance, and whether it asks for less than claims do."""
    model = build_model(cluster, [])
    everywhere = np.ones(instance.nodes, dtype=bool)
    variants = {g: [(everywhere, claims)] for g, claims in enumerate(instance.claims)}
    encoder = DeviceEncoder(model, DeviceGroups(instance.table), instance.table.inventory.books, variants, {})
    encoder.run()
    return model, encoder.loose


def check(seed: int) -> tuple[int, int]:
    """Assert agreement on random states of one instance; how many brute force serves, and how many it does not."""
    found = instance(seed)
    cluster = cluster_of(found)
    model, loose = encoded(found, cluster)
    assert not loose
    rng = random.Random(seed)
    good = bad = 0
    for _ in range(8):
        state = rng.choices([(g, n) for g in range(len(found.claims)) for n in range(found.nodes)], k=rng.choice((1, 2, 3, 3)))
        counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
        for g, n in state:
            counts[g, n] += 1
        if counts.sum(axis=1).max() > MANY:
            continue
        served = can_serve(found, state)
        modelled = model.assignment(counts) is not None
        assert modelled == served, f"seed {seed} state {state}: {'served' if served else 'not served'}"
        good, bad = good + served, bad + (not served)
    return good, bad


def test_encoding_and_brute_force_agree_on_a_few() -> None:
    good, bad = np.sum([check(seed) for seed in range(FEW)], axis=0)
    assert min(good, bad) > FEW // 2


@pytest.mark.full
def test_encoding_and_brute_force_agree() -> None:
    good, bad = np.sum([check(seed) for seed in range(FEW, CI)], axis=0)
    assert min(good, bad) > CI // 2


@pytest.mark.slow
def test_encoding_and_brute_force_agree_at_length() -> None:
    good, bad = np.sum([check(seed) for seed in range(CI, LONG)], axis=0)
    assert min(good, bad) > LONG // 2


@pytest.mark.full
def test_where_modes_are_too_many_nothing_that_can_be_served_is_ruled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_modes, "MAX_MODES", 1)
    loose = 0
    for seed in range(50):
        found = instance(seed)
        cluster = cluster_of(found)
        model, less = encoded(found, cluster)
        for g, n in itertools.product(range(cluster.n_classes), range(found.nodes)):
            counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
            counts[g, n] = 1
            served = can_serve(found, [(g, n)])
            assert not served or model.assignment(counts) is not None, f"seed {seed}"
            loose += less
    assert loose


def test_a_claim_that_is_allocated_keeps_its_pods_where_it_serves() -> None:
    found = next(i for i in map(instance, range(200)) if any(claim.key for claims in i.claims for claim in claims))
    cluster = cluster_of(found)
    model = build_model(cluster, [])
    claim = next(claim for claims in found.claims for claim in claims if claim.key)
    variants = {0: [(np.ones(found.nodes, dtype=bool), (claim,))]}
    DeviceEncoder(model, DeviceGroups(found.table), found.table.inventory.books, variants, {claim.key or "": np.array([True, False])}).run()
    for n, allowed in ((0, True), (1, False)):
        counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
        counts[0, n] = MANY
        assert (model.assignment(counts) is not None) == allowed


def parts_hold(seed: int, kind: str) -> int:
    """Assert that the pods of each class fit again, in a model of them alone, on their nodes in the whole
    placement. Return the number of classes."""
    snapshot = snapshots.from_objects(tiny.snapshot(seed, kind))
    cluster = compile_cluster(snapshot, select(snapshot))
    built = construct(cluster, rules.build(cluster), possible(cluster, rules.build(cluster)))
    tried = 0
    for g in np.flatnonzero(built.counts.any(axis=1)).tolist():
        active = rules.build(cluster)
        for h, n, k in built.sequence:
            for rule in active:
                rule.place(h, n, k)
        for n in np.flatnonzero(built.counts[g]).tolist():
            for rule in active:
                rule.remove(g, n, int(built.counts[g, n]))
        nodes = np.arange(cluster.n_nodes, dtype=np.int32)
        count = int(cluster.count[g])
        part = Cells({g: (nodes, np.full(cluster.n_nodes, count, dtype=np.int64))}, {g: count})
        model = build_model(cluster, [DynamicResources.of(active)], part)
        assert model.assignment({(g, n): int(built.counts[g, n]) for n in range(cluster.n_nodes)}) is not None, (
            f"{kind} seed {seed} class {g}"
        )
        tried += 1
    return tried


def test_a_part_of_the_pods_fits_where_it_was() -> None:
    assert sum(parts_hold(seed, "devices") for seed in range(60)) > 30


@pytest.mark.parametrize("seed", [88, 653, 806, 1005, 3683, 4399])
def test_whatever_pods_can_be_bound_to_one_by_one_is_in_the_model(seed: int) -> None:
    """A claim that a pod names twice, requests for all devices of which some are too small, or full by then."""
    snapshot = snapshots.from_objects(tiny.snapshot(seed, "devices"))
    cluster = compile_cluster(snapshot, select(snapshot))
    model = build_model(cluster, rules.build(cluster))
    for state in reachable(cluster):
        counts = matrix(cluster, state)
        assert all(counts[g, n] <= model.upper(int(g), int(n)) for g, n in np.argwhere(counts)), state
        assert model.assignment(counts) is not None, state
