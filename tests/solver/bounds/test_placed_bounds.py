"""Bounds from the relaxation: never below what can be reached, and exact on cases that are counted by hand."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.scope import select
from kubestow.solver import rules
from kubestow.solver.bounds import placed_bounds as bounds_module
from kubestow.solver.bounds.aggregation import CrossRules, groupings, kinds
from kubestow.solver.bounds.linear_relaxation import relax
from kubestow.solver.bounds.placed_bounds import placed_bounds
from kubestow.solver.bounds.safe_dual_bounds import Program, best_bound
from kubestow.solver.rules.eligibility import fits, possible
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests import tiny
from tests.objects import Object, node, pod
from tests.solver.rules.test_agreement import accepted, reachable
from tests.solver.search.test_exact import score
from tests.tiers import examples, sampled

HOST = "kubernetes.io/hostname"
INSTANCES = 25


def compiled(objects: list[Object]) -> Cluster:
    snapshot = snapshots.from_objects(objects)
    return compile_cluster(snapshot, select(snapshot))


def bounded(objects: list[Object], placed: dict[int, int] | None = None) -> dict[int, int]:
    cluster = compiled(objects)
    return placed_bounds(cluster, possible(cluster, rules.build(cluster)), placed or {}, seconds=5, deterministic=True)


def pods(prefix: str, count: int, **what: Any) -> list[Object]:
    return [pod(f"{prefix}{i}", **what) for i in range(count)]


def nodes(count: int, **what: Any) -> list[Object]:
    return [node(f"n{i}", **what) for i in range(count)]


def spread_by(key: str, app: str, max_skew: int = 1, **more: object) -> list[Object]:
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **more}]


def apart(key: str, app: str) -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


# --- counted by hand ------------------------------------------------------------------------------------------------------


def test_capacity_of_equal_nodes() -> None:
    assert bounded([*nodes(10, cpu="4"), *pods("p", 60, cpu="1")]) == {0: 40}


def test_a_tier_gets_what_the_higher_one_leaves() -> None:
    objects = [*nodes(10, cpu="4"), *pods("high", 30, cpu="1", priority=10), *pods("low", 30, cpu="1", priority=1)]
    assert bounded(objects, {10: 30, 1: 0}) == {10: 30, 1: 10}


def test_higher_tiers_are_held_at_the_incumbent_not_at_their_optimum() -> None:
    """With only 20 of 30 placed, a placement that is no worse there can hold 20 of the lower tier."""
    objects = [*nodes(10, cpu="4"), *pods("high", 30, cpu="1", priority=10), *pods("low", 30, cpu="1", priority=1)]
    assert bounded(objects, {10: 20, 1: 0}) == {10: 30, 1: 20}


def test_a_selector_leaves_half_of_the_nodes() -> None:
    half = [node(f"n{i}", cpu="4", labels={"disk": "ssd" if i % 2 else "hdd"}) for i in range(10)]
    picky = [*pods("a", 30, cpu="1", selector={"disk": "ssd"}), *pods("b", 30, cpu="1", labels={"x": "y"}, selector={"disk": "ssd"})]
    assert bounded([*half, *picky]) == {0: 20}
    assert bounded([*half, *picky, *pods("c", 5, cpu="1")]) == {0: 25}


def test_pods_larger_than_half_a_node_go_one_a_node() -> None:
    """Equal ones and of different sizes: capacity alone would say 13 and more."""
    assert bounded([*nodes(10, cpu="4"), *pods("p", 20, cpu="3")]) == {0: 10}
    mixed = [*pods("p", 9, cpu="2100m"), *pods("q", 9, cpu="2500m")]
    assert bounded([*nodes(10, cpu="4"), *mixed]) == {0: 10}


def test_three_to_a_node_leave_a_rest_that_nobody_can_use() -> None:
    objects = [*nodes(10, cpu="3900m"), *pods("p", 30, cpu="1"), *pods("q", 30, cpu="1100m")]
    assert bounded(objects) == {0: 30}


def test_merged_classes_keep_what_a_node_takes_of_them() -> None:
    """Two classes of equal pods, since another pod's preference reads their label."""
    many = (p for i in range(2) for p in pods(f"p{i}-", 50, cpu="1", labels={"app": str(i)}))
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "0"}}}
    preferred = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}}
    objects = [*nodes(10, cpu="7900m"), *many, pod("small", cpu="100m", affinity=preferred)]
    assert compiled(objects).n_classes == 3
    assert bounded(objects) == {0: 71}


def test_odd_byte_counts_of_many_digits() -> None:
    """No common unit, and products beyond int64: rounding must not cost a pod either way."""
    heap = 2**37 + 1
    objects = [*nodes(10, memory=str(3 * heap)), *pods("p", 40, memory=str(heap)), *pods("q", 3, memory=str(2 * heap - 1))]
    assert bounded(objects) == {0: 30}
    assert bounded([*nodes(10, memory=str(3 * heap - 1)), *pods("p", 40, memory=str(heap))]) == {0: 20}


def test_pod_slots() -> None:
    assert bounded([*nodes(10, pods="3"), *pods("p", 20), *pods("q", 20, cpu="200m")]) == {0: 30}


def test_what_fixed_pods_hold_is_gone() -> None:
    objects = [*nodes(4, cpu="4"), *(pod(f"f{i}", cpu="3", node_name=f"n{i}") for i in range(4)), *pods("p", 20, cpu="500m")]
    assert bounded(objects) == {0: 8}


def test_classes_that_share_a_repulsion_share_the_nodes() -> None:
    objects = [*nodes(6)]
    for size in ("100m", "200m", "300m"):
        objects += pods(f"p{size}-", 4, cpu=size, labels={"app": "a"}, affinity=apart(HOST, "a"))
    assert bounded(objects) == {0: 6}


def test_repulsion_by_zone() -> None:
    zoned = [node(f"n{i}", labels={"zone": f"z{i % 3}"}) for i in range(9)]
    assert bounded([*zoned, *pods("p", 9, labels={"app": "a"}, affinity=apart("zone", "a"))]) == {0: 3}


def test_host_ports_are_taken_once_a_node() -> None:
    def user(name: str, cpu: str) -> Object:
        result = pod(name, cpu=cpu)
        result["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
        return result

    objects = [*nodes(5), *(user(f"p{i}", "100m") for i in range(4)), *(user(f"q{i}", "200m") for i in range(4))]
    assert bounded(objects) == {0: 5}


def test_a_full_zone_bounds_the_others_by_max_skew() -> None:
    """Zone z0 has room for 2; the others may exceed it by 1."""
    sized = [node(f"n{i}", cpu="2" if i == 0 else "20", labels={"zone": f"z{i}"}) for i in range(3)]
    members = pods("p", 20, cpu="1", labels={"app": "a"}, spread=spread_by("zone", "a"))
    assert bounded([*sized, *members]) == {0: 8}
    assert bounded([*sized, *members[:7], pod("f", cpu="1", node_name="n0", labels={"app": "a"}), *members[7:]]) == {0: 7}


def test_too_few_domains_cap_each_at_max_skew() -> None:
    zoned = [node(f"n{i}", cpu="20", labels={"zone": f"z{i}"}) for i in range(2)]
    assert bounded([*zoned, *pods("p", 20, cpu="1", labels={"app": "a"}, spread=spread_by("zone", "a", 3, minDomains=3))]) == {0: 6}


def test_pods_on_nodes_that_do_not_count_are_not_limited() -> None:
    """A pod's own nodes always count as the API stands; the bound does not rely on it."""
    zoned = [node(f"n{i}", cpu="20", labels={"zone": f"z{i // 2}"}) for i in range(4)]
    cluster = compiled([*zoned, *pods("p", 60, cpu="1", labels={"app": "a"}, spread=spread_by("zone", "a", minDomains=3))])
    limits = possible(cluster, rules.build(cluster))
    assert placed_bounds(cluster, limits, {}, seconds=5, deterministic=True) == {0: 2}
    cluster.node_sets[cluster.classes[0].spread[0].eligible] = np.array([True, False, True, True])
    assert placed_bounds(cluster, limits, {}, seconds=5, deterministic=True)[0] >= 22


def test_lower_tiers_raise_the_floor_for_higher_ones() -> None:
    """The five pods of priority 10 cannot enter z0, but those of priority 1 that are counted can."""
    zoned = [node("n0", cpu="4", labels={"zone": "z0", "only": "low"}), node("n1", cpu="4", labels={"zone": "z1", "only": "high"})]
    high = pods("h", 5, cpu="1", priority=10, labels={"app": "a"}, selector={"only": "high"})
    for p in high:
        p["spec"]["topologySpreadConstraints"] = spread_by("zone", "a", nodeAffinityPolicy="Ignore")
    low = pods("l", 3, cpu="1", priority=1, labels={"app": "a"}, selector={"only": "low"})
    assert bounded([*zoned, *high, *low])[10] == 4
    assert bounded([*zoned, *high, *low[:1]])[10] == 2


def test_nothing_is_solved_where_all_that_fits_is_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(bounds_module, "relax", refuse)
    assert bounded([*nodes(2), *pods("p", 5)], {0: 5}) == {0: 5}
    assert bounded([*nodes(2)]) == {}


# --- never below what can be reached ----------------------------------------------------------------------------------------


@functools.cache
def tiny_cluster(seed: int, kind: str) -> tuple[Cluster, tuple[tuple[int, ...], ...]]:
    """A random cluster, and the score of every placement of it that can be reached (as the checker says, too)."""
    cluster = compiled(tiny.snapshot(seed, kind))
    if not cluster.n_classes:
        return cluster, ((),)
    return cluster, tuple({score(cluster, s) for s, order in reachable(cluster).items() if accepted(cluster, order)})


@pytest.mark.parametrize("kind", sampled(tiny.ALL, every=4))
def test_no_reachable_placement_exceeds_a_bound(kind: str) -> None:
    """The bound holds for every incumbent of the higher tiers."""
    for seed in range(INSTANCES):
        cluster, scores = tiny_cluster(seed, kind)
        tiers = sorted({*cluster.priority.tolist()}, reverse=True)
        limits = possible(cluster, rules.build(cluster))
        for incumbent in {min(scores), max(scores)}:
            upper_bounds = placed_bounds(cluster, limits, dict(zip(tiers, incumbent, strict=True)), seconds=1, deterministic=True)
            assert set(upper_bounds) == set(tiers)
            for i, p in enumerate(tiers):
                best = max(s[i] for s in scores if all(s[j] >= incumbent[j] for j in range(i)))
                assert upper_bounds[p] >= best, f"{kind} seed {seed} tier {p}"
                assert upper_bounds[p] <= cluster.per_priority(fits(cluster, limits))[p]


@pytest.mark.parametrize("kind", sampled(tiny.ALL, every=4))
def test_every_grouping_of_the_nodes_is_a_relaxation(kind: str) -> None:
    for seed in range(INSTANCES):
        cluster, scores = tiny_cluster(seed, kind)
        tiers = sorted({*cluster.priority.tolist()}, reverse=True)
        if not tiers:
            continue
        top = max(s[0] for s in scores)
        shared = CrossRules(cluster)
        classes = kinds(cluster, possible(cluster, rules.build(cluster)), shared)
        for level, groups in enumerate(groupings(cluster, classes, shared)):
            relaxation = relax(cluster, classes, shared, groups, {})
            objective = (relaxation.priority == tiers[0]).astype(np.int64)
            assert best_bound(relaxation.program, objective, seconds=1, deterministic=True) >= top, f"{kind} seed {seed} level {level}"


@pytest.mark.full
@examples(150)
@given(st.sampled_from(tiny.ALL), st.integers(0, INSTANCES - 1), st.integers(0, 4), st.data())
def test_any_multipliers_give_a_bound(kind: str, seed: int, level: int, data: st.DataObject) -> None:
    """Wrong signs, NaN, infinities, tiny and huge ones: the solver's answer decides how good a bound is, not whether it is true."""
    cluster, scores = tiny_cluster(seed, kind)
    if not cluster.n_classes:
        return
    shared = CrossRules(cluster)
    classes = kinds(cluster, possible(cluster, rules.build(cluster)), shared)
    relaxation = relax(cluster, classes, shared, list(groupings(cluster, classes, shared))[level], {})
    number = st.one_of(st.floats(), st.floats(0, 2), st.just(0.0))
    height = len(relaxation.program.limit)
    y = np.array(data.draw(st.lists(number, min_size=height, max_size=height)), dtype=np.float64)
    top = max(cluster.priority.tolist())
    objective = (relaxation.priority == top).astype(np.int64)
    assert relaxation.program.bound(objective, y) >= max(s[0] for s in scores)


def reference(program: Program, objective: list[int], y: list[float]) -> Iterator[int]:
    """The dual bound, by fractions."""
    from fractions import Fraction

    shares = [Fraction(max(v, 0.0)) for v in y]
    total = sum((s * int(b) for s, b in zip(shares, program.limit, strict=True)), Fraction(0))
    for j, c in enumerate(objective):
        column = [(int(i), int(a)) for i, k, a in zip(program.rows, program.columns, program.values, strict=True) if k == j]
        total += max(Fraction(0), c - sum((shares[i] * a for i, a in column), Fraction(0))) * int(program.upper[j])
    yield total.numerator // total.denominator


@pytest.mark.parametrize("y", [np.inf, np.nan, 1e308, -1e308, 2.0**59, 5e-324])
def test_extreme_multipliers(y: float) -> None:
    one = np.zeros(1, dtype=np.int64)
    program = Program(one, one, np.array([2**31]), np.array([2**40]), np.array([2**20]))
    assert program.bound(np.array([1]), np.array([y])) >= 2**9


@given(st.integers(0, 10**6))
def test_the_bound_is_the_dual_value_of_rounded_multipliers(seed: int) -> None:
    """Multipliers that are fractions of a small power of two are not rounded at all, so that the value can be foretold."""
    rng = np.random.default_rng(seed)
    height, width = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    cells = np.flatnonzero(rng.random(height * width) < 0.7)
    big = int(rng.choice((10, 2**20, 2**30)))
    program = Program(
        cells // width,
        cells % width,
        rng.integers(-big, big, len(cells)),
        rng.integers(-big, big * 100, height),
        rng.integers(0, 2**20, width),
    )
    objective = rng.integers(0, 2, width)
    y = rng.integers(-4, 2**10, height) / 2**10
    assert [program.bound(objective, y)] == list(reference(program, objective.tolist(), y.tolist()))


# --- against the exact engine, and how it ends ----------------------------------------------------------------------------


def overfull(seed: int) -> list[Object]:
    rng = np.random.default_rng(seed)
    made: list[Object] = [node(f"n{i}", cpu=str(rng.integers(4, 9)), memory="16Gi", labels={"zone": f"z{i % 2}"}) for i in range(6)]
    for i in range(24):
        size, heap, tier = rng.integers(1, 5), rng.integers(1, 8), rng.choice((0, 10))
        made.append(pod(f"p{i}", cpu=str(size), memory=f"{heap}Gi", priority=int(tier), labels={"app": str(i % 3)}))
    return made


@pytest.mark.parametrize("seed", sampled(range(6), every=6))
def test_above_the_exact_engine_and_not_far(seed: int) -> None:
    snapshot = snapshots.from_objects(overfull(seed))
    result = place(snapshot, Options(engine="exact", time_limit=10, workers=2))
    tiers = {t.priority: t for t in result.objective if t.tier == "placed" and t.priority is not None}
    cluster = compile_cluster(snapshot, select(snapshot))
    upper_bounds = placed_bounds(
        cluster, possible(cluster, rules.build(cluster)), {p: t.value for p, t in tiers.items()}, seconds=5, deterministic=True
    )
    assert all(t.value <= upper_bounds[p] <= t.value + 3 for p, t in tiers.items())


@pytest.mark.parametrize("seconds", [None, 0.001, 5.0])
@pytest.mark.parametrize("simplex", [0, 60_000])
def test_both_solvers_and_any_limit_give_bounds(seconds: float | None, simplex: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.solver.bounds.safe_dual_bounds.SIMPLEX_LIMIT", simplex)
    cluster = compiled([*nodes(10, cpu="4"), *pods("p", 30, cpu="1"), *pods("q", 30, cpu="1", labels={"a": "b"})])
    limits = possible(cluster, rules.build(cluster))
    for deterministic in (False, True):
        upper_bounds = placed_bounds(cluster, limits, {0: 0}, seconds=seconds, deterministic=deterministic)
        assert 40 <= upper_bounds[0] <= 60
        if seconds != 0.001:
            assert upper_bounds == {0: 40}
            assert placed_bounds(cluster, limits, {0: 0}, seconds=seconds, deterministic=deterministic) == upper_bounds


def test_a_stop_that_is_already_set_ends_it() -> None:
    cluster = compiled([*nodes(10, cpu="4"), *pods("p", 60, cpu="1")])
    stop = threading.Event()
    stop.set()
    upper_bounds = placed_bounds(cluster, possible(cluster, rules.build(cluster)), {0: 0}, seconds=None, deterministic=False, stop=stop)
    assert 40 <= upper_bounds[0] <= 60


def test_too_many_pairs_are_grouped_more_coarsely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that differ only in free capacity: 19 CPUs in all, of which pods of one CPU can use 16."""
    fixed = [pod(f"f{i}", cpu=f"{i * 100}m", node_name=f"n{i}") for i in range(5)]
    objects = [*nodes(5, cpu="4"), *fixed, *pods("p", 30, cpu="1")]
    assert bounded(objects) == {0: 16}
    monkeypatch.setattr(bounds_module, "MAX_PAIRS", 1)
    assert 16 <= bounded(objects)[0] <= 19
