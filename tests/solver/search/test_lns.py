"""Large neighbourhoods: a part of the model says what the whole says, repairs keep the state consistent and get where moves cannot."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_, find_order
from kubestow.solver.construction.greedy import construct
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.objective import encoding as objective_encoding
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.eligibility import fits, possible
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.search.annealing import START_TEMPERATURE, anneal
from kubestow.solver.search.lns import Lns
from kubestow.solver.search.local_search import LocalSearch
from kubestow.solver.search.neighbourhoods import Neighbourhood
from tests import tiny, tiny_soft
from tests.objects import Object, node, pod
from tests.tiers import sampled, seeds

Cells = dict[tuple[int, int], int]
ZONE, HOST = "zone", "kubernetes.io/hostname"
REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
#: Assignments of the freed pods that are compared per neighbourhood.
MOST = 24


def compiled(objects: list[Object]) -> Cluster:
    snapshot = from_objects(objects)
    return compile_cluster(snapshot, select(snapshot))


def searching(cluster: Cluster, sequence: Sequence_, seed: int = 0) -> Lns:
    """Neighbourhood search from a placement and its bind order."""
    active = rules.build(cluster)
    objective, limits = Objective(cluster, active), possible(cluster, active)
    counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
    for g, n, k in sequence:
        counts[g, n] += k
    search = LocalSearch(objective, rules.replay(cluster, sequence), limits, counts, seed=seed)
    options = Options(time_limit=1e6, deterministic=True, workers=1)
    return Lns(search, CpSat(RunContext(options, Deadline(options, 0.0))))


def greedily(cluster: Cluster, seed: int = 0) -> Sequence_:
    active = rules.build(cluster)
    return construct(cluster, active, possible(cluster, active), RunContext.start(Options(seed=seed)), tries=2).sequence


def at(cluster: Cluster, where: dict[str, str]) -> Sequence_:
    """The bind order of a placement that is said by pod name."""
    steps = []
    for name, target in where.items():
        g = next(g for g, cls in enumerate(cluster.classes) if any(cluster.snapshot.pods[i].metadata.name == name for i in cls.pods))
        steps.append((g, list(cluster.nodes.names).index(target), 1))
    return steps


def times(limit: int) -> Callable[[], bool]:
    """Return a deadline that expires after ``limit`` queries."""
    remaining = iter(range(limit))
    return lambda: next(remaining, None) is None


def value(search: LocalSearch) -> int:
    return search.objective.total(search.objective.families(search.counts))


def assert_consistent(lns: Lns, where: str) -> None:
    """Rules and soft counters are those of a fresh replay; the model admits the placement."""
    search, cluster = lns.search, lns.cluster
    assert (search.counts >= 0).all(), where
    assert (search.counts.sum(axis=1) <= cluster.count).all(), where
    cells = [(int(g), int(n), int(search.counts[g, n])) for g, n in zip(*np.nonzero(search.counts), strict=True)]
    fresh = LocalSearch(search.objective, rules.replay(cluster, cells), search.eligibility, search.counts, seed=0)
    for g in range(cluster.n_classes):
        assert (search.soft.gain(g) == fresh.soft.gain(g)).all(), where
        for rule, same in zip(search.active, fresh.active, strict=True):
            if rule in lns.search.rules:
                assert (rule.rejects(g) == same.rejects(g)).all(), f"{where}: {rule.name}"
    assert admits(build_model(cluster, rules.build(cluster)), search.counts) is not None, where


# --- a part of the model ------------------------------------------------------------------------------------------------------------


def admits(encoding: PlacementModel, counts: Ints, *, objective: bool = False) -> list[int] | None:
    """All variables under an assignment, or None; cells without a variable take no pods."""
    if any(counts[g, n] > encoding.upper(int(g), int(n)) for g, n in np.argwhere(counts)):
        return None
    if any(int(counts[g].sum()) > encoding.fits[g] for g in range(len(counts))):
        return None
    return encoding.assignment(counts, objective=objective)


def freed(lns: Lns, rng: random.Random) -> Cells:
    """Pods to remove: some of those that may move alone, or all of a group whose pods depend on each other."""
    counts = lns.search.counts
    if rng.random() < 0.4:
        placed = [g for g in range(len(counts)) if counts[g].any() and lns.neighbourhoods._group(g) is not None]
        if placed:
            group = lns.neighbourhoods._group(rng.choice(placed))
            assert group is not None
            return lns.neighbourhoods._all_of(group)
    cells = [(g, int(n)) for g in sorted(lns.search.mobile) for n in np.flatnonzero(counts[g])]
    chosen = rng.sample(cells, rng.randint(min(1, len(cells)), min(3, len(cells))))
    return {cell: rng.randint(1, int(counts[cell])) for cell in chosen}


def assignments(pods: dict[int, int], nodes: Ints, shape: tuple[int, int], rng: random.Random) -> Iterator[Ints]:
    """Yield ways to put at most the given number of pods of each class on some nodes: all of the list, or a random part."""
    per_class = [[v for v in itertools.product(range(k + 1), repeat=len(nodes)) if sum(v) <= k] for k in pods.values()]
    listed = list(itertools.islice(itertools.product(*per_class), 20_000))
    for choice in listed if len(listed) <= MOST else rng.sample(listed, MOST):
        counts = np.zeros(shape, dtype=np.int64)
        for g, row in zip(pods, choice, strict=True):
            counts[g, nodes] = row
        yield counts


def compare(cluster: Cluster, seed: int, where: str) -> tuple[int, int, int]:
    """Assert on one neighbourhood; (assignments both admit, both refuse, only the part refuses)."""
    rng = random.Random(seed)
    lns = searching(cluster, greedily(cluster, seed))
    free = freed(lns, rng)
    if not free:
        return 0, 0, 0
    search = lns.search
    home = np.zeros_like(search.counts)
    for cell, k in free.items():
        home[cell] = k
    search.take_out(free)
    staying = search.counts.copy()
    nodes = np.array(sorted({n for _, n in free} | set(rng.sample(range(cluster.n_nodes), rng.randint(0, cluster.n_nodes)))))
    part = build_model(cluster, lns.search.rules, lns._part(Neighbourhood("drawn", free, nodes)))
    points = objective_encoding.encode(part, search.objective, search.soft)
    part.model.maximize(points.expression())
    whole = build_model(cluster, rules.build(cluster))
    both = neither = stricter = 0
    constants = set()
    pods = {g: int(home[g].sum()) for g in np.flatnonzero(home.sum(axis=1)).tolist()}
    for counts in itertools.chain([home], assignments(pods, nodes, staying.shape, rng)):
        said = admits(part, counts, objective=True)
        right = admits(whole, staying + counts)
        detail = f"{where}: free {free}, {np.argwhere(counts).tolist()}"
        assert said is None or right is not None, f"{detail}: only the part admits it"
        if said is not None:
            both += 1
            constants.add(search.objective.total(search.objective.families(staying + counts)) - points.value(said))
        elif right is None:
            neither += 1
        else:
            stricter += 1
            assert _shared_tally(cluster) or _opened(lns, cluster), f"{detail}: only the whole admits it"
    assert len(constants) <= 1, f"{where}: the points are off by {constants}"
    return both, neither, stricter


def _shared_tally(cluster: Cluster) -> bool:
    """Return whether two constraints count the same pods and domains but differ in maxSkew or minDomains: pods that stay then hold the
    sharper one as well (:meth:`kubestow.solver.rules.pod_topology_spread.rule.PodTopologySpread.breaks`)."""
    seen: dict[tuple[int | None, str, int], set[tuple[int, int]]] = {}
    for cls in cluster.classes:
        for s in cls.spread:
            seen.setdefault((s.matcher, s.key, s.eligible), set()).add((s.max_skew, s.min_domains))
    return any(len(classes) > 1 for classes in seen.values())


def _opened(lns: Lns, cluster: Cluster) -> bool:
    """Return whether a freed pod might open its own group before those that stay, which a part binds first."""
    return any(
        cls.affinity is not None and cls.affinity.itself and not InterPodAffinity.of(lns.search.active).opening(g)
        for g, cls in enumerate(cluster.classes)
    )


@pytest.mark.parametrize("kind", sampled(["affinity", "anti", "spread", "ports", "resources", "mixed"], every=6))
@seeds(20, 60)
def test_a_part_admits_what_the_whole_admits(seeds: range, kind: str) -> None:
    comparisons = [compare(compiled(tiny.snapshot(seed, kind, nodes=4, pods=6)), seed, f"{kind} seed {seed}") for seed in seeds]
    both, neither, stricter = (sum(column) for column in zip(*comparisons, strict=True))
    assert both > len(seeds)
    assert neither or seeds.start or kind == "resources"
    assert stricter < both / 5


@pytest.mark.full
@pytest.mark.parametrize("kind", ["nodes", "pods", "spread", "mixed"])
def test_points_of_a_part_are_those_of_the_whole(kind: str) -> None:
    both = sum(
        compare(compiled(tiny_soft.snapshot(seed, kind, nodes=4, pods=6)), seed, f"soft {kind} seed {seed}")[0] for seed in range(40)
    )
    assert both > 20


# --- repair, improve, place ---------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("kind", ["pods", "spread", "nodes", "mixed"])
@seeds(10, 25)
def test_improving_never_loses_points_or_pods_and_keeps_the_state_in_step(seeds: range, kind: str) -> None:
    gained = 0
    for seed in seeds:
        cluster = compiled(tiny_soft.snapshot(seed, kind, nodes=4, pods=8))
        lns = searching(cluster, greedily(cluster), seed)
        search, where = lns.search, f"{kind} seed {seed}"
        if not cluster.n_classes or search.objective.containers.involved:
            continue
        pods, before = search.counts.sum(axis=1), value(search)
        reported: list[int] = []
        gain = lns.improve(times(6), reported.append)
        assert gain >= 0, where
        assert value(search) == before + gain, where
        assert reported == sorted(reported), where
        assert (reported[-1] if reported else 0) == gain, where
        assert (search.counts.sum(axis=1) == pods).all(), where
        assert len(search.pairs) == sum(int(pods[g]) for g in search.moving), where
        assert_consistent(lns, where)
        gained += gain > 0
    assert gained or seeds.start or kind in ("nodes", "mixed")


@pytest.mark.full
@pytest.mark.parametrize("kind", ["resources", "anti", "spread", "affinity", "ports", "mixed"])
@seeds(12, 25)
def test_placing_never_loses_a_pod_of_a_higher_priority(seeds: range, kind: str) -> None:
    more = 0
    for seed in seeds:
        cluster = compiled(tiny.snapshot(seed, kind, nodes=3, pods=9))
        sequence = greedily(cluster)
        rng = random.Random(seed)
        sequence = [step for step in sequence if rng.random() < 0.6] if kind in ("resources", "ports", "anti") else sequence
        lns = searching(cluster, sequence, seed)
        search, where = lns.search, f"{kind} seed {seed}"
        if not cluster.n_classes:
            continue
        before = rank(cluster, search.counts)
        lns.place(fits(cluster, search.eligibility), times(5))
        assert rank(cluster, search.counts) >= before, where
        more += rank(cluster, search.counts) > before
        assert_consistent(lns, where)
    assert more or seeds.start or kind in ("spread", "affinity", "mixed")


def rank(cluster: Cluster, counts: Ints) -> list[int]:
    """Placed pods, the highest priority first."""
    per = cluster.per_priority(counts.sum(axis=1))
    return [per[p] for p in sorted(per, reverse=True)]


def apart(app: str) -> Object:
    return {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}]}}


def test_two_pods_of_a_low_priority_are_not_worth_one_of_a_middle_one() -> None:
    """The third pod of the highest priority has no node left; the room it is given must not be used to trade among the others."""
    objects = [node(f"n{i}", cpu="3") for i in range(2)]
    objects += [pod(f"high{i}", cpu="1", priority=10, labels={"app": "h"}, affinity=apart("h")) for i in range(3)]
    objects += [pod(f"mid{i}", cpu="2", priority=5) for i in range(2)] + [pod(f"low{i}", cpu="1") for i in range(4)]
    cluster = compiled(objects)
    lns = searching(cluster, at(cluster, {"high0": "n0", "high1": "n1", "mid0": "n0", "mid1": "n1"}))
    lns.place(cluster.count, times(4))
    assert rank(cluster, lns.search.counts) == [2, 2, 0]


def test_a_perfect_packing_is_found_where_greedy_leaves_a_pod() -> None:
    """Two nodes of 9: 5 + 4 and 3 + 3 + 3, which filling the tightest first with the largest does not find."""
    sizes = (4, 4, 3, 3, 2, 2)
    objects = [node(f"n{i}", cpu="9") for i in range(2)] + [pod(f"p{i}", cpu=str(size)) for i, size in enumerate(sizes)]
    cluster = compiled(objects)
    placed = at(cluster, {"p0": "n0", "p1": "n0", "p2": "n1", "p3": "n1", "p4": "n1"})  # 8 and 8: the last pod of 2 fits nowhere
    active = rules.replay(cluster, placed)
    last = next(g for g in range(cluster.n_classes) if cluster.demand[g, 0] == 2000)
    assert np.logical_or.reduce([rule.rejects(last) for rule in active]).all()
    lns = searching(cluster, placed)
    lns.place(fits(cluster, lns.search.eligibility), times(3))
    assert lns.search.counts.sum() == len(sizes)
    assert_consistent(lns, "packing")


def wishes(name: str, weight: int) -> Object:
    term = {"weight": weight, "preference": {"matchExpressions": [{"key": HOST, "operator": "In", "values": [name]}]}}
    return {"nodeAffinity": {PREFERRED: [term]}}


def exchange() -> Cluster:
    """Two full nodes, each with one large pod that would rather be on the other, where two small ones are as content as can be."""
    objects = [node(f"n{i}", cpu="2") for i in range(2)]
    objects.append(pod("large", cpu="2", affinity=wishes("n1", 10)))
    objects += [pod(f"small{i}", cpu="1", affinity=wishes("n1", 1)) for i in range(2)]
    return compiled(objects)


def test_what_single_moves_cannot_leave_a_neighbourhood_does() -> None:
    where = {"large": "n0", "small0": "n1", "small1": "n1"}
    moves = searching(exchange(), at(exchange(), where)).search
    done = iter(range(5))
    assert anneal(moves, lambda: next(done) / 4, hot=START_TEMPERATURE) == 0
    assert value(moves) == 2
    lns = searching(exchange(), at(exchange(), where))
    assert lns.improve(times(3)) == 8
    assert value(lns.search) == 10
    assert_consistent(lns, "exchange")


def test_a_single_node_leaves_nothing_to_draw() -> None:
    cluster = compiled([node("n"), pod("p"), pod("q", cpu="1")])
    lns = searching(cluster, at(cluster, {"p": "n", "q": "n"}))
    assert lns.improve(times(3)) == 0
    assert lns.search.counts.sum() == 2


def test_a_group_with_required_affinity_moves_as_one() -> None:
    """Followers of each other over zones: nobody may leave first."""
    follow = {"podAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "g"}}}]}}
    wish = {"weight": 7, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}}
    objects = [node(f"n{i}", cpu="4", labels={ZONE: f"z{i // 2}"}) for i in range(4)]
    objects += [pod(f"p{i}", labels={"app": "g"}, affinity={**follow, "nodeAffinity": {PREFERRED: [wish]}}) for i in range(3)]
    cluster = compiled(objects)
    lns = searching(cluster, at(cluster, {"p0": "n0", "p1": "n1", "p2": "n0"}))
    assert lns.search.mobile == set()
    assert lns.neighbourhoods._group(0) == [0]
    assert lns.repair(Neighbourhood("group", {(0, 0): 2, (0, 1): 1}, np.arange(4))) == (21, True)
    assert lns.search.counts[0, 2:].sum() == 3
    assert_consistent(lns, "group")
    assert find_order(cluster, lns.search.counts).sequence is not None


def test_relocating_a_group_is_all_or_nothing() -> None:
    cluster = exchange()
    where = {"large": "n0", "small0": "n1", "small1": "n1"}
    search = searching(cluster, at(cluster, where)).search
    before, points = search.counts.copy(), value(search)
    large = int(np.flatnonzero(cluster.demand[:, 0] == 2000)[0])
    assert search.relocate([large], np.array([[0, 1]])) is None  # the small ones are in the way
    assert (search.counts == before).all()
    assert search.relocate([large, 1 - large], np.array([[0, 1], [2, 0]])) == 8
    assert value(search) == points + 8


@pytest.mark.full
@pytest.mark.parametrize("kind", ["pods", "spread", "mixed"])
@seeds(35, 60)
def test_relocating_to_anywhere_keeps_the_state_in_step(seeds: range, kind: str) -> None:
    """For any request, also one that no rule allows: a gain is real, and without one nothing changes."""
    gains = 0
    for seed in seeds:
        cluster = compiled(tiny_soft.snapshot(seed, kind, nodes=4, pods=8))
        lns = searching(cluster, greedily(cluster))
        search, where = lns.search, f"{kind} seed {seed}"
        rng = np.random.default_rng(seed)
        classes = [g for g in range(cluster.n_classes) if search.loose(g)]
        if not classes or len(classes) < cluster.n_classes:
            continue
        pods = search.counts.sum(axis=1)
        target = np.stack([rng.multinomial(int(pods[g]), np.ones(cluster.n_nodes) / cluster.n_nodes) for g in classes]).astype(np.int64)
        before, points = search.counts.copy(), value(search)
        gain = search.relocate(classes, target)
        assert gain is None or gain > 0, where
        assert (search.counts == before).all() if gain is None else value(search) == points + gain, where
        assert (search.counts.sum(axis=1) == pods).all(), where
        assert_consistent(lns, where)
        gains += gain is not None
    assert gains or seeds.start  # of a few seeds only one gains
