"""Nodes filled to the last unit: planted pods all placed again, under their rules, and an order found in which they bind."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.bind_order.order import find_order
from kubestow.solver.construction.exact_filling import Mix, fill_exactly
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.gangs import known
from tests.instances.planted.planted_gangs import feasible
from tests.instances.planted.planted_nodes import HOST, REQUIRED, planted_nodes
from tests.objects import Object, node, pod
from tests.solver.time_slices import checks
from tests.tiers import sampled

DATA = Path(__file__).parents[2] / "benchmarks" / "data"
PLACED_ONLY = Policy(strategy="none", hardPodAffinityWeight=0)


def compiled(objects: list[Object]) -> Cluster:
    snapshot = from_objects(objects)
    return compile_cluster(snapshot, select(snapshot), policy=PLACED_ONLY)


def filled(cluster: Cluster, *, seed: int = 0, limit: int = 20_000) -> Ints | None:
    return fill_exactly(cluster, possible(cluster, rules.build(cluster)), seed=seed, time=checks(limit))


def full_nodes(seed: int, *, nodes: int = 24, spare: int = 0) -> list[Object]:
    return planted_nodes(seed, nodes=nodes, pods=8, rules=True, spare=spare)


@pytest.mark.parametrize("seed", sampled(range(6), every=6, full=5))
def test_planted_nodes_are_filled_again_and_bind(seed: int) -> None:
    cluster = compiled(full_nodes(seed, spare=seed % 2))
    counts = filled(cluster, seed=seed)
    assert counts is not None
    assert counts.sum() == cluster.count.sum()
    assert (counts.T @ cluster.demand <= cluster.free).all()
    assert find_order(cluster, counts, seed=0).sequence is not None


@pytest.mark.parametrize("name", sampled([f"{family}-32x8-100-s{seed}" for family in ("rules", "pack") for seed in range(3)], 2))
def test_recorded_instances_are_placed_and_proved(name: str) -> None:
    with gzip.open(DATA / f"{name}.json.gz") as file:
        objects = json.load(file)["items"]
    result = place(from_objects(objects), Options(engine="greedy", time_limit=None, policy=PLACED_ONLY))
    assert len(result.assignments) == result.snapshot.pending
    assert result.status == "optimal"


@pytest.mark.full
def test_a_gang_that_fills_its_zone_to_the_last_byte_is_placed() -> None:
    assert known.solve(feasible(119), 60).whole


def test_the_same_seed_gives_the_same_placement() -> None:
    cluster = compiled(full_nodes(0))
    one, same, other = (filled(cluster, seed=seed) for seed in (1, 1, 2))
    assert one is not None
    assert same is not None
    assert other is not None
    assert one.tolist() == same.tolist()
    assert one.tolist() != other.tolist()


def test_pods_that_ask_for_nothing_come_along() -> None:
    objects = full_nodes(1)
    for i in range(3):
        idle = pod(f"idle-{i}")
        del idle["spec"]["containers"][0]["resources"]
        objects.append(idle)
    cluster = compiled(objects)
    counts = filled(cluster)
    assert counts is not None
    assert counts.sum() == cluster.count.sum()


def test_a_node_that_cannot_be_filled_ends_it() -> None:
    objects = [*(node(f"n{i}", cpu="4", memory="4Gi") for i in range(2)), pod("p", cpu="2", memory="2Gi")]
    objects += [pod(f"q{i}", cpu="3", memory="3Gi") for i in range(2)]
    assert filled(compiled(objects)) is None


def test_more_than_there_is_room_for_is_left_to_others() -> None:
    objects = [*(node(f"n{i}", cpu="1", memory="1Gi") for i in range(2)), *(pod(f"p{i}", cpu=f"{600 + i}m") for i in range(4))]
    assert filled(compiled(objects)) is None


def test_nodes_that_are_not_full_are_left_to_others() -> None:
    assert filled(compiled([node("n"), pod("p")])) is None


def test_no_time_no_placement() -> None:
    assert filled(compiled(full_nodes(0)), limit=0) is None


def test_rules_that_cannot_be_obeyed_end_after_some_choices() -> None:
    """Two nodes take two pods each, which keep off each other and a third."""
    anti = {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "x"}}}]}}
    objects = [*(node(f"n{i}", cpu="2", memory="2Gi") for i in range(2)), pod("y", cpu="1", memory="1Gi")]
    objects += [pod(f"x{i}", cpu="1", memory="1Gi", labels={"app": "x"}, affinity=anti, priority=i) for i in range(3)]
    assert filled(compiled(objects)) is None


@pytest.mark.parametrize("nodes", [1, 2, 3, 6])
def test_a_mix_adds_up(nodes: int) -> None:
    rng = np.random.default_rng(nodes)
    patterns = [rng.integers(0, 5, size=(9, 4)) for _ in range(nodes)]
    count = np.array([some[rng.integers(len(some))] for some in patterns]).sum(axis=0)
    counts = Mix(patterns, count, np.ones_like(count), seed=0).run(checks(20_000).is_over)
    assert counts is not None
    assert (counts.sum(axis=0) == count).all()
    assert all((counts[n] == some).all(axis=1).any() for n, some in enumerate(patterns))


def test_a_mix_that_cannot_add_up_is_given_up() -> None:
    assert Mix([np.array([[2], [4]])] * 3, np.array([7]), np.array([1]), seed=0).run(checks(20_000).is_over) is None
