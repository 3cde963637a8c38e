"""Shares of devices filled to the last unit: planted pods all placed again, others left alone, and an order found in which they bind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.bind_order.order import find_order
from kubestow.solver.construction.share_filling import ShareFilling
from kubestow.solver.devices.together import together
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.instances.planted.planted_devices import planted_devices
from tests.tiers import sampled

NODES = 9


def planted(family: str, seed: int, *, without: int = 0) -> tuple[Cluster, Ints]:
    """An instance and its planted placement int64[G, N]. ``without``: nodes that are missing, and whose pods are left."""
    made = planted_devices(family, seed, nodes=NODES)
    gone = {f"node-{n}" for n in range(without)}
    snapshot = from_objects([o for o in made.objects if {o["metadata"]["name"], o.get("spec", {}).get("nodeName")}.isdisjoint(gone)])
    cluster = compile_cluster(snapshot, select(snapshot))
    counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
    for g, cls in enumerate(cluster.classes):
        for i in cls.pods:
            home = made.placement[pod_key(snapshot.pods[i])]
            if home not in gone:
                counts[g, cluster.nodes.names.index(home)] += 1
    return cluster, counts


def shares(cluster: Cluster) -> Ints:
    """The classes that ask for shares."""
    answers = together(cluster)
    assert answers is not None
    return np.array([g for g in range(cluster.n_classes) if any(answers.share(g, n) for n in range(cluster.n_nodes))])


def times(limit: int) -> Callable[[], bool]:
    """Return a deadline that expires after ``limit`` queries."""
    remaining = iter(range(limit))
    return lambda: next(remaining, None) is None


def filling(cluster: Cluster, counts: Ints) -> ShareFilling:
    active = rules.build(cluster)
    limits = possible(cluster, active)
    for g, n in zip(*(cells.tolist() for cells in np.nonzero(counts)), strict=True):
        for rule in active:
            if rule.concerned(g):
                rule.place(g, n, int(counts[g, n]))
    return ShareFilling(cluster, active, limits, counts, seed=0)


@pytest.mark.parametrize("family", ["shares", "mixed"])
@pytest.mark.parametrize("seed", sampled(range(4), every=4, full=3))
def test_all_planted_shares_are_placed_again_and_bind(family: str, seed: int) -> None:
    cluster, counts = planted(family, seed)
    classes = shares(cluster)
    emptied = counts.copy()
    emptied[classes] = 0
    result = filling(cluster, emptied).run(times(30_000))
    assert result is not None
    assert result.sum() == counts.sum()
    others = np.setdiff1d(np.arange(cluster.n_classes), classes)
    assert (result[others] == counts[others]).all()
    assert find_order(cluster, result, seed=0).sequence is not None


@pytest.mark.parametrize("seed", sampled(range(4), every=4, full=3))
def test_a_cluster_with_too_few_devices_is_filled_to_the_last_unit_and_no_further(seed: int) -> None:
    cluster, counts = planted("shares", seed, without=1)
    built = filling(cluster, np.zeros_like(counts))
    result = built.run(times(30_000))
    assert result is not None
    assert find_order(cluster, result, seed=0).sequence is not None
    assert sum(node.gap for node in built.nodes.values()) == 0


def test_where_no_pod_for_shares_is_left_nothing_is_filled() -> None:
    cluster, counts = planted("mixed", 0)
    fewer = counts.copy()
    others = np.setdiff1d(np.arange(cluster.n_classes), shares(cluster))
    g, n = next((g, n) for g in others.tolist() for n in range(NODES) if counts[g, n])
    fewer[g, n] -= 1
    assert filling(cluster, fewer).run(times(30_000)) is None
    assert filling(cluster, counts).run(times(30_000)) is None


def test_claims_of_several_devices_need_no_others_that_fill_the_rest() -> None:
    objects = planted_devices("shares", 0, nodes=NODES).objects
    claims = [o for o in objects if o["kind"] == "ResourceClaim"]
    single = {o["metadata"]["name"] for o in claims if o["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1}
    gone = single | {name.removesuffix("-devices") for name in single}
    snapshot = from_objects([o for o in objects if o["metadata"]["name"] not in gone])
    cluster = compile_cluster(snapshot, select(snapshot))
    counts = filling(cluster, np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)).run(times(30_000))
    assert counts is not None
    assert counts.sum() == cluster.count.sum() > 0


def test_what_is_cut_off_is_not_worse_than_before() -> None:
    cluster, counts = planted("shares", 0)
    fewer = counts.copy()
    fewer[int(np.argmax(counts[:, 0])), 0] -= 1
    assert filling(cluster, fewer).run(times(3)) is None  # too soon for as many


def test_solve_fills_shares_where_construction_and_repair_would_leave_some() -> None:
    snapshot = from_objects(planted_devices("shares", 0, nodes=16).objects)
    result = place(snapshot, Options(engine="greedy", deterministic=True, time_limit=10, policy=Policy(strategy="none")))
    assert not result.unplaced
