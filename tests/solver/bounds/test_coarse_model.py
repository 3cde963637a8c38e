"""Bounds of groups at every stage, with nodes that are alike: never below the optimum of the plain model, and at the end equal to it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ortools.sat.python import cp_model

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.bounds import coarse_node_patterns
from kubestow.solver.bounds.alike_nodes import alike_nodes
from kubestow.solver.bounds.class_groups import groups as class_groups
from kubestow.solver.bounds.coarse_model import Coarse
from kubestow.solver.bounds.component import ClassComponent
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.construction.greedy import construct
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.objective import encoding as objective_encoding
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.sparse_placement import SparsePlacement
from kubestow.solver.rules.eligibility import fits, possible
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.solve import place
from tests import tiny_soft
from tests.objects import Object, node, pod
from tests.tiers import sampled, seeds

ZONE, RACK, HOST = "zone", "rack", "kubernetes.io/hostname"


def compiled(objects: list[Object]) -> Cluster:
    snapshot = from_objects(objects)
    return compile_cluster(snapshot, select(snapshot))


def near(app: str, key: str, weight: int = 0) -> Object:
    """A term of pod affinity; ``weight`` 0: required."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"weight": weight, "podAffinityTerm": term} if weight else term


def terms(
    pulls: Sequence[Object] = (), repels: Sequence[Object] = (), apart: Sequence[Object] = (), together: Sequence[Object] = ()
) -> Object:
    required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
    found: Object = {"podAffinity": {}, "podAntiAffinity": {}}
    for part, name, listed in (
        ("podAffinity", preferred, pulls), ("podAntiAffinity", preferred, repels),
        ("podAntiAffinity", required, apart), ("podAffinity", required, together),
    ):  # fmt: skip
        if listed:
            found[part][name] = list(listed)
    return {part: value for part, value in found.items() if value}


def alike(seed: int) -> list[Object]:
    """A few classes on nodes most of which are the same: two sizes, zones and racks that some nodes lack, fixed pods."""
    rng = random.Random(f"alike-{seed}")
    objects = []
    for i in range(rng.randint(4, 8)):
        labels = {ZONE: f"z{i % 2}"} if rng.random() < 0.9 else {}
        if rng.random() < 0.3:
            labels[RACK] = rng.choice("rs")
        objects.append(node(f"n{i}", cpu=rng.choice(("2", "2", "2", "4", "1")), pods=rng.choice(("10", "10", "2")), labels=labels))
    apps = "abc"
    for i in range(rng.choice((0, 0, 1, 3))):
        fixed: Object = {}
        if rng.random() < 0.5:
            fixed = terms(pulls=[near(rng.choice(apps), rng.choice((ZONE, HOST)), rng.choice((1, 5)))])
        if rng.random() < 0.2:
            fixed = terms(apart=[near(rng.choice(apps), rng.choice((ZONE, HOST)))])
        objects.append(pod(f"f{i}", cpu="500m", labels={"app": rng.choice(apps)}, affinity=fixed, node_name=f"n{rng.randint(0, 3)}"))
    for c in range(rng.randint(1, 3)):

        def some(chance: float, weight: int = 0) -> list[Object]:
            keys = (ZONE, HOST, RACK) if weight else (ZONE, HOST)
            return [near(rng.choice(apps), rng.choice(keys), weight)] if rng.random() < chance else []

        affinity = terms(some(0.5, rng.choice((1, 5, 20))), some(0.5, rng.choice((1, 5, 20))), some(0.2), some(0.12))
        if rng.random() < 0.4:
            wish = {"weight": rng.choice((1, 9)), "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z0"]}]}}
            affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}
        spread = [
            {
                "maxSkew": rng.choice((1, 1, 2)), "topologyKey": rng.choice((ZONE, HOST)),
                "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": {"app": rng.choice(apps)}},
            }
            for _ in range(rng.choice((0, 0, 1, 1, 2)))
        ]  # fmt: skip
        keys = {(s["topologyKey"], s["whenUnsatisfiable"]): s for s in spread}
        shape: dict[str, Any] = {
            "cpu": rng.choice(("500m", "1", "1")), "labels": {"app": rng.choice(apps)}, "affinity": affinity,
            "spread": list(keys.values()), "priority": rng.choice((0, 0, 0, 7)),
        }  # fmt: skip
        objects += [pod(f"p{c}-{i}", **shape) for i in range(rng.randint(1, 4))]
    return objects


def best(cluster: Cluster, unplaced: dict[int, int]) -> tuple[PlacementModel, int | None]:
    """The optimum of the plain model, without groups, kinds of nodes or symmetry (None: it leaves containers without zones)."""
    active = rules.build(cluster)
    encoding = build_model(cluster, active)
    points = objective_encoding.encode(encoding, Objective(cluster, active))
    for priority, limit in unplaced.items():
        members = [encoding.unplaced[g] for g in np.flatnonzero(cluster.priority == priority).tolist()]
        encoding.model.add(encoding.sum(members) <= limit)
    encoding.model.maximize(points.expression())
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.cp_model_probing_level = 0
    assert solver.solve(encoding.model) == cp_model.OPTIMAL
    return encoding, None if encoding.zoneless else round(solver.objective_value)


def cpsat() -> CpSat:
    options = Options(time_limit=None, workers=1)
    return CpSat(RunContext(options, Deadline(options, 0.0)))


def tighten(components: Components, component: ClassComponent, counts: Ints) -> None:
    """One turn for a group that is where a placement int64[G, N] has it."""
    rows = counts[component.classes]
    points = components.objective.total(components.objective.families(SparsePlacement(rows, component.classes), component.classes))
    components.solve(component, cpsat(), 10.0, rows, points)


def check(objects: list[Object], where: str) -> int:
    """Assert on one instance; how many groups were worth a search."""
    cluster = compiled(objects)
    if not cluster.n_classes:
        return 0
    active = rules.build(cluster)
    limits, objective = possible(cluster, active), Objective(cluster, active)
    counts = construct(cluster, active, limits, tries=2).counts
    unplaced = cluster.per_priority(fits(cluster, limits) - counts.sum(axis=1))
    _, optimum = best(cluster, unplaced)
    if optimum is None:
        return 0
    components = Components(cluster, Objective(cluster, rules.build(cluster)), limits, unplaced)
    assert components.bound >= optimum, f"{where}: before any search {components.bound} < {optimum}"
    components.share_every, together = 0, cpsat()
    components.bound_jointly(together)
    assert components.bound >= optimum, f"{where}: together, before any search {components.bound} < {optimum}"
    assert objective.total(objective.families(counts)) <= optimum or objective.containers.involved, where
    searched = 0
    for component in components.found:
        if component.proved:
            continue
        searched += 1
        encoding, alone = best(cluster.restricted(component.classes), unplaced)
        assert alone is not None
        for stage in range(3):
            tighten(components, component, counts)
            components.bound_jointly(together)
            assert components.bound >= optimum, f"{where}: together, stage {stage}: {components.bound} < {optimum}"
            assert component.bound >= alone, f"{where}: classes {component.classes} stage {stage}: {component.bound} < {alone}"
            if component.proved:
                break
        assert component.proved or not component.classes, where
        assert component.bound == alone, f"{where}: classes {component.classes}: {component.bound} above {alone}"
        assert component.counts is not None
        fine = encoding.assignment(component.counts)
        assert fine is not None, f"{where}: classes {component.classes}: a proved placement that the model refuses"
    assert components.bound >= optimum, where
    return searched


@pytest.mark.parametrize("kind", sampled(tiny_soft.KINDS, every=6))
@seeds(12, 30)
def test_bounds_hold_at_every_stage_on_tiny_clusters(seeds: range, kind: str) -> None:
    searched = sum(check(tiny_soft.snapshot(seed, kind, nodes=4, pods=5), f"{kind} seed {seed}") for seed in seeds)
    assert searched or seeds.start or kind == "nodes"


def test_pods_that_take_room_in_zones_can_keep_others_from_losing() -> None:
    """Alone, the two containers of `p1`, which repel each other, share the only zone that has room; next to `p0` they find none."""
    assert check(tiny_soft.snapshot(1035, "containers"), "containers seed 1035") == 1


@pytest.mark.full
@seeds(20, 60)
def test_bounds_hold_at_every_stage_with_nodes_that_are_alike(seeds: range) -> None:
    assert sum(check(alike(seed), f"alike seed {seed}") for seed in seeds) > len(seeds) // 2


@pytest.mark.parametrize("kind", ["containers", "numa"])
def test_nodes_that_are_alike_for_a_search_are_not_for_a_model_of_containers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search may ask where a group could go before the group has a model of its own."""
    solve = Components.solve

    def asked_before(components: Components, component: ClassComponent, *arguments: Any) -> None:
        components.pools(component)
        solve(components, component, *arguments)

    monkeypatch.setattr(Components, "solve", asked_before)
    assert sum(check(tiny_soft.snapshot(seed, kind), f"{kind} seed {seed}") for seed in range(20))


def test_a_placement_of_merged_nodes_that_breaks_a_rule_of_zones_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three pods, one to a zone, with whom others want to be: where nodes of all zones are merged, all three would be on one node."""
    even = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}]
    objects = [node(f"n{i}", cpu="8", pods="20", labels={ZONE: f"z{i % 3}"}) for i in range(6)]
    objects += [pod(f"a{i}", cpu="500m", labels={"app": "a"}, spread=even) for i in range(3)]
    objects += [pod(f"b{i}", cpu="500m", labels={"app": "b"}, affinity=terms([near("a", HOST, 10)])) for i in range(9)]
    for limit in (40, 1_200):
        monkeypatch.setattr(coarse_node_patterns, "PART_VARIABLE_LIMITS", (limit,))
        assert check(objects, f"{limit} variables") == 1


@pytest.mark.parametrize(("key", "more"), [(ZONE, 1), (HOST, 0)])
def test_the_domains_of_a_gang_are_told_apart(key: str, more: int) -> None:
    """Three pods that would rather have a node each, all in one domain; the zone of the first nodes has only two."""
    objects = [node(f"n{i}", labels={ZONE: "z0" if i < 2 else "z1"}) for i in range(5)]
    objects += [pod(f"a{i}", labels={"app": "a"}, affinity=terms(repels=[near("a", HOST, 10)])) for i in range(3)]
    objects += [pod("b", affinity=terms(apart=[near("b", HOST)]), labels={"app": "b"})][:more]
    for thing in objects[5:]:
        thing["metadata"]["annotations"] = {"kubestow.dev/gang": "default/g", "kubestow.dev/required-topology": key}
    assert check(objects, f"gang in one {key}") == 1


@pytest.mark.full
def test_bounds_hold_at_every_stage_with_nodes_that_are_merged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coarse_node_patterns, "PART_VARIABLE_LIMITS", (6, 25))
    assert sum(check(alike(seed), f"merged seed {seed}") for seed in range(60, 100)) > 25


def dealt(cluster: Cluster) -> list[tuple[Coarse, Ints, dict[tuple[int, int], int], Cluster]]:
    """The coarse model of every group solved and dealt out: (model, placement, the pods it placed, the group's cluster)."""
    active = rules.build(cluster)
    limits, objective = possible(cluster, active), Objective(cluster, active)
    unplaced = cluster.per_priority(fits(cluster, limits))  # all may stay away
    made = []
    for classes in class_groups(objective, active):
        sub = cluster.restricted(classes)
        if any(cls.claims or cls.containers is not None for cls in sub.classes):
            continue
        kinds, pools = alike_nodes(sub, objective, classes, limits[classes])
        assert sorted(np.concatenate(kinds).tolist()) == list(range(cluster.n_nodes))
        points = np.stack([objective.node_points(g) for g in classes])
        coarse = Coarse(sub, points, limits[classes], kinds, unplaced)
        answer = cpsat().run(coarse.encoding.model, 10.0, quick=True)
        assert answer.solution is not None
        made.append((coarse, coarse.deal(answer.solution, pools), coarse.encoding.placed(answer.solution), sub))
    return made


def test_a_dealt_solution_stays_within_limits_and_room() -> None:
    pods = 0
    for seed in range(40):
        for coarse, counts, placed, sub in dealt(compiled(alike(seed))):
            assert (counts >= 0).all(), seed
            assert (counts <= coarse.eligibility).all(), seed
            assert (counts.T @ sub.demand <= np.maximum(sub.free, 0)).all(), seed
            assert (counts.sum(axis=0) <= np.maximum(sub.slots, 0)).all(), seed
            for g in range(sub.n_classes):
                assert counts[g].sum() <= sum(k for (h, _), k in placed.items() if h == g), seed
            pods += int(counts.sum())
    assert pods > 100


def bound(objects: list[Object], **unplaced: int) -> tuple[Components, Ints]:
    cluster = compiled(objects)
    active = rules.build(cluster)
    limits = possible(cluster, active)
    counts = construct(cluster, active, limits).counts
    return Components(cluster, Objective(cluster, rules.build(cluster)), limits, {0: unplaced.get("unplaced", 0)}), counts


def test_a_pull_that_no_node_of_the_class_can_meet_is_worth_nothing() -> None:
    """All nodes that take the pods lack the key: they are no pair of pods less than none."""
    objects = [node("n0"), node("n1"), node("z", cpu="1", labels={ZONE: "z1"})]
    objects += [pod(f"p{i}", cpu="2", labels={"app": "a"}, affinity=terms(pulls=[near("a", ZONE, 100)])) for i in range(3)]
    assert bound(objects)[0].bound == 0
    for name, cpu, weight, pods in (("q", "600m", 10, 1), ("r", "500m", 9, 2)):
        term = {"weight": weight, "preference": {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}}
        wish = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
        objects += [pod(f"{name}{i}", cpu=cpu, affinity=wish) for i in range(pods)]
    result = place(from_objects(objects), Options(time_limit=10, workers=1))
    assert [(t.value, t.bound) for t in result.objective if t.tier == "soft"] == [(18, 18)]


@pytest.mark.parametrize(("pods", "cpu", "points"), [(2, "1", 2), (4, "1", 4 * 1), (5, "1", 5 * 1), (4, "500m", 4 * 3), (6, "500m", 6 * 3)])
def test_what_one_domain_can_hold_bounds_a_pull(pods: int, cpu: str, points: int) -> None:
    """Nodes of 2 CPU attract pods to each other: no pod can have more mates than fit next to it."""
    objects = [node(f"n{i}", cpu="2") for i in range(5)]
    objects += [pod(f"p{i}", cpu=cpu, labels={"app": "a"}, affinity=terms(pulls=[near("a", HOST, 1)])) for i in range(pods)]
    assert bound(objects)[0].bound == points


@pytest.mark.parametrize(("pods", "expected"), [(3, 0), (4, -2), (6, -6), (7, -10)])
def test_too_few_domains_force_equal_pods_to_meet(pods: int, expected: int) -> None:
    """Ordered pairs of pods that share one of three zones, dealt out evenly; none is forced once pods may stay away."""
    objects = [node(f"n{i}", cpu="8", labels={ZONE: f"z{i % 3}"}) for i in range(6)]
    objects += [pod(f"p{i}", labels={"app": "a"}, affinity=terms(repels=[near("a", ZONE, 1)])) for i in range(pods)]
    components, counts = bound(objects)
    assert components.bound == expected
    tighten(components, components.found[0], counts)
    assert (components.bound, components.found[0].proved) == (expected, True)
    assert bound(objects, unplaced=1)[0].bound == 0


def test_a_wish_that_breaks_a_rule_of_single_nodes_proves_nothing() -> None:
    """Merged nodes know no hostnames: one zone for all looks best, but each node of it takes one of a and b only."""
    objects = [node(f"n{i}", cpu="8", labels={ZONE: f"z{i // 2}"}) for i in range(4)]
    for app, other in ("ab", "ba"):
        affinity = terms(pulls=[near(other, ZONE, 10)], apart=[near(other, HOST), near(app, HOST)])
        objects += [pod(f"{app}{i}", cpu="1", labels={"app": app}, affinity=affinity) for i in range(2)]
    components, counts = bound(objects)
    (component,) = components.found
    alone = best(components.cluster, {0: 0})[1]
    assert alone == 2 * 2 * 10
    for _ in range(3):
        tighten(components, component, counts)
    assert (component.bound, component.value, component.proved) == (alone, alone, True)
    assert component.counts is not None
    assert (component.counts.sum(axis=0) <= 1).all()
