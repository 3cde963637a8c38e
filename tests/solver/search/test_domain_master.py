"""The zone-level master: it moves whole groups that single moves cannot, obeys every rule, and leaves no trace where it gains nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from models.cluster.compile import compile_cluster
from models.snapshot.scope import select
from models.snapshot.snapshot import from_objects
from solver import rules
from solver.bind_order.order import find_order
from solver.construction.greedy import construct
from solver.cpsat.run import CpSat
from solver.objective.incremental_score import SoftState
from solver.objective.preferences import Objective
from solver.rules.eligibility import possible
from solver.rules.placement_model import build_model
from solver.runtime.deadline import Deadline
from solver.runtime.options import Options
from solver.runtime.run_context import RunContext
from solver.search import domain_master as masters
from solver.search.annealing import COLD, HOT, LocalSearch
from solver.search.domain_master import Master
from tests import tiny_soft
from tests.objects import Object, node, pod
from tests.tiers import sampled

ZONE = "zone"


def blocks(most: int) -> Callable[[], Callable[[], float]]:
    """Progress of an anneal over so many blocks of moves."""

    def make() -> Callable[[], float]:
        done = iter(range(most + 1))
        return lambda: next(done) / most if most else 1.0

    return make


def start(objects: list[Object], where: dict[str, str] | None = None) -> tuple[LocalSearch, Master, Options]:
    """The search of a cluster, in the state of a placement (pod: node), or of what greedy finds."""
    snapshot = from_objects(objects)
    cluster = compile_cluster(snapshot, select(snapshot))
    active = rules.build(cluster)
    limits, objective = possible(cluster, active), Objective(cluster, active)
    counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
    if where is None:
        counts = construct(cluster, active, limits, tries=1, even=True, soft=SoftState(objective)).counts
    else:
        for g, cls in enumerate(cluster.classes):
            for i in cls.pods:
                name = snapshot.pods[i].metadata.name
                assert name is not None
                counts[g, list(cluster.nodes.names).index(where[name])] += 1
    sequence = find_order(cluster, counts).sequence
    assert sequence is not None
    search = LocalSearch(objective, rules.replay(cluster, sequence), limits, counts, seed=0)
    options = Options(time_limit=60, deterministic=True)
    return search, Master(search, CpSat(RunContext(options, Deadline(options, 0.0)))), options


def value(search: LocalSearch) -> int:
    return search.objective.total(search.objective.families(search.counts))


def prefers(zone: str, weight: int) -> Object:
    term = {"weight": weight, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


def pulls(app: str, weight: int, kind: str = "preferred") -> Object:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    if kind == "required":
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}


def swapped(kind: str = "preferred") -> tuple[list[Object], dict[str, str]]:
    """Two pairs of classes, each held together by zone, each in the zone that the other pair would like, all nodes full."""
    objects = [node(f"n{i}", cpu="4", labels={ZONE: f"z{i // 2}"}) for i in range(4)]
    where = {}
    for group, (home, wish) in enumerate(((0, "z1"), (1, "z0"))):
        for side in "ab":
            mate = f"{'b' if side == 'a' else 'a'}{group}"
            for i in range(4):
                name = f"{side}{group}-{i}"
                affinity = {"podAffinity": pulls(mate, 100), "nodeAffinity": prefers(wish, 5)}
                if kind == "required" and side == "b":
                    affinity["podAffinity"] = pulls(mate, 0, "required")
                objects.append(pod(name, cpu="1", labels={"app": f"{side}{group}"}, affinity=affinity))
                where[name] = f"n{2 * home + i // 2}"
    return objects, where


@pytest.mark.full
@pytest.mark.parametrize("kind", ["preferred", "required"])
def test_groups_in_each_others_zone_change_places(kind: str) -> None:
    """With required affinity the pods that others stand on move, too, and those follow."""
    objects, where = swapped(kind)
    search, _, _ = start(objects, where)
    search.run(blocks(20)(), hot=HOT / 10, cold=COLD)
    assert value(search) == value(start(objects, where)[0])  # single moves do not get there
    search, master, _ = start(objects, where)
    before = value(search)
    assert master.round(blocks(0)) == 16 * 5
    assert value(search) == before + 16 * 5
    assert find_order(search.cluster, search.counts).sequence is not None


def test_small_pods_make_room_for_a_large_one() -> None:
    """Each node of the zone has 1.5 left, and the pod asks for 2: a small pod has to go to the other node."""
    objects = [node(f"n{i}", cpu="4", labels={ZONE: f"z{i // 2}"}) for i in range(4)]
    objects.append(pod("large", cpu="2", affinity={"podAffinity": pulls("base", 10)}))
    objects += [pod("base", cpu="500m", labels={"app": "base"}, selector={"kubernetes.io/hostname": "n3"})]
    objects += [pod(f"s{i}", cpu="500m") for i in range(9)]
    where = {"large": "n0", "base": "n3"} | {f"s{i}": "n2" if i < 5 else "n3" for i in range(9)}
    search, master, _ = start(objects, where)
    assert master.round(blocks(0)) == 10
    assert (search.fit.free >= 0).all()


def test_spread_over_zones_holds() -> None:
    """Everyone would like zone 0, and maxSkew 1 lets in two of four; the master takes just these."""
    spread = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "s"}}}]
    objects = [node(f"n{i}", cpu="8", labels={ZONE: f"z{i // 2}"}) for i in range(6)]
    affinity = {"nodeAffinity": prefers("z0", 7)}
    objects += [pod(f"p{i}", labels={"app": "s"}, spread=spread, affinity=affinity) for i in range(4)]
    search, master, _ = start(objects, {f"p{i}": f"n{n}" for i, n in enumerate((0, 2, 4, 5))})
    assert master.round(blocks(0)) == 7
    assert sorted(int(search.counts[:, 2 * z : 2 * z + 2].sum()) for z in range(3)) == [1, 1, 2]


def test_nothing_to_do_without_a_key_that_groups_nodes() -> None:
    _, master, options = start([node("n"), node("m"), pod("p")])
    assert master.layouts == []
    assert master.round(blocks(1)) == 0
    assert options.deterministic


@pytest.mark.parametrize("kind", ["pods", "spread", "mixed"])
@pytest.mark.parametrize("seed", sampled(range(25), every=12))
def test_rules_hold_and_the_value_never_falls(seed: int, kind: str) -> None:
    search, master, _ = start(tiny_soft.snapshot(seed, kind, nodes=4, pods=8))
    cluster = search.cluster
    placed = search.counts.sum(axis=1)
    if not cluster.n_classes:
        return
    encoding = build_model(cluster, rules.build(cluster))
    for size in (masters.MOST, 12.0, 6.0):
        master.size = size
        before, counts = value(search), search.counts.copy()
        gain = master.round(blocks(seed % 2))
        assert gain >= 0
        assert value(search) == before + gain
        assert gain > 0 or (search.counts == counts).all()
        assert (search.counts.sum(axis=1) == placed).all()
        assert encoding.assignment(search.counts) is not None
        assert find_order(cluster, search.counts).sequence is not None or not _ordered(search)
        fresh = LocalSearch(search.objective, rules.build(cluster), search.limits, search.counts, seed=0).soft
        assert all((fresh.gain(g) == search.soft.gain(g)).all() for g in range(cluster.n_classes))


def _ordered(search: LocalSearch) -> bool:
    """Whether nothing but the final state counts: no constraint whose filter looks at the moment of binding."""
    return not any(cls.spread or cls.affinity for cls in search.cluster.classes)


@pytest.mark.full
def test_a_run_is_repeatable() -> None:
    def once() -> tuple[Any, ...]:
        search, master, _ = start(*swapped())
        gains = [master.round(blocks(2)) for _ in range(3)]
        return gains, search.counts.tolist(), master.cpsat.deadline.left()

    assert once() == once()


def test_a_result_that_gains_nothing_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that asks for the wrong thing: half of everyone in each zone."""
    search, master, _ = start(*swapped())
    counts, gains = search.counts.copy(), [search.soft.gain(g).tolist() for g in range(search.cluster.n_classes)]
    free, pairs = search.fit.free.copy(), search.pairs
    cells = np.array([0, 0, 1, 1])
    halves = np.stack([counts[:, cells == c].sum(axis=1) for c in (0, 1)], axis=1)
    halves = (halves + halves[:, ::-1]) // 2
    monkeypatch.setattr(Master, "_solve", lambda self, layout, classes: halves[classes])
    assert master.round(blocks(0)) == 0
    assert (search.counts == counts).all()
    assert [search.soft.gain(g).tolist() for g in range(search.cluster.n_classes)] == gains
    assert (search.fit.free == free).all()
    assert search.pairs == pairs
    assert (master.tried, master.kept) == (1, 0)
