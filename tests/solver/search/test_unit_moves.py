"""Pods that depend on each other move together: no rule is violated on the way, and the gain is that of the objective."""

from __future__ import annotations

import numpy as np
import pytest

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.bind_order.order import find_order
from kubestow.solver.construction.greedy import construct
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.search import unit_moves
from kubestow.solver.search.annealing import anneal
from kubestow.solver.search.local_search import LocalSearch
from tests.objects import Object, node, pod

ZONE = "zone"


def needs(app: str) -> Object:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def likes_zone(zone: str, weight: int) -> Object:
    preference = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": preference}]}}


def near(app: str, weight: int) -> Object:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}


def searching(objects: list[Object], seed: int = 0, first: int = 99) -> LocalSearch:
    """A search that begins with all pods on the first ``first`` nodes."""
    snapshot = from_objects(objects)
    cluster = compile_cluster(snapshot, select(snapshot))
    active = rules.build(cluster)
    limits = possible(cluster, active)
    built = construct(cluster, active, np.where(np.arange(cluster.n_nodes) < first, limits, 0))
    return LocalSearch(Objective(cluster, rules.build(cluster)), rules.replay(cluster, built.sequence), limits, built.counts, seed=seed)


def value(search: LocalSearch) -> int:
    return search.objective.total(search.objective.families(search.counts))


def annealed(search: LocalSearch, looks: int = 40) -> int:
    done = iter(range(looks))
    search.block = 64
    return anneal(search, lambda: next(done, looks) / looks)


def zones(*cpu: str) -> list[Object]:
    """Two nodes for each zone."""
    return [node(f"n{z}{i}", cpu=c, labels={"kubernetes.io/hostname": f"n{z}{i}", ZONE: f"z{z}"}) for z, c in enumerate(cpu) for i in "ab"]


def together() -> list[Object]:
    """Five pods that depend on each other, in the zone that they do not prefer."""
    affinity = needs("a") | likes_zone("z1", 10)
    return zones("4", "4") + [pod(f"p{i}", cpu="1", labels={"app": "a"}, affinity=affinity) for i in range(5)]


def test_pods_that_stand_on_each_other_change_zones_together(monkeypatch: pytest.MonkeyPatch) -> None:
    search = searching(together(), first=2)
    assert (value(search), annealed(search), value(search)) == (20, 50, 70)  # a point for each pair that required affinity ties
    monkeypatch.setattr(unit_moves, "PARAMETERS", unit_moves.UnitParameters(probability=0))
    assert annealed(searching(together(), first=2)) == 0  # one by one none of them can leave


def test_those_that_stand_on_others_come_along() -> None:
    objects = zones("4", "4")
    objects += [pod(f"db{i}", cpu="1", labels={"app": "db"}, affinity=likes_zone("z1", 100)) for i in range(2)]
    objects += [pod(f"web{i}", cpu="1", labels={"app": "web"}, affinity=needs("db") | likes_zone("z0", 1)) for i in range(4)]
    search = searching(objects, first=2)
    assert (value(search), annealed(search)) == (4 + 8, 200 - 4)
    assert find_order(search.cluster, search.counts, seed=0).sequence is not None


def test_a_provider_that_others_need_stays_while_those_cannot_move() -> None:
    objects = [*zones("4", "4"), pod("db", cpu="1", labels={"app": "db"}, affinity=likes_zone("z1", 100))]
    objects += [pod(f"web{i}", cpu="1", labels={"app": "web"}, affinity=needs("db"), selector={ZONE: "z0"}) for i in range(2)]
    search = searching(objects, first=2)
    assert annealed(search) == 0
    spare = [*objects, pod("db2", cpu="1", labels={"app": "db"}, affinity=likes_zone("z1", 50))]
    search = searching(spare, first=2)
    assert annealed(search) == 100 - 2  # one of the two may go: the one that gains more; what ties it to two pods goes


@pytest.mark.parametrize("seed", range(6))
def test_every_state_obeys_the_rules_and_the_gain_is_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects = zones("8", "8", "8")
    for a in range(5):
        affinity = needs(f"a{int(rng.integers(a + 1))}") if rng.random() < 0.7 else {}
        affinity |= likes_zone(f"z{int(rng.integers(3))}", int(rng.integers(1, 100)))
        soft = near(f"a{int(rng.integers(5))}", int(rng.integers(1, 100)))
        affinity["podAffinity"] = affinity.get("podAffinity", {}) | soft
        objects += [pod(f"p{a}-{i}", cpu="1", labels={"app": f"a{a}"}, affinity=affinity) for i in range(int(rng.integers(2, 6)))]
    search = searching(objects, seed)
    before, pods = value(search), search.counts.sum(axis=1)
    gain = annealed(search, 60)
    assert gain == value(search) - before
    assert (search.counts.sum(axis=1) == pods).all()
    assert find_order(search.cluster, search.counts, seed=0).sequence is not None
    listed = np.zeros_like(search.counts)
    for g, n in search.pairs:
        listed[g, n] += 1
    assert (listed == search.counts).all()
