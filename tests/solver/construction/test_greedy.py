"""Construction: every step is one the rules accept, every option keeps that, and preferences lead where a look at them would."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import get_args

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import Policy, Strategy
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.construction.greedy import Construction, complete, construct, rank
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.eligibility import fits, possible
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.solve import place
from tests import tiny, tiny_soft
from tests.objects import Object, node, pod
from tests.tiers import sampled, seeds

ZONE, HOST = "zone", "kubernetes.io/hostname"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def compiled(objects: list[Object]) -> Cluster:
    snapshot = from_objects(objects)
    return compile_cluster(snapshot, select(snapshot))


def built(cluster: Cluster, *, even: bool = False, soft: bool = False, seed: int = 0, tries: int = 1) -> Construction:
    active = rules.build(cluster)
    state = SoftState(Objective(cluster, active)) if soft else None
    return construct(cluster, active, possible(cluster, active), RunContext.start(Options(seed=seed)), tries=tries, even=even, soft=state)


def assert_sound(cluster: Cluster, construction: Construction, where: str) -> None:
    """Within limits, the steps add up, and every pod passes every filter at its turn; the state handed over is that of the placement."""
    active = rules.build(cluster)
    limits = possible(cluster, active)
    assert (construction.counts >= 0).all(), where
    assert (construction.counts <= limits).all(), where
    assert (construction.counts.sum(axis=1) <= cluster.count).all(), where
    total = np.zeros_like(construction.counts)
    for g, n, k in construction.sequence:
        assert k > 0, where
        total[g, n] += k
        for _ in range(k):
            for rule in active:
                assert not rule.rejects(g)[n], f"{where}: {rule.name} rejects class {g} on node {n}"
            for rule in active:
                rule.place(g, n, 1)
    assert (total == construction.counts).all(), where
    for mine, fresh in zip(construction.active, active, strict=True):
        for g in range(cluster.n_classes):
            assert (mine.rejects(g) == fresh.rejects(g)).all(), f"{where}: {mine.name}"
    if construction.soft is not None:
        fresh_soft = SoftState(Objective(cluster, rules.build(cluster)))
        for g, n, k in construction.sequence:
            fresh_soft.place(g, n, k)
        for g in range(cluster.n_classes):
            assert (construction.soft.gain(g) == fresh_soft.gain(g)).all(), where


def nothing_more_fits(cluster: Cluster, construction: Construction) -> bool:
    """Return whether every node rejects every unplaced pod."""
    active = rules.replay(cluster, construction.sequence)
    unplaced = cluster.count - construction.counts.sum(axis=1)
    return all(np.logical_or.reduce([r.rejects(g) | r.breaks(g) for r in active]).all() for g in np.flatnonzero(unplaced).tolist())


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("kind", sampled(tiny.ALL, every=4))
@seeds(16, 50)
def test_every_step_is_accepted(seeds: range, kind: str, soft: bool, even: bool) -> None:
    placed = 0
    for seed in seeds:
        cluster = compiled(tiny.snapshot(seed, kind, nodes=4, pods=9))
        construction = built(cluster, even=even, soft=soft, tries=1 + seed % 3)
        assert_sound(cluster, construction, f"{kind} seed {seed}")
        assert nothing_more_fits(cluster, construction), f"{kind} seed {seed}: something more fits"
        placed += int(construction.counts.sum())
    assert placed > len(seeds)


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("kind", sampled(tiny_soft.KINDS, every=6))
@seeds(10, 30)
def test_every_step_is_accepted_with_preferences(seeds: range, kind: str, even: bool) -> None:
    for seed in seeds:
        cluster = compiled(tiny_soft.snapshot(seed, kind, nodes=4, pods=9))
        for soft in (False, True):
            construction = built(cluster, even=even, soft=soft)
            assert_sound(cluster, construction, f"{kind} seed {seed}")
            assert nothing_more_fits(cluster, construction), f"{kind} seed {seed}: something more fits"


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny_soft.KINDS)
@seeds(3, 12)
def test_the_checker_accepts_greedy_placements_and_they_are_repeatable(seeds: range, kind: str) -> None:
    for seed in seeds:
        snapshot = from_objects(tiny_soft.snapshot(seed, kind, nodes=4, pods=8))
        strategy: Strategy = get_args(Strategy)[seed % 3]
        options = Options(engine="greedy", deterministic=True, seed=seed, time_limit=5, policy=Policy(strategy=strategy))
        first, second = place(snapshot, options), place(snapshot, options)  # place has each verified
        assert first.engine == "greedy"
        assert first == second, f"{kind} seed {seed}"


def test_the_same_seed_gives_the_same_steps() -> None:
    for kind in tiny.KINDS:
        cluster = compiled(tiny.snapshot(5, kind, nodes=4, pods=9))
        assert built(cluster, seed=3, tries=8).sequence == built(cluster, seed=3, tries=8).sequence


@pytest.mark.full
def test_what_still_fits_is_added() -> None:
    for kind in tiny.KINDS:
        for seed in range(20):
            cluster = compiled(tiny.snapshot(seed, kind, nodes=4, pods=9))
            whole = built(cluster)
            half = whole.sequence[: len(whole.sequence) // 2]
            counts = np.zeros_like(whole.counts)
            for g, n, k in half:
                counts[g, n] += k
            counts, sequence = complete(cluster, possible(cluster, rules.build(cluster)), counts, half)
            assert sequence[: len(half)] == half
            construction = Construction(counts, sequence, rules.replay(cluster, sequence))
            assert_sound(cluster, construction, f"{kind} seed {seed}")
            assert nothing_more_fits(cluster, construction), f"{kind} seed {seed}"


def test_more_tries_are_never_worse() -> None:
    better = 0
    for seed in range(60):
        cluster = compiled(tiny.snapshot(seed, "mixed", nodes=4, pods=9))
        one, many = (rank(cluster, built(cluster, tries=tries).counts) for tries in (1, 8))
        assert many >= one
        better += many > one
    assert better


def test_construction_ends_when_it_is_told_to() -> None:
    cluster = compiled([node("n", cpu="64")] + [pod(f"p{i}", cpu=f"{i + 1}m") for i in range(50)])
    active = rules.build(cluster)
    limits = possible(cluster, active)
    stop, options = threading.Event(), Options(time_limit=60)
    stop.set()
    assert construct(cluster, active, limits, RunContext.start(Options(), stop)).counts.sum() == 0
    late = construct(cluster, rules.build(cluster), limits, RunContext(options, Deadline(options, time.monotonic() - 61)), tries=4)
    assert late.counts.sum() == 50  # the first is never cut short: there would be no answer at all
    assert construct(cluster, rules.build(cluster), limits).counts.sum() == fits(cluster, limits).sum() == 50


# --- preferences ---------------------------------------------------------------------------------------------------------------------


def prefers(part: str, app: str, key: str, weight: int = 10) -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {part: {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}}


def where(cluster: Cluster, construction: Construction, key: str = HOST) -> list[int]:
    """Pods per domain, the fullest first, empty ones left out."""
    codes, _ = cluster.domains(key)
    count: Counter[int] = Counter()
    for _, n, k in construction.sequence:
        count[int(codes[n])] += k
    return sorted(count.values(), reverse=True)


def nodes(count: int, zones: int, cpu: str = "4") -> list[Object]:
    return [node(f"n{i}", cpu=cpu, labels={ZONE: f"z{i % zones}"}) for i in range(count)]


@pytest.mark.parametrize("even", [False, True])
def test_pods_that_repel_each_other_spread(even: bool) -> None:
    pods = [pod(f"p{i}", labels={"app": "a"}, affinity=prefers("podAntiAffinity", "a", HOST)) for i in range(6)]
    cluster = compiled(nodes(6, 2) + pods)
    assert where(cluster, built(cluster, even=even, soft=True)) == [1] * 6
    pods = [pod(f"p{i}", labels={"app": "a"}, affinity=prefers("podAntiAffinity", "a", ZONE)) for i in range(5)]
    cluster = compiled(nodes(6, 3) + pods)
    assert where(cluster, built(cluster, even=even, soft=True), ZONE) == [2, 2, 1]


@pytest.mark.parametrize("even", [False, True])
def test_pods_that_attract_each_other_fill_a_node(even: bool) -> None:
    pods = [pod(f"p{i}", cpu="1", labels={"app": "a"}, affinity=prefers("podAffinity", "a", HOST)) for i in range(6)]
    cluster = compiled(nodes(5, 2) + pods)
    assert where(cluster, built(cluster, even=even, soft=True)) == [4, 2]


@pytest.mark.parametrize("even", [False, True])
def test_pods_that_attract_each_other_over_zones_go_to_the_zone_with_room_for_all(even: bool) -> None:
    small = [node(f"s{i}", cpu="1", labels={ZONE: "small"}) for i in range(3)]
    large = [node(f"l{i}", cpu="2", labels={ZONE: "large"}) for i in range(3)]
    pods = [pod(f"p{i}", cpu="1", labels={"app": "a"}, affinity=prefers("podAffinity", "a", ZONE)) for i in range(6)]
    cluster = compiled(small + large + pods)
    assert where(cluster, built(cluster, even=even, soft=True), ZONE) == [6]


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("skew", [1, 2])
def test_soft_constraints_of_spread_are_met_where_that_is_possible(skew: int, even: bool) -> None:
    constraint = {
        "maxSkew": skew, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "a"}},
    }  # fmt: skip
    uneven = [node(f"n{i}", cpu="8", labels={ZONE: z}) for i, z in enumerate("abbcccc")]
    cluster = compiled(uneven + [pod(f"p{i}", cpu="1", labels={"app": "a"}, spread=[constraint]) for i in range(20)])
    result = where(cluster, built(cluster, even=even, soft=True), ZONE)
    assert sum(result) == 20
    assert result[0] - result[-1] <= skew
    objective = Objective(cluster, rules.build(cluster))
    assert objective.families(built(cluster, even=even, soft=True).counts)["topologySpread"] == 0


def test_preferred_nodes_are_taken_first_and_no_pod_is_left_for_points() -> None:
    wish = {"weight": 5, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}}
    pods = [pod(f"p{i}", cpu="1", affinity={"nodeAffinity": {PREFERRED: [wish]}}) for i in range(6)]
    cluster = compiled(nodes(2, 2) + pods)
    construction = built(cluster, soft=True)
    assert construction.counts.tolist() == [[2, 4]]


# --- even filling ----------------------------------------------------------------------------------------------------------------------


def test_unequal_nodes_are_filled_to_the_same_share() -> None:
    sizes = (2, 4, 8, 16)
    objects = [node(f"n{i}", cpu=str(size)) for i, size in enumerate(sizes)]
    cluster = compiled(objects + [pod(f"p{i}", cpu="250m", memory="1Mi") for i in range(60)])
    (pods,) = built(cluster, even=True).counts.tolist()
    assert pods == [4, 8, 16, 32]  # half of each
    cluster = compiled(objects + [pod(f"p{i}", cpu="250m", memory="1Mi") for i in range(60)] + [pod("f", cpu="4", node_name="n3")])
    (pods,) = built(cluster, even=True).counts.tolist()
    shares = [(k / 4 + (4 if n == 3 else 0)) / sizes[n] for n, k in enumerate(pods)]
    assert max(shares) - min(shares) <= 0.25 / min(sizes)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 11, 27])
def test_even_filling_places_exactly_what_is_wanted(count: int) -> None:
    objects = [node("small", cpu="1"), node("full", cpu="4"), node("large", cpu="6", pods="20"), node("slots", cpu="8", pods="3")]
    objects += [pod("f", cpu="4", node_name="full")]
    cluster = compiled(objects + [pod(f"p{i}", cpu="500m", memory="1Mi") for i in range(count)])
    found = built(cluster, even=True).counts
    assert found.sum() == min(count, 2 + 12 + 3)
    assert found[0, 1] == 0


def test_pods_that_ask_for_nothing_are_dealt_out_evenly() -> None:
    objects = nodes(4, 2)
    empty = [pod(f"p{i}") for i in range(8)]
    for each in empty:
        each["spec"]["containers"][0]["resources"] = {}
    cluster = compiled(objects + empty)
    assert where(cluster, built(cluster, even=True)) == [2, 2, 2, 2]
