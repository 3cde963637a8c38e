"""The encoding says exactly whether some allocation of devices serves all pods: brute force on random tables is the judge."""

from __future__ import annotations

import random

import numpy as np
import pytest

from models.cluster.cluster import Cluster
from models.cluster.compile import compile_cluster
from models.snapshot import snapshot as snapshots
from models.snapshot.scope import select
from solver.devices.device_groups import DeviceGroups
from solver.rules.dynamic_resources_encoding import DeviceEncoder
from solver.rules.placement_model import build_model
from tests.objects import node, pod
from tests.solver.devices.tables import Instance, can_serve, instance

FEW, CI, LONG = 40, 400, 4000
#: Pods of a class.
MANY = 2


def cluster_of(found: Instance) -> Cluster:
    objects = [node(f"n{i}") for i in range(found.nodes)]
    for g in range(len(found.claims)):
        objects += [pod(f"p{g}-{k}", cpu=f"{g + 1}m") for k in range(MANY)]
    snapshot = snapshots.from_objects(objects)
    return compile_cluster(snapshot, select(snapshot))


def check(seed: int) -> tuple[int, int]:
    """Assert agreement on random states of one instance; how many brute force serves, and how many it does not."""
    found = instance(seed)
    cluster = cluster_of(found)
    model = build_model(cluster, [])
    everywhere = np.ones(found.nodes, dtype=bool)
    asked = {g: [(everywhere, claims)] for g, claims in enumerate(found.claims)}
    encoder = DeviceEncoder(model, DeviceGroups(found.table), found.table.inventory.books, asked, {})
    encoder.run()
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
