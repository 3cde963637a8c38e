"""Bounds of groups that compete for room: never below the optimum, and equal to it where whole pods are no loss."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.bounds import safe_dual_bounds, shared_room
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.construction.greedy import construct
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.eligibility import fits, possible
from kubestow.solver.runtime.options import Engine, Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod
from tests.solver.bounds.test_coarse_model import HOST, ZONE, best, compiled, cpsat, near, terms, tighten
from tests.tiers import in_slow


def wish(label: str, value: str, weight: int) -> Object:
    return {"weight": weight, "preference": {"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]}}


def wishing(*wishes: Object) -> Object:
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(wishes)}}


def contended(seed: int, *, whole: bool = False) -> list[Object]:
    """Few nodes that most pods want, with tainted ones among the others. ``whole``: pods of one size, of which nodes hold whole numbers."""
    rng = random.Random(f"contended-{seed}")
    objects: list[Object] = []
    for i in range(rng.randint(3, 6)):
        made = node(
            f"n{i}",
            cpu=rng.choice(("1", "2", "3")) if whole else rng.choice(("1", "1500m", "2")),
            memory=rng.choice(("1Gi", "2Gi", "8Gi")) if not whole else "64Gi",
            pods=rng.choice(("2", "10", "10")) if not whole else "100",
            labels={"disk": rng.choice(("ssd", "hdd")), ZONE: f"z{i % 2}"},
        )
        if rng.random() < 0.3:
            made["spec"]["taints"] = [{"key": "old", "effect": "PreferNoSchedule"}]
        objects.append(made)
    for c in range(rng.randint(2, 5)):
        wishes = [wish("disk", "ssd", rng.choice((10, 50, 100)))] if rng.random() < 0.8 else []
        wishes += [wish(ZONE, "z0", rng.choice((1, 30)))] if rng.random() < 0.4 else []
        affinity: Object = {} if whole else terms([near("a", rng.choice((ZONE, HOST)), 20)] if rng.random() < 0.2 else ())
        if not whole and rng.random() < 0.3:
            affinity |= terms(repels=[near("b", rng.choice((ZONE, HOST)), 20)])
        affinity |= wishing(*wishes)
        shape: dict[str, Any] = {
            "cpu": "1" if whole else rng.choice(("250m", "500m", "700m", "1")),
            "memory": "64Mi" if whole else rng.choice(("64Mi", "700Mi")),
            "labels": {"app": rng.choice("abc")}, "affinity": affinity, "priority": 0 if whole else rng.choice((0, 0, 5)),
        }  # fmt: skip
        objects += [pod(f"p{c}-{i}", **shape) for i in range(rng.randint(1, 3))]
    if not whole and rng.random() < 0.4:
        objects.append(pod("running", cpu="500m", labels={"app": "a"}, node_name="n0"))
    return objects


def bounds(objects: list[Object]) -> tuple[Components, int, int] | None:
    """The groups, the sum of their separate values, and the optimum."""
    cluster = compiled(objects)
    active = rules.build(cluster)
    limits = possible(cluster, active)
    counts = construct(cluster, active, limits, tries=2).counts
    unplaced = cluster.per_priority(fits(cluster, limits) - counts.sum(axis=1))
    optimum = best(cluster, unplaced)[1]
    if optimum is None:
        return None
    components = Components(cluster, Objective(cluster, rules.build(cluster)), limits, unplaced)
    alone = components.bound
    components.share_every, together = 0, cpsat()
    components.bound_jointly(together)
    assert optimum <= components.bound <= alone
    for component in components.found:
        if not component.proved:
            tighten(components, component, counts)
            components.bound_jointly(together)
            assert components.bound >= optimum
    return components, alone, optimum


def test_groups_that_compete_are_never_bounded_too_tightly() -> None:
    tighter = 0
    for seed in range(80):
        result = bounds(contended(seed))
        assert result is not None
        tighter += result[0].bound < result[1]
    assert tighter > 20


@pytest.mark.slow
def test_no_more_of_them() -> None:
    assert sum(bounds(contended(seed)) is not None for seed in range(80, 1_000)) == 920


def test_a_program_that_is_too_large_for_simplex_is_no_less_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_dual_bounds, "SIMPLEX_LIMIT", 0)
    for seed in range(12):
        result = bounds(contended(seed))
        assert result is not None
        assert result[0].prices is None


def test_the_bound_is_the_optimum_where_pods_have_one_size() -> None:
    tighter = 0
    for seed in range(60):
        result = bounds(contended(seed, whole=True))
        assert result is not None
        assert result[0].bound == result[2], seed
        tighter += result[0].bound < result[1]
    assert tighter > 10


def test_too_many_columns_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_room, "MAX_COLUMNS", 1)
    result = bounds(contended(0, whole=True))
    assert result is not None
    assert result[0].bound == result[1]


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
def test_room_that_no_integer_of_64_bits_holds_is_room(nodes: int) -> None:
    objects = [node(f"n{i}", memory="4Ei", labels={"disk": "ssd"}) for i in range(nodes)] + [node("hdd", memory="1Gi")]
    objects += [pod(f"p{i}", memory="1Gi", affinity=wishing(wish("disk", "ssd", 10))) for i in range(3)]
    result = bounds(objects)
    assert result is not None
    assert result[0].bound == result[2] == 30


def test_no_classes_and_no_nodes_are_bounded_by_nothing() -> None:
    for objects in ([node("n0")], [pod("p")]):
        cluster = compiled(objects)
        active = rules.build(cluster)
        components = Components(cluster, Objective(cluster, active), possible(cluster, active), {})
        components.bound_jointly(cpsat())
        assert (components.bound, components.prices) == (0, None)


def test_pods_that_gain_least_are_charged_for_room_that_others_want() -> None:
    """Two pods to a node; the two nodes with ssd are worth 100 to four pods, 10 to four others: half of a pod's CPU costs 10 to 100."""
    objects = [node(f"n{i}", cpu="2", pods="10", labels={"disk": "ssd" if i < 2 else "hdd"}) for i in range(4)]
    for name, weight in (("little", 10), ("much", 100)):
        wishes = wishing(wish("disk", "ssd", weight))
        objects += [pod(f"{name}-{i}", cpu="1", labels={"app": name}, affinity=wishes) for i in range(4)]
    result = bounds(objects)
    assert result is not None
    components, alone, optimum = result
    assert (alone, components.bound, optimum) == (440, 400, 400)
    assert components.prices is not None
    charge = components.prices.charges(1.0)
    for g in range(2):
        assert 10 <= charge(g)[0] <= 100
        assert charge(g).tolist() == [charge(g)[0], charge(g)[0], 0, 0]
    assert components.prices.charges(0.5)(0)[0] == np.rint(charge(0)[0] / 2)


@pytest.mark.parametrize(("engine", "percent"), [in_slow(("lns", 100)), ("greedy", 99)])
@pytest.mark.full
def test_a_search_that_is_guided_by_prices_proves_what_it_finds(engine: Engine, percent: int) -> None:
    """400 pods of 40 workloads want 20 of 60 nodes, which take 160; the bound is that of the 160 that gain most."""
    rng = random.Random(7)
    objects = [node(f"n{i}", cpu="8", pods="100", labels={"disk": "ssd" if i < 20 else "hdd"}) for i in range(60)]
    weights = []
    for c in range(40):
        weights.append(rng.randint(1, 100))
        wishes = wishing(wish("disk", "ssd", weights[-1]))
        objects += [pod(f"p{c}-{i}", cpu="1", labels={"app": f"a{c}"}, affinity=wishes) for i in range(10)]
    placement = place(from_objects(objects), Options(engine=engine, deterministic=True, time_limit=20.0))
    soft = next(tier for tier in placement.objective if tier.tier == "soft")
    assert soft.bound == 10 * sum(sorted(weights)[-16:])
    assert 100 * soft.value >= percent * soft.bound
