"""Batch quotas: the pods chosen at once can be bound one after another, and something is chosen whenever a pod
can be placed."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Cluster, single
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.construction.batch_quota import BatchQuota, pour, ranks
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.base import UNLIMITED_PODS
from kubestow.solver.rules.batch_limits import Level
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread
from tests.objects import Object, node, pod
from tests.solver.bounds.test_coarse_model import near, terms
from tests.solver.bounds.test_shared_room import wish, wishing
from tests.solver.rules.test_agreement import accepted
from tests.tiers import examples, sampled

KEYS = ("zone", "rack", "kubernetes.io/hostname")
small = st.integers(0, 6)


# --- pour and ranks on their own -----------------------------------------------------------------------------------------------


@st.composite
def domains(draw: st.DrawFn) -> tuple[list[int], list[bool], list[int]]:
    size = draw(st.integers(1, 5))
    counts, room = (draw(st.lists(small, min_size=size, max_size=size)) for _ in range(2))
    return counts, draw(st.lists(st.booleans(), min_size=size, max_size=size)), room


def bind(counts: list[int], counted: list[bool], pods: list[int], skew: int, *, pinned: bool) -> bool:
    """Return True if pods can be bound so that each arrives where count + 1 - minimum ≤ skew, always in the
    emptiest domain that waits."""
    counts, pods = list(counts), list(pods)
    while any(pods):
        d = min((d for d, k in enumerate(pods) if k), key=lambda d: counts[d])
        floor = 0 if pinned or not any(counted) else min(c for c, inside in zip(counts, counted, strict=True) if inside)
        if counts[d] + 1 - floor > skew:
            return False
        counts[d] += 1
        pods[d] -= 1
    return True


def constraint(counts: NDArray[np.int64], counted: NDArray[np.int64], skew: int, *, pinned: bool) -> Level:
    codes = np.zeros(0, dtype=np.int32)
    return Level(codes, counts.astype(np.int64), counted.astype(bool), skew, pinned=pinned, single=False, own=True)


def poured(drawn: tuple[list[int], list[bool], list[int]], wanted: int, skew: int, *, pinned: bool, later: bool) -> list[int]:
    counts, counted, room = (np.array(part) for part in drawn)
    found = pour(constraint(counts, counted, skew, pinned=pinned), room.astype(np.int64), wanted, later=later)
    return [int(k) for k in found]


@pytest.mark.full
@examples(300)
@given(domains(), st.integers(0, 20), st.integers(1, 3), st.booleans(), st.booleans())
def test_what_is_poured_fits_and_can_be_bound(
    drawn: tuple[list[int], list[bool], list[int]], wanted: int, skew: int, pinned: bool, later: bool
) -> None:
    counts, counted, room = drawn
    found = poured(drawn, wanted, skew, pinned=pinned, later=later)
    assert all(0 <= k <= r for k, r in zip(found, room, strict=True))
    assert sum(found) <= wanted
    assert bind(counts, counted, found, skew, pinned=pinned)


@pytest.mark.full
@examples(300)
@given(domains(), st.integers(1, 20), st.integers(1, 3), st.booleans())
def test_nothing_more_could_have_been_poured(drawn: tuple[list[int], list[bool], list[int]], wanted: int, skew: int, pinned: bool) -> None:
    """With the minimum rising on the way, as many pods are given out as greedy binding of single pods would, for the same wish."""
    counts, counted, room = (list(part) for part in drawn)
    found = poured(drawn, wanted, skew, pinned=pinned, later=True)
    single_pods = 0
    while single_pods < wanted:
        floor = 0 if pinned or not any(counted) else min(c for c, inside in zip(counts, counted, strict=True) if inside)
        waiting = [d for d, r in enumerate(room) if r and counts[d] + 1 - floor <= skew]
        if not waiting:
            break
        d = min(waiting, key=lambda d: counts[d])
        counts[d], room[d], single_pods = counts[d] + 1, room[d] - 1, single_pods + 1
    assert sum(found) == single_pods


@given(domains(), st.integers(0, 20), st.integers(1, 3))
def test_pods_level_domains_up(drawn: tuple[list[int], list[bool], list[int]], wanted: int, skew: int) -> None:
    """No domain that got a pod ends more than one above one that could have taken more."""
    counts, _, room = drawn
    found = poured(drawn, wanted, skew, pinned=False, later=True)
    after = [c + k for c, k in zip(counts, found, strict=True)]
    got = [a for a, k in zip(after, found, strict=True) if k]
    open_ = [a for a, k, r in zip(after, found, room, strict=True) if k < r]
    assert not got or not open_ or max(got) <= min(open_) + 1


@given(domains(), st.integers(0, 20), st.integers(1, 3), st.randoms(use_true_random=False), st.booleans())
def test_ties_go_to_the_domains_whose_next_candidate_comes_first(
    drawn: tuple[list[int], list[bool], list[int]], wanted: int, skew: int, rng: random.Random, many: bool
) -> None:
    """Next to no tie, the order of the candidates changes nothing; ``many``: more domains than are looked through one by one."""
    counts, counted, room = map(np.array, drawn)
    if many:
        counts, counted, room = (np.append(part, np.full(10, off)) for part, off in ((counts, 99), (counted, False), (room, 0)))
    codes = [d for d, k in enumerate(room.tolist()) for _ in range(k)] + [-1] * 2
    rng.shuffle(codes)
    given_to = np.array(codes, dtype=np.int32)
    spread = constraint(counts, counted, skew, pinned=False)
    by_number = pour(spread, room.astype(np.int64), wanted, later=True)
    found = pour(spread, room.astype(np.int64), wanted, later=True, domains=given_to)
    assert found.sum() == by_number.sum()
    assert sorted((counts + found).tolist()) == sorted((counts + by_number).tolist())
    level = (counts + found)[found > 0].max(initial=0)
    places = [[i for i, code in enumerate(codes) if code == d] for d in range(len(counts))]
    chosen = [places[d][k - 1] for d, k in enumerate(found.tolist()) if k and counts[d] + k == level]
    passed = [places[d][k] for d, k in enumerate(found.tolist()) if k < room[d] and counts[d] + k == level - 1]
    assert not chosen or not passed or max(chosen) < min(passed)


@given(st.lists(st.integers(-1, 4), max_size=30))
def test_ranks_count_within_domains(drawn: list[int]) -> None:
    found = ranks(np.array(drawn, dtype=np.int32))
    assert found.tolist() == [drawn[:i].count(d) for i, d in enumerate(drawn)]


def test_single_domains() -> None:
    assert single(np.array([0, 1, -1], dtype=np.int32), 2)
    assert single(np.array([-1, -1], dtype=np.int32), 0)
    assert not single(np.array([0, 0, 1], dtype=np.int32), 2)
    assert UNLIMITED_PODS > 10**9


# --- choose, against the rules ---------------------------------------------------------------------------------------------------


def spread(rng: random.Random, app: str) -> Object:
    found: Object = {
        "maxSkew": rng.choice((1, 1, 2, 3)), "topologyKey": rng.choice(KEYS), "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }  # fmt: skip
    if rng.random() < 0.25:
        found["minDomains"] = rng.randint(1, 5)
    if rng.random() < 0.25:
        found["nodeTaintsPolicy"] = "Honor"
    if rng.random() < 0.25:
        found["nodeAffinityPolicy"] = "Ignore"
    return found


def instance(seed: int) -> list[Object]:
    """Nodes in uneven zones and racks, some without, some tainted; three classes with constraints on each other; fixed pods."""
    rng = random.Random(f"quotas-{seed}")
    objects = []
    for i in range(rng.randint(2, 9)):
        labels = {"disk": rng.choice(("ssd", "ssd", "hdd"))}
        if rng.random() < 0.9:
            labels["zone"] = rng.choice("xxyz")
        if rng.random() < 0.7:
            labels["rack"] = rng.choice("rst")
        spec: Object = {"taints": [{"key": "k", "effect": "NoSchedule"}]} if rng.random() < 0.15 else {}
        objects.append(node(f"n{i}", cpu="64", labels=labels, **spec))
    names = [o["metadata"]["name"] for o in objects]
    fixed = range(rng.choice((0, 0, 2, 5)))
    objects += [pod(f"f{i}", labels={"app": rng.choice("abc")}, node_name=rng.choice(names)) for i in fixed]
    for app in "abc":
        affinity: Object = {}
        if rng.random() < 0.3:
            term = {"topologyKey": rng.choice(KEYS), "labelSelector": {"matchLabels": {"app": rng.choice((app, app, *"abc"))}}}
            affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        listed = [spread(rng, rng.choice((app, app, *"abc"))) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        listed = list({s["topologyKey"]: s for s in listed}.values())
        selector = {"disk": "ssd"} if rng.random() < 0.3 else None
        tolerations = [{"key": "k", "operator": "Exists"}] if rng.random() < 0.4 else []
        shape = {"labels": {"app": app}, "affinity": affinity, "spread": listed, "selector": selector, "tolerations": tolerations}
        objects += [pod(f"{app}{i}", **shape) for i in range(rng.randint(1, 12))]  # type: ignore[arg-type]
    return objects


class _Bound:
    """A cluster while pods are bound to it, one by one, every rule asked each time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.active = rules.build(cluster)
        self.spread = next(r for r in self.active if isinstance(r, PodTopologySpread))
        self.pods = next(r for r in self.active if isinstance(r, InterPodAffinity))

    def fine(self, g: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.asarray(~np.logical_or.reduce([rule.rejects(g) | rule.breaks(g) for rule in self.active]))

    def bind(self, g: int, n: int) -> None:
        for rule in self.active:
            rule.place(g, n, 1)


def rounds(seed: int) -> int:
    """Choose and bind, class after class, until nothing moves; the pods that went in bursts of several."""
    rng = random.Random(seed)
    snapshot = from_objects(instance(seed))
    state = _Bound(compile_cluster(snapshot, select(snapshot)))
    remaining = state.cluster.count.tolist()
    several, idle, turn = 0, 0, 0
    bound: list[tuple[int, int, int]] = []
    while idle < len(remaining):
        g = turn % len(remaining)
        turn += 1
        where = f"seed {seed} turn {turn} class {g}"
        fine = np.flatnonzero(state.fine(g))
        if not remaining[g] or not len(fine):
            idle += 1
            continue
        idle = 0
        shy = [state.cluster.domains(rng.choice(KEYS))] if rng.random() < 0.5 else []  # as if pods rather kept apart there
        quotas = BatchQuota(state.spread.levels(g), (), state.pods.exclusive(g), shy)
        nodes = np.array(rng.sample(fine.tolist(), len(fine)), dtype=np.int64)
        if not quotas.per_node:
            nodes = np.repeat(nodes, rng.randint(1, 4))
        wanted = rng.randint(1, remaining[g])
        chosen = quotas.choose(nodes, wanted, fine)
        assert 1 <= len(chosen) <= wanted, where
        assert (np.unique(chosen, return_counts=True)[1] <= np.count_nonzero(nodes == nodes[0])).all(), where
        for i, n in enumerate(chosen.tolist()):
            assert not state.spread.rejects(g)[n], f"{where}: pod {i} on {n}: maxSkew"
            assert not state.pods.rejects(g)[n], f"{where}: pod {i} on {n}: anti-affinity"
            state.bind(g, n)
            bound.append((g, n, 1))
        remaining[g] -= len(chosen)
        several += len(chosen) if len(chosen) > 1 else 0
    assert accepted(state.cluster, bound), f"seed {seed}: the final state"
    return several


@pytest.mark.parametrize("batch", sampled(range(8), every=8))
def test_what_is_chosen_can_be_bound_in_the_order_given(batch: int) -> None:
    assert sum(rounds(seed) for seed in range(batch * 100, batch * 100 + 100)) > 300


def test_a_burst_fills_unequal_zones_in_one_go() -> None:
    """Zones of 1, 2 and 5 nodes: with maxSkew 1 and one pod a node, the smallest zone holds the others back after its only pod."""
    zones = "xyyzzzzz"
    objects = [node(f"n{i}", labels={"zone": z}) for i, z in enumerate(zones)]
    constraint = {
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}},
    }  # fmt: skip
    anti = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [anti]}}
    objects += [pod(f"p{i}", labels={"app": "a"}, spread=[constraint], affinity=affinity) for i in range(8)]
    snapshot = from_objects(objects)
    state = _Bound(compile_cluster(snapshot, select(snapshot)))
    quotas = BatchQuota(state.spread.levels(0), (), state.pods.exclusive(0), ())
    assert quotas.per_node
    chosen = quotas.choose(np.arange(8), 8, np.arange(8))
    assert sorted(zones[n] for n in chosen) == ["x", "y", "y", "z", "z"]


# --- preferences --------------------------------------------------------------------------------------------------------------


def shy_instance(seed: int) -> list[Object]:
    """Return workloads whose pods prefer to keep apart over zones or racks, with further preferences, and
    running pods."""
    rng = random.Random(seed)
    objects: list[Object] = []
    for i in range(rng.randint(3, 12)):
        labels = {"rack": f"r{rng.randrange(3)}"} | ({"zone": rng.choice("xyz")} if rng.random() < 0.95 else {})
        objects.append(node(f"n{i}", labels=labels | ({"disk": "ssd"} if rng.random() < 0.5 else {})))
    for app in "ab":
        keys = rng.sample(KEYS, rng.choice([1, 1, 2]))
        drawn = [(key, rng.choice([1, 10, 50]), rng.choice(["a", app, app])) for key in keys]
        affinity = terms(repels=[near(other, key, weight) for key, weight, other in drawn])
        if rng.random() < 0.4:
            affinity |= wishing(wish("disk", "ssd", rng.choice([1, 20])))
        for i in range(rng.randint(2, 9)):
            at = f"n{rng.randrange(3)}" if rng.random() < 0.1 else None
            objects.append(pod(f"{app}{i}", labels={"app": app}, affinity=affinity, node_name=at))
    return objects


def turns(seed: int) -> int:
    """Choose at once until no pod is left; the pods that went beyond the first of each domain. Each goes, when its turn comes, where
    most points are."""
    snapshot = from_objects(shy_instance(seed))
    cluster = compile_cluster(snapshot, select(snapshot))
    active = rules.build(cluster)
    soft, pods = SoftState(Objective(cluster, active)), InterPodAffinity.of(active)
    beyond = 0
    for g, wanted in enumerate(cluster.count.tolist()):
        remaining = wanted
        while remaining:
            admitted = np.arange(cluster.n_nodes)
            gain = soft.gain(g)
            quotas = BatchQuota((), (), pods.exclusive(g), soft.shy(g), flocks=soft.flocks(g))
            once = BatchQuota((), (), pods.exclusive(g), soft.shy(g), flocks=True)
            nodes = np.flatnonzero(gain == gain.max())
            chosen = quotas.choose(nodes, remaining, admitted)
            assert 1 <= len(chosen) <= remaining
            for n in chosen.tolist():
                assert soft.gain(g)[n] == soft.gain(g).max(), f"seed {seed} class {g} node {n}"
                soft.place(g, n)
            beyond += len(chosen) - len(once.choose(nodes, remaining, admitted))
            remaining -= len(chosen)
    return beyond


@pytest.mark.parametrize("batch", sampled(range(5), every=5))
def test_pods_that_repel_each_other_go_to_domains_in_turn(batch: int) -> None:
    assert sum(turns(seed) for seed in range(batch * 60, batch * 60 + 60)) >= 20
