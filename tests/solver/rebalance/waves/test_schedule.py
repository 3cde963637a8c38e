"""Waves: few, and safe in any order of their steps."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.bind_order.gang_units import Binder
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step, read_problem
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.sequencing.gang_binding import bind_gang
from kubestow.solver.rebalance.waves.least_waves import least_waves
from kubestow.solver.rebalance.waves.schedule import waves
from tests import numa_clusters
from tests.objects import node, pod
from tests.plans import tiny
from tests.solver.rebalance.waves.wave_check import Judge, single
from tests.tiers import sampled
from tests.tiny import mutual, with_gangs

ZONE = "topology.kubernetes.io/zone"
Object = dict[str, Any]


class _Plan:
    """A case, with steps said by the names of pods and nodes."""

    def __init__(self, objects: list[Object], *, goals: tuple[str, ...] = ("improve",), evict: bool = False) -> None:
        plan_options = PlanOptions(goals)
        plan_options.limits.allowEviction = evict
        self.problem = read_problem(from_objects(objects), plan_options)
        pods = self.problem.cluster.snapshot.pods
        self._class = {pods[i].metadata.name: g for g, cls in enumerate(self.problem.cluster.classes) for i in cls.pods}
        self._nodes = list(self.problem.cluster.nodes.names)

    def step(self, name: str, a: str | None, b: str | None, k: int = 1) -> Step:
        return Step(self._class[name], -1 if a is None else self._nodes.index(a), -1 if b is None else self._nodes.index(b), k)

    def grouped(self, *steps: tuple[str, str | None, str | None]) -> list[int]:
        """The sizes of the waves that some accepted steps are grouped in, which are checked."""
        sequence = [self.step(*step) for step in steps]
        state = PlanState(self.problem)
        for step in sequence:
            assert step.b < 0 or state.landing(step.g, step.a)[step.b], f"{step} is not accepted"
            state.apply(step)
        found = waves(self.problem, sequence)
        _check(self.problem, sequence, found)
        return [len(single(wave)) for wave in found]


def _check(problem: RebalanceProblem, steps: Sequence[Step], found: list[list[Step]]) -> None:
    assert Counter(single(steps)) == Counter(single(step for wave in found for step in wave))
    judge = Judge(problem)
    assert not list(judge.over_budget(found))
    least = least_waves(problem, steps)
    assert least is None or least.waves <= len(found)
    position = judge.start
    for wave in found:
        pods = single(wave)
        fault = next(judge.faults(position, pods), None)
        assert fault is None, f"{pods}: {fault}"
        position = position.after([(step, 2) for step in pods])


def _app(name: str, count: int, nodes: Sequence[str], **more: Any) -> list[Object]:
    return [
        pod(f"{name}{i}", labels={"app": name}, owner=f"ReplicaSet/{name}", node_name=where, **more)
        for i, where in zip(range(count), nodes, strict=True)
    ]


def _zone(name: str, zone: str, **more: Any) -> Object:
    return node(name, labels={ZONE: zone}, **more)


def _near(app: str, key: str = ZONE) -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _evenly(app: str, skew: int = 1) -> list[Object]:
    return [
        {"maxSkew": skew, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}},
    ]


def _guard(app: str, allowed: int) -> Object:
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": allowed},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 9, "desiredHealthy": 9 - allowed, "expectedPods": 9},
    }  # fmt: skip


def test_nothing_to_do() -> None:
    assert waves(_Plan([node("n0"), *_app("a", 1, ["n0"])]).problem, []) == []


def test_independent_moves_share_a_wave_and_like_ones_are_one_step() -> None:
    plan = _Plan([node("n0"), node("n1"), *_app("a", 2, ["n0", "n0"]), *_app("b", 1, ["n1"])])
    found = waves(plan.problem, [plan.step("a0", "n0", "n1", 2), plan.step("b0", "n1", "n0")])
    assert found == [[plan.step("a0", "n0", "n1", 2), plan.step("b0", "n1", "n0")]]


def test_a_swap_through_a_spare_node_takes_three_waves() -> None:
    nodes = [node(f"n{i}", cpu="1") for i in range(3)]
    plan = _Plan([*nodes, *_app("a", 1, ["n0"], cpu="1"), *_app("b", 1, ["n1"], cpu="1")])
    assert plan.grouped(("a0", "n0", "n2"), ("b0", "n1", "n0"), ("a0", "n2", "n1")) == [1, 1, 1]


def test_room_that_an_earlier_step_waits_for_is_not_given_away() -> None:
    """c fits n1 at once, next to a; but then b, which stops over there, would not."""
    nodes = [node("n0", cpu="2"), node("n1", cpu="2"), node("n2"), node("n3")]
    plan = _Plan([*nodes, *_app("a", 1, ["n1"], cpu="1"), *_app("b", 1, ["n0"], cpu="2"), *_app("c", 1, ["n2"], cpu="1")])
    assert plan.grouped(("a0", "n1", "n2"), ("b0", "n0", "n1"), ("b0", "n1", "n3"), ("c0", "n2", "n1")) == [1, 1, 1, 1]
    wide = _Plan([nodes[0], node("n1"), *nodes[2:], *_app("a", 1, ["n1"], cpu="1"), *_app("b", 1, ["n0"], cpu="2"), *_app("c", 1, ["n2"])])
    assert wide.grouped(("a0", "n1", "n2"), ("b0", "n0", "n1"), ("b0", "n1", "n3"), ("c0", "n2", "n1")) == [3, 1]


def test_budgets_limit_each_wave_and_leave_others_alone() -> None:
    objects = [node(f"n{i}") for i in range(4)] + _app("a", 3, ["n0"] * 3) + _app("b", 3, ["n1"] * 3)
    moves = [*((f"a{i}", "n0", "n2") for i in range(3)), *((f"b{i}", "n1", "n3") for i in range(3))]
    assert _Plan(objects).grouped(*moves) == [6]
    assert _Plan([*objects, _guard("a", 1)]).grouped(*moves) == [4, 1, 1]
    assert _Plan([*objects, _guard("a", 1), _guard("b", 2)]).grouped(*moves) == [3, 2, 1]


def test_an_eviction_without_replacement_is_not_given_back() -> None:
    objects = [node("n0"), node("n1"), *_app("a", 4, ["n0"] * 4), _guard("a", 2)]
    plan = _Plan(objects, evict=True)
    steps = [("a0", "n0", "n1"), ("a0", "n0", None), ("a0", "n0", "n1"), ("a0", "n0", "n1")]
    assert plan.grouped(*steps) == [2, 1, 1]
    found = waves(_Plan([*objects[:-1], _guard("a", 1)], evict=True).problem, [plan.step(*s) for s in (steps[0], steps[2], steps[1])])
    assert [wave[0].b for wave in found] == [1, 1, -1]


def test_spread_counts_what_may_have_come_and_what_may_be_gone() -> None:
    zones = [_zone("n0", "z0"), _zone("n1", "z1"), _zone("n2", "z2"), _zone("n3", "z0")]
    objects = [*zones, *_app("a", 4, ["n0", "n3", "n1", "n2"], spread=_evenly("a"))]
    across = [("a0", "n0", "n1"), ("a2", "n1", "n2"), ("a3", "n2", "n3")]  # each makes a zone one that may get no more
    assert len(_Plan(objects).grouped(*across)) == 3
    assert _Plan([*zones, *_app("a", 4, ["n0", "n3", "n1", "n2"], spread=_evenly("a", 3))]).grouped(*across) == [3]
    assert _Plan(objects).grouped(("a0", "n0", "n3")) == [1]


def test_a_move_inside_a_zone_leaves_a_gap_there() -> None:
    zones = [_zone("n0", "z0"), _zone("n1", "z0"), _zone("n2", "z1"), _zone("n3", "z1")]
    running = _app("a", 2, ["n0", "n2"], spread=_evenly("a"))
    waiting = pod("w", labels={"app": "a"}, owner="ReplicaSet/a", spread=_evenly("a"))
    plan = _Plan([*zones, *running, waiting], goals=("admit",))
    assert plan.grouped(("a0", "n0", "n1"), ("a1", "n2", "n3")) == [2]
    assert plan.grouped(("a0", "n0", "n1"), ("w", None, "n3")) == [1, 1]  # while a0 is nowhere, two in z1 are too many


def test_moves_inside_zones_go_zone_by_zone() -> None:
    """Three zones are full to maxSkew: while pods of one move inside it, no other zone may take one that moves. One pod of each zone at a
    time would take four waves, all pods of a zone at a time takes three."""
    nodes = [_zone(f"n{i}", f"z{i % 3}") for i in range(6)]
    objects = [*nodes, *_app("a", 12, [f"n{i % 3}" for i in range(12)], spread=_evenly("a"))]
    inside = [(f"a{i}", f"n{i % 3}", f"n{i % 3 + 3}") for i in range(12)]
    assert _Plan(objects).grouped(*inside) == [4, 4, 4]
    assert _Plan(objects).grouped(*inside[:3]) == [3]  # a wave for all is better than one a zone
    guarded = _Plan([*objects, _guard("a", 2)])
    assert guarded.grouped(*inside) == [2] * 6


def test_moves_inside_zones_do_not_wait_for_moves_between_them() -> None:
    """b takes a's place in the zone that may lose a pod; moves inside the zone come before, with and after them."""
    nodes = [_zone(f"n{i}", f"z{i % 3}") for i in range(6)]
    objects = [*nodes, *_app("a", 10, [f"n{i % 3}" for i in range(10)], spread=_evenly("a"))]
    between = [("a0", "n0", "n1"), ("a1", "n1", "n2"), ("a2", "n2", "n0")]
    inside = [(f"a{i}", f"n{i % 3}", f"n{i % 3 + 3}") for i in range(3, 9)]
    plan = _Plan(objects)
    found = plan.grouped(*(step for pair in zip(between, inside[::2], inside[1::2], strict=True) for step in pair))
    assert len(found) <= 6


@pytest.mark.parametrize("part", sampled(range(8), every=4))
def test_waves_of_spread_pods_are_safe_whatever_their_order(part: int) -> None:
    """Walks in which most pods stay in their zone, with constraints that are broken at the start among them."""
    for seed in range(10 * part, 10 * part + 10):
        rng = random.Random(f"zones-{seed}")
        zones = rng.choice((2, 3))
        nodes = [_zone(f"n{i}", f"z{i % zones}", pods=str(rng.choice((3, 10)))) for i in range(2 * zones)]
        objects = list(nodes)
        for app in "ab"[: rng.choice((1, 1, 2))]:
            spread = _evenly(rng.choice("ab") if rng.random() < 0.2 else app, rng.choice((1, 1, 2)))
            homes = [f"n{rng.randrange(2 * zones)}" for _ in range(rng.randint(2, 5))]
            objects += _app(app, len(homes), homes, spread=spread)
        problem = read_problem(from_objects(objects), PlanOptions(("improve",)))
        steps = _walk(problem, rng, 6)
        _check(problem, steps, waves(problem, steps))


def test_a_provider_and_the_pod_that_needs_it_do_not_share_a_wave() -> None:
    zones = [_zone("n0", "z0"), _zone("n1", "z1"), _zone("n2", "z1")]
    objects = [*zones, *_app("db", 2, ["n0", "n0"]), *_app("web", 1, ["n0"], affinity=_near("db"))]
    # web follows when one db is there, and only then may the last db leave
    assert _Plan(objects).grouped(("db0", "n0", "n1"), ("web0", "n0", "n2"), ("db1", "n0", "n1")) == [1, 1, 1]
    more = [*objects, *_app("db", 3, ["n0", "n0", "n2"])[2:]]
    assert _Plan(more).grouped(("db0", "n0", "n1"), ("web0", "n0", "n2")) == [2]


def test_a_lone_group_moves_by_itself() -> None:
    zones = [_zone("n0", "z0"), _zone("n1", "z1"), _zone("n2", "z2")]
    plan = _Plan([*zones, *_app("a", 1, ["n0"], affinity=_near("a")), *_app("b", 1, ["n0"])])
    assert plan.grouped(("a0", "n0", "n1"), ("b0", "n0", "n2")) == [2]


def test_who_stands_alone_wants_the_next_one_near() -> None:
    zones = [_zone("n0", "z0"), _zone("n1", "z1")]
    waiting = [pod(f"w{i}", labels={"app": "a"}, owner="ReplicaSet/w") for i in range(2)]
    plan = _Plan([*zones, *_app("a", 1, ["n0"], affinity=_near("a")), *waiting], goals=("admit",))
    assert plan.grouped(("w0", None, "n0"), ("w1", None, "n1")) == [1, 1]


def test_anti_affinity_looks_at_those_that_have_not_left_yet() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    zones = [_zone(f"n{i}", f"z{i}") for i in range(3)]
    plan = _Plan([*zones, *_app("a", 2, ["n0", "n1"], affinity=anti)])
    assert plan.grouped(("a0", "n0", "n2"), ("a1", "n1", "n0")) == [1, 1]


def test_pending_pods_come_after_those_that_make_room() -> None:
    nodes = [node("n0", cpu="1"), node("n1", cpu="1"), node("n2", cpu="1")]
    waiting = [pod(f"p{i}", cpu="1", owner="ReplicaSet/p") for i in range(2)]
    plan = _Plan([*nodes, *_app("a", 1, ["n0"], cpu="1"), *waiting], goals=("admit",))
    assert plan.grouped(("a0", "n0", "n1"), ("p0", None, "n0"), ("p1", None, "n2")) == [2, 1]


def test_a_unit_of_a_gang_is_a_wave_of_its_own() -> None:
    def member(name: str, other: str) -> Object:
        found = pod(name, labels={"app": name}, affinity=_near(other, "kubernetes.io/hostname"))
        found["metadata"]["annotations"] = {"kubestow.dev/gang": "default/pair"}
        return found

    objects = [node("n0"), node("n1"), *_app("x", 1, ["n0"]), member("a", "b"), member("b", "a")]
    plan = _Plan(objects, goals=("admit",))
    unit = [plan.step("a", None, "n0"), plan.step("b", None, "n0")]
    found = waves(plan.problem, [*unit, plan.step("x0", "n0", "n1")])
    assert sorted(map(len, found)) == [1, 2]
    assert sorted(next(wave for wave in found if len(wave) == 2), key=lambda s: s.g) == sorted(unit, key=lambda s: s.g)


def _claim(name: str) -> list[Object]:
    """A bound claim that many pods may use, on a driver of which nodes limit the volumes."""
    return [
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteMany"], "volumeName": f"pv-{name}", "storageClassName": ""}, "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{name}"},
            "spec": {
                "accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"},
                "csi": {"driver": "csi.example.com", "volumeHandle": name}, "claimRef": {"namespace": "default", "name": name},
            },
            "status": {"phase": "Bound"},
        },
    ]  # fmt: skip


def test_what_counts_once_for_two_pods_comes_one_by_one() -> None:
    drivers = {"drivers": [{"name": "csi.example.com", "nodeID": "n1", "allocatable": {"count": 2}}]}
    limit = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n1"}, "spec": drivers}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}} for name in "xy"]
    objects = [node("n0"), node("n1"), node("n2"), limit, *_claim("x"), *_claim("y")]
    objects += _app("a", 2, ["n0", "n0"], volumes=volumes[:1]) + _app("b", 1, ["n0"], volumes=volumes[1:])
    plan = _Plan(objects)
    assert plan.grouped(("a0", "n0", "n1"), ("b0", "n0", "n1")) == [2]
    assert plan.grouped(("a0", "n0", "n1"), ("a1", "n0", "n1"), ("b0", "n0", "n2")) == [2, 1]


def _walk(problem: RebalanceProblem, rng: random.Random, most: int) -> list[Step]:
    """Accepted steps at random, budgets kept."""
    state = PlanState(problem)
    steps: list[Step] = []
    allowed = [budget.allowed for budget in problem.budgets]
    waiting = {g: int(problem.cluster.count[g]) for g in range(problem.cluster.n_classes) if problem.pending[g]}
    for _ in range(4 * most):
        cells = [(g, n) for g in range(problem.cluster.n_classes) if problem.movable[g] for n in state.counts[g].nonzero()[0].tolist()]
        cells += [(g, -1) for g, k in waiting.items() if k]
        if len(steps) == most or not cells:
            break
        g, a = rng.choice(cells)
        guard = problem.budget[g] if a >= 0 else None
        if guard is not None and allowed[guard] < 1:
            continue
        targets = state.landing(g, a).nonzero()[0].tolist()
        if a >= 0 and rng.random() < 0.12 and state.may_go(g, a):
            step = Step(g, a, -1)
            if guard is not None:
                allowed[guard] -= 1
        elif targets:
            step = Step(g, a, rng.choice(targets))
        else:
            continue
        if a < 0:
            waiting[g] -= 1
        state.apply(step)
        steps.append(step)
    return steps


def _gangs(problem: RebalanceProblem, rng: random.Random) -> list[Step]:
    """Steps that bind the pending gangs somewhere, each if a way is found."""
    state = PlanState(problem)
    steps: list[Step] = []
    for gang in problem.cluster.gangs:
        for _ in range(20):
            pods = [g for g in gang.classes if problem.pending[g] for _ in range(int(problem.cluster.count[g]))]
            bound = bind_gang(state, dict(Counter((g, rng.randrange(problem.cluster.n_nodes)) for g in pods)))
            if bound:
                steps += bound
                break
    return steps


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("part", sampled(range(4), every=4, full=2))
def test_every_wave_is_safe_whatever_its_order(kind: str, part: int) -> None:
    shared = 0
    for seed in range(8 * part, 8 * part + 8):
        objects = tiny.cluster(seed, kind)
        goals, drain, limits = tiny.plan_options(seed, kind)
        problem = read_problem(from_objects(objects), PlanOptions((*goals, *(() if "admit" in goals else ("admit",))), drain, limits))
        rng = random.Random(f"walk-{kind}-{seed}")
        steps = _walk(problem, rng, rng.choice((3, 5, 6)))
        found = waves(problem, steps)
        _check(problem, steps, found)
        shared += len(steps) - len(found)
    assert shared > 0


@pytest.mark.full
@pytest.mark.parametrize("kind", ["mutual", "ring", "woven"])
def test_gangs_are_bound_as_they_were(kind: str) -> None:
    """Waves of gang members that are not safe step by step are units, accepted as such."""
    units = 0
    for seed in range(40):
        problem = read_problem(from_objects(with_gangs(mutual(seed, kind, nodes=3, pods=5), seed)), PlanOptions(("admit",)))
        steps = _gangs(problem, random.Random(seed))
        found = waves(problem, steps)
        assert Counter(steps) == Counter(single(step for wave in found for step in wave))
        judge, state = Judge(problem), PlanState(problem)
        position = judge.start
        for wave in found:
            pods = single(wave)
            if next(judge.faults(position, pods), None) is not None:
                (gang,) = {problem.cluster.classes[step.g].gang for step in pods}
                assert gang is not None
                unit = [(step.g, step.b, 1) for step in pods]
                binder = Binder(problem.cluster, state.rules)
                assert binder.bind(unit)
                for g, n, k in reversed(unit):
                    binder.put(g, n, -k)
                units += 1
            position = position.after([(step, 2) for step in pods])
            assert judge.worse(position) is None
            for step in pods:
                state.apply(step)
    assert units > 0


@pytest.mark.full
def test_kubelets_that_align_take_pods_in_any_order() -> None:
    together = 0
    for seed in range(25):
        problem = read_problem(from_objects(numa_clusters.cluster(seed)), PlanOptions(("admit",)))
        steps = _walk(problem, random.Random(seed), 8)
        before: list[Step] = []
        for wave in waves(problem, steps):
            for order in list(permutations(single(wave)))[:24]:
                state = PlanState(problem)
                for step in (*before, *order):
                    assert state.landing(step.g, step.a)[step.b]
                    state.apply(step)
            together += len(wave) > 1
            before += single(wave)
        assert len(before) == len(steps)
    assert together > 0


def test_pods_that_take_devices_come_in_waves_of_their_own() -> None:
    """The devices of each pod depend on the earlier pods."""
    api = "resource.k8s.io/v1"
    exact = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    claims: list[Object] = [
        {"apiVersion": api, "kind": "ResourceClaim", "metadata": {"name": f"c{i}", "namespace": "default"},
         "spec": {"devices": {"requests": [{"name": "r", "exactly": exact}]}}}
        for i in range(2)
    ]  # fmt: skip
    slices: Object = {
        "apiVersion": api, "kind": "ResourceSlice", "metadata": {"name": "s"},
        "spec": {"driver": "gpu.example.com", "pool": {"name": "s", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n1",
                 "devices": [{"name": "d0"}, {"name": "d1"}]},
    }  # fmt: skip
    classes: Object = {"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    waiting = [pod(f"p{i}", resourceClaims=[{"name": "gpu", "resourceClaimName": f"c{i}"}]) for i in range(2)]
    case = _Plan([node("n1"), slices, classes, *claims, *waiting, pod("q")], goals=("admit",))
    assert case.grouped(("p0", None, "n1"), ("p1", None, "n1"), ("q", None, "n1")) == [2, 1]
