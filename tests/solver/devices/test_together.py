"""Pods of one node and its devices: together they fit where an allocation exists, and an order in which first-fit serves them is found."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.bind_order.order import find_order, most_in_order
from kubestow.solver.bounds.placed_bounds import placed_bounds
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.devices.supply import supply
from kubestow.solver.devices.together import together
from kubestow.solver.rules.dynamic_resources.node_order import DeviceOrder
from kubestow.solver.rules.dynamic_resources.rule import DynamicResources
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from tests import tiny
from tests.instances.planted.planted_devices import FAMILIES, planted_devices
from tests.objects import node, pod
from tests.solver.devices.fleets import fleet
from tests.tiers import in_full, sampled
from tests.tiny_devices import equipped

NODES = 6


def planted(family: str, seed: int) -> tuple[Cluster, Ints]:
    """An instance of few nodes, and its planted placement int64[G, N]."""
    made = planted_devices(family, seed, nodes=NODES)
    snapshot = from_objects(made.objects)
    cluster = compile_cluster(snapshot, select(snapshot))
    counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
    for g, cls in enumerate(cluster.classes):
        for i in cls.pods:
            counts[g, cluster.nodes.names.index(made.placement[pod_key(snapshot.pods[i])])] += 1
    return cluster, counts


def pods_of(cluster: Cluster, counts: Ints, n: int) -> dict[int, int]:
    """The pods of a node that ask for devices."""
    return {g: int(k) for g, k in enumerate(counts[:, n]) if k and cluster.classes[g].devices is not None}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", [0, in_full(3)])  # perfect packings of shares may take longer than the search
def test_planted_pods_fit_and_one_more_does_not(family: str, seed: int) -> None:
    cluster, counts = planted(family, seed)
    answers = together(cluster)
    assert answers is not None
    for n in range(NODES):
        pods = pods_of(cluster, counts, n)
        assert answers.fits(n, pods) or answers.plan(n, answers.books, pods)[0] is not None
        g = next(iter(pods))
        more, sure = answers.plan(n, answers.books, {**pods, g: pods[g] + 1})
        assert more is None
        assert sure


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", [0, in_full(3)])  # perfect packings of shares may take longer than the search
def test_planted_placements_have_a_bind_order(family: str, seed: int) -> None:
    cluster, counts = planted(family, seed)
    found = find_order(cluster, counts)
    assert found.sequence is not None
    state = rules.build(cluster)
    remaining = counts.copy()
    for g, n, k in found.sequence:
        for _ in range(k):
            assert not any(rule.rejects(g)[n] for rule in state)
            for rule in state:
                rule.place(g, n)
            remaining[g, n] -= 1
    assert not remaining.any()


@pytest.mark.parametrize("family", FAMILIES)
def test_no_planted_node_has_less_than_its_pods_take(family: str) -> None:
    cluster, counts = planted(family, 0)
    demand, free = supply(cluster)
    used = counts.T @ demand
    assert (used <= free).all()
    assert (used == free).all(axis=0).any() or family == "mixed"


def few_on_a_node(seed: int) -> Iterator[tuple[Cluster, int, dict[int, int]]]:
    """Random tiny instances without pools of several nodes, a node each, and some pods for it."""
    snapshot = from_objects(equipped(tiny.snapshot(seed, "resources"), seed))
    cluster = compile_cluster(snapshot, select(snapshot))
    answers = together(cluster)
    rng = np.random.default_rng(seed)
    if answers is None:
        return
    limits = possible(cluster, rules.build(cluster))
    for n in range(cluster.n_nodes):
        pods = {g: int(rng.integers(0, limits[g, n] + 1)) for g in np.flatnonzero(answers.lonely & (limits[:, n] > 0)).tolist()}
        if any(pods.values()):
            yield cluster, n, {g: k for g, k in pods.items() if k}


@pytest.mark.parametrize("seed", sampled(range(300), every=15, full=5))
def test_together_is_what_the_model_says(seed: int) -> None:
    for cluster, n, pods in few_on_a_node(seed):
        answers = together(cluster)
        assert answers is not None
        plan, sure = answers.plan(n, answers.books, pods)
        assert sure
        limits = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
        for g, k in pods.items():
            limits[g, n] = k
        encoding = build_model(cluster, [DynamicResources(cluster)], eligibility=limits)
        encoding.hold({})
        answer = CpSat(RunContext.start(Options(time_limit=10, workers=1))).run(encoding.model, 10)
        assert (plan is not None) == (answer.solution is not None)


@pytest.mark.parametrize("seed", sampled(range(300), every=15, full=5))
def test_no_supply_is_exceeded_by_pods_that_fit(seed: int) -> None:
    for cluster, n, pods in few_on_a_node(seed):
        answers = together(cluster)
        assert answers is not None
        if answers.plan(n, answers.books, pods)[0] is not None:
            demand, free = supply(cluster)
            assert (sum(k * demand[g] for g, k in pods.items()) <= free[n]).all()


@pytest.mark.parametrize(("asked", "placed"), [([1] * 81, 80), ([3] * 30, 20), ([5] * 15 + [3] * 15, 20), ([8] * 11, 10)])
def test_the_bound_counts_devices(asked: list[int], placed: int) -> None:
    snapshot = from_objects(fleet(10, 8, asked))
    cluster = compile_cluster(snapshot, select(snapshot))
    limits = possible(cluster, rules.build(cluster))
    assert placed_bounds(cluster, limits, {0: 0}, seconds=None, deterministic=True) == {0: placed}


def test_where_no_order_serves_all_pods_of_a_node_some_are_left_out() -> None:
    snapshot = from_objects(fleet(2, 4, [1] * 6 + [3] * 2))
    cluster = compile_cluster(snapshot, select(snapshot))
    three, one = (next(g for g, cls in enumerate(cluster.classes) if cls.count == k) for k in (2, 6))
    counts = np.zeros((cluster.n_classes, 2), dtype=np.int64)
    counts[three], counts[one] = (2, 0), (0, 4)  # six devices of four
    kept, found = most_in_order(cluster, counts, {})
    assert kept[three].tolist() == [1, 0]
    assert kept[one].tolist() == [0, 4]
    assert found.sequence is not None


def test_the_state_is_kept_by_a_search_for_an_order() -> None:
    cluster, counts = planted("partitions", 0)
    rule = DynamicResources(cluster)
    before = rule.path()
    order, _ = DeviceOrder(rule, rule.state, [rule]).find(0, pods_of(cluster, counts, 0))
    assert order is not None
    assert rule.path() == before


def test_instances_without_devices_have_no_answers() -> None:
    snapshot = from_objects([node("n", cpu="1"), pod("p", cpu="1")])
    cluster = compile_cluster(snapshot, select(snapshot))
    assert together(cluster) is None
    assert supply(cluster)[0].shape == (1, 0)
