"""The remainder of an instance when rules across pods are ignored."""

from __future__ import annotations

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.scope import select
from kubestow.solver import rules
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.tight_packing.demands import PackingDemands, relaxed, untied
from tests.objects import Object, node, pod


def compiled(objects: list[Object]) -> Cluster:
    snapshot = snapshots.from_objects(objects)
    return compile_cluster(snapshot, select(snapshot))


def apart() -> Object:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


OBJECTS = [
    *(node(f"n{i}", cpu="4", pods="5", labels={"disk": "ssd" if i else "hdd"}) for i in range(3)),
    pod("fixed", cpu="1", node_name="n0"),
    pod("shy", cpu="1", labels={"app": "a"}, affinity=apart()),
    pod("met", cpu="500m", labels={"app": "a"}),
    pod("free", cpu="2"),
    pod("picky", cpu="3", selector={"disk": "ssd"}),
    pod("huge", cpu="9"),
]


def test_all_pods_that_fit_somewhere_against_what_fixed_pods_leave() -> None:
    cluster = compiled(OBJECTS)
    demands = relaxed(cluster, possible(cluster, rules.build(cluster)))
    names = [cluster.classes[g].pod.metadata.name for g in demands.classes.tolist()]
    assert sorted(names) == ["free", "met", "picky", "shy"]
    assert demands.demand[names.index("free")].tolist() == [4, 1, 1]  # of 500m, 128Mi and slots
    assert demands.room[:, 0].tolist() == [6, 8, 8]
    assert demands.room[:, -1].tolist() == [4, 5, 5]
    assert demands.allowed[names.index("picky")].tolist() == [False, True, True]
    assert sorted(nodes.tolist() for nodes in demands.node_kinds()) == [[0], [1, 2]]


def test_pods_that_a_rule_ties_keep_their_room() -> None:
    cluster = compiled(OBJECTS)
    active = rules.build(cluster)
    names = [cls.pod.metadata.name for cls in cluster.classes]
    counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
    counts[names.index("shy"), 1] = 1
    counts[names.index("free"), 1] = 1  # not tied: its room counts as free
    demands = untied(cluster, active, possible(cluster, active), counts)
    assert sorted(names[g] for g in demands.classes.tolist()) == ["free", "picky"]
    assert demands.room[:, 0].tolist() == [3, 3, 4]  # whole CPUs, as both ask for


def test_what_is_beyond_whole_units_is_no_room() -> None:
    """Three pods of 300 MB on two nodes of 500 MB: in bytes all of them together would have room."""
    cluster = compiled([*(node(f"n{i}", memory="500M") for i in range(2)), *(pod(f"p{i}", memory="300M") for i in range(3))])
    demands = relaxed(cluster, possible(cluster, rules.build(cluster)))
    assert demands.demand[:, 1].tolist() == [1]
    assert demands.room[:, 1].tolist() == [1, 1]
    assert demands.full


@pytest.mark.parametrize(("wanted", "full"), [(990, False), (999, True), (1_000, True), (1_001, True)])
def test_full_is_what_leaves_next_to_nothing(wanted: int, full: bool) -> None:
    ones = np.ones(1, dtype=np.int64)
    demands = PackingDemands(ones, wanted * ones, np.array([[1, 1]]), ones, np.array([[1_000, 100_000]]), np.ones((1, 1), dtype=bool))
    assert demands.full is full
