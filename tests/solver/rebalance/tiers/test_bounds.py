"""No plan exceeds the bounds that are known before any search: brute force never does, and often it reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.kube.objects import pod_key
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.tiers.improvement import BALANCE_PER_POINT
from kubestow.solver.rebalance.tiers.measures import Measures
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from tests.objects import node, pod
from tests.plans import tiny
from tests.plans.brute import Brute, Score, TooLarge, best
from tests.solver.bounds.test_coarse_model import HOST, ZONE, near, terms
from tests.solver.rebalance.goals.test_improve import SOFT, preferring, total_value
from tests.solver.rebalance.problem.test_problem import budget, case_of, running

Object = dict[str, Any]


def _bounds(
    objects: Sequence[Object], goals: Sequence[str], drain: Sequence[str] = (), limits: Limits | None = None, **options: Any
) -> Any:
    """By tier and priority."""
    problem = case_of(objects, goals, drain, limits, **options)
    values = PlanObjective(problem, goals)
    return {(tier.name, tier.priority): bound for tier, bound in zip(values.tiers, values.bounds(), strict=True)}


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_brute_force_never_exceeds_them(kind: str) -> None:
    """Each tier alone: later ones may do better where the tiers before are not asked for."""
    reached = missed = 0
    for seed in range(25):
        objects = tiny.cluster(seed, kind)
        goals, drain, limits = tiny.plan_options(seed, kind)
        for goal in goals or [""]:
            try:
                found = best(objects, [goal] if goal else [], drain, allow_eviction=limits.allowEviction, limits=limits)
            except TooLarge:
                continue
            known = _bounds(objects, [goal] if goal else [], drain, limits)
            for name, priority, value in found.tiers:
                bound = known.get((name, priority), 0)
                assert value <= bound, (seed, goal, name, priority)
                reached += value == bound
                missed += value < bound
    assert 2 * reached > missed


def test_pods_that_never_move_stay_on_drained_nodes() -> None:
    objects = [node("n1"), node("n2"), running("p", "n1"), pod("bare", node_name="n1"), pod("agent", node_name="n1", owner="DaemonSet/a")]
    assert _bounds(objects, [], ["n1"])["drained", None] == -1


def test_pods_that_no_node_could_hold_are_never_placed() -> None:
    objects = [node("n1", cpu="2"), pod("p", cpu="1", priority=1), pod("q", cpu="3", priority=1), pod("r", cpu="1", priority=2)]
    known = _bounds([*objects, pod("s", selector={"disk": "ssd"})], ["admit"])
    assert (known["placed", 2], known["placed", 1], known["placed", 0]) == (1, 1, 0)


def test_the_fewest_nodes_hold_the_demand() -> None:
    nodes = [node(f"n{i}", cpu="2") for i in range(4)]
    small = [running(f"p{i}", f"n{i % 4}", cpu="700m") for i in range(5)]  # 3.5 CPUs
    assert _bounds([*nodes, *small], ["consolidate"])["freed", None] == 2
    assert _bounds([node("big", cpu="8"), *nodes, *small], ["consolidate"])["freed", None] == 4
    assert _bounds([*nodes, *small, *(running(f"q{i}", "n0", cpu="400m") for i in range(2))], ["consolidate"])["freed", None] == 1
    guarded = [running(f"p{i}", f"n{i}", cpu="100m", labels={"app": "web"}) for i in range(4)]
    assert _bounds([*nodes, *guarded, budget("guard", "web", minAvailable=4)], ["consolidate"])["freed", None] == 0


def test_an_overcommitted_node_holds_what_it_has() -> None:
    objects = [node("n0", cpu="1"), node("n1", cpu="1"), *(running(f"p{i}", "n0", cpu="700m") for i in range(3))]
    assert _bounds(objects, ["consolidate"])["freed", None] == 1


def test_pods_that_may_be_evicted_need_no_node() -> None:
    objects = [node("n0"), node("n1"), *(running(f"p{i}", f"n{i}", cpu="3") for i in range(2)), pod("new", priority=1)]
    for allowed, freed in ((True, 2), (False, 0)):
        known = _bounds(objects, ["admit", "consolidate"], limits=Limits(allowEviction=allowed))
        assert known["freed", None] == freed


def test_room_of_many_nodes_does_not_overflow() -> None:
    """Together they have more than 2**64 bytes, of which next to nothing is asked for: one node has CPUs for all pods."""
    nodes = [node(f"n{i}", cpu="8", memory=f"{2**55 + 1}") for i in range(520)]
    problem = case_of([*nodes, *(running(f"p{i}", f"n{i}", cpu="1", memory="1") for i in range(8))], ["consolidate"])
    values = PlanObjective(problem, ["consolidate"])
    assert values.packing.max_value(values.node_value) == 519


def test_more_pods_than_a_node_has_room_for_while_resizes_wait() -> None:
    """Nodes of 7 CPUs with two pods that ask for 3 and hold half a CPU take a third one, and none of the two would be refused after it."""
    objects = [node(f"n{i}", cpu="7") for i in range(9)]
    objects += [running(f"p{i}", f"n{i // 2}", cpu="3") for i in range(17)]
    for thing in objects[9:]:
        thing["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
        thing["status"]["containerStatuses"] = [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "128Mi"}}}]
    problem = case_of(objects, ["consolidate"])
    state, values, resized = PlanState(problem), PlanObjective(problem, ["consolidate"]), 0
    for a, b in ((8, 0), (7, 1), (7, 2), (6, 3), (6, 4)):
        assert state.landing(resized, a)[b]
        state.apply(Step(resized, a, b))
    reached = values.of(state.counts)
    assert reached == (3, -5)
    assert values.bounds()[0] >= 3
    assert values.bound_of_moves(reached) >= -5
    assert (values.room[resized, :5] >= 3).all()


# --- prices -----------------------------------------------------------------------------------------------------------------------------


def _cheapest(objects: Sequence[Object], policy: Policy) -> int:
    """The best value of all placements in which nothing is too full; without rules all of them are reached."""
    problem = case_of(objects, ["consolidate"], policy=policy)
    values, found = PlanObjective(problem, ["consolidate"]), []
    pods = [g for g, cls in enumerate(problem.cluster.classes) for _ in cls.pods]
    for where in product(range(problem.cluster.n_nodes), repeat=len(pods)):
        counts = np.zeros_like(problem.start)
        np.add.at(counts, (pods, where), 1)
        if (counts.T @ problem.cluster.demand <= problem.cluster.free).all():
            found.append(values.of(counts)[0])
    return max(found)


@pytest.mark.parametrize("prices", [(1, 1, 1), (9, 1, 1), (1, 5, 2), (3, 2, 100)])
@pytest.mark.parametrize("sizes", [("500m",), ("1500m", "500m", "500m"), ("1", "1", "1")])
def test_the_cheapest_nodes_hold_the_demand(prices: tuple[int, ...], sizes: tuple[str, ...]) -> None:
    objects = [node(f"n{i}", cpu="2", labels={"price": str(price)}) for i, price in enumerate(prices)]
    objects += [running(f"p{i}", f"n{i % 3}", cpu=cpu) for i, cpu in enumerate(sizes)]
    policy = Policy(priceLabel="price")
    known, reached = _bounds(objects, ["consolidate"], policy=policy)["freed", None], _cheapest(objects, policy)
    assert known >= reached
    assert known < 0
    if len(sizes) == 1:  # a quarter of the cheapest node
        assert (known, reached) == (-1000 * min(prices) // 4, -1000 * min(prices))


def test_nodes_that_are_kept_cost_their_price_in_any_case() -> None:
    objects = [node("n0", labels={"price": "7", "node-role.kubernetes.io/control-plane": ""}), node("n1", labels={"price": "2"})]
    assert _bounds([*objects, running("p", "n1")], ["consolidate"], policy=Policy(priceLabel="price"))["freed", None] == -7000


# --- preferences and balance ------------------------------------------------------------------------------------------------------------


def _score(problem: RebalanceProblem) -> Score:
    """Preferences and balance of pods at nodes by name, in hundredths of a point."""
    measures, pods = Measures(problem), problem.cluster.snapshot.pods
    class_of = {pod_key(pods[i]): g for g, cls in enumerate(problem.cluster.classes) for i in cls.pods}
    index = {name: n for n, name in enumerate(problem.cluster.nodes.names)}

    @cache
    def value(placed: tuple[tuple[int, int, int], ...]) -> int:
        counts = np.zeros_like(problem.start)
        for g, n, k in placed:
            counts[g, n] = k
        return total_value(measures, counts)

    def score(where: Any) -> int:
        cells: dict[tuple[int, int], int] = {}
        for key, name in where.items():
            cell = class_of[key], index[name]
            cells[cell] = cells.get(cell, 0) + 1
        return value(tuple((g, n, k) for (g, n), k in sorted(cells.items())))

    return score


def _plain(objects: Sequence[Object]) -> list[Object]:
    """The parts of a cluster that the brute force reads: nodes, pods, and of these the rules that it knows and their preferences."""
    found = []
    for thing in objects:
        if thing["kind"] == "Pod":
            kept = ("containers", "nodeName", "priority", "tolerations", "nodeSelector")
            spec = {key: thing["spec"][key] for key in kept if key in thing["spec"]}
            spec["containers"] = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}]
            affinity = {
                part: {"preferredDuringSchedulingIgnoredDuringExecution": terms}
                for part, given in thing["spec"].get("affinity", {}).items()
                if (terms := given.get("preferredDuringSchedulingIgnoredDuringExecution"))
            }
            soft = [c for c in thing["spec"].get("topologySpreadConstraints", ()) if c["whenUnsatisfiable"] == "ScheduleAnyway"]
            found.append({**thing, "spec": {**spec, "affinity": affinity, "topologySpreadConstraints": soft}})
        elif thing["kind"] == "Node":
            status = {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}
            found.append({**thing, "spec": {}, "status": status})
    return found


@pytest.mark.full
@pytest.mark.parametrize("kind", SOFT)
def test_brute_force_never_exceeds_the_bound_of_preferences_and_balance(kind: str) -> None:
    """Most often it comes close: as balance is poured in fractions, it rarely is reached."""
    close = compared = 0
    for seed in range(12):
        objects, limits = _plain(preferring(seed, kind)), Limits(minGain=0)
        problem = case_of(objects, ["improve"], limits=limits)
        assert problem.movable.all()
        brute = Brute(objects, ["improve"], limits=limits)
        brute.score = _score(problem)
        try:
            found = brute.best(most_states=1000)
        except TooLarge:
            continue
        known = _bounds(objects, ["improve"], limits=limits)["improve", None]
        assert found.tiers[0][2] <= known, seed
        compared += 1
        close += known - found.tiers[0][2] <= 10 * BALANCE_PER_POINT
    assert compared >= 5
    assert 2 * close >= compared


@pytest.mark.full
@pytest.mark.parametrize("kind", SOFT)
def test_brute_force_never_exceeds_what_groups_prove(kind: str) -> None:
    """Each group solved alone, with what its moves cost: that lowers the bound, but never below the best plan."""
    lower = compared = 0
    for seed in range(5):
        objects = _plain(preferring(seed, kind))
        for least in (0, 5):
            problem = case_of(objects, ["improve"], limits=Limits(minGain=least))
            brute = Brute(objects, ["improve"], limits=Limits(minGain=least * BALANCE_PER_POINT // 100))  # which counts in hundredths
            brute.score = _score(problem)
            values = PlanObjective(problem, ["improve"])
            known, components = values.bounds()[0], values.components
            try:
                best_plan = brute.best(most_states=1000).tiers[0][2]
            except TooLarge:
                continue
            cpsat = CpSat(RunContext.start(Options(workers=1, deterministic=True)))
            for component in components.found if components is not None else ():
                assert components is not None
                components.share_every = 0
                start = problem.start[component.classes]
                for _ in range(4):
                    components.solve(component, cpsat, 1.0, start, components.worth(component.classes, start))
                    components.bound_jointly(cpsat)
            proved = values.bounds()[0]
            assert best_plan <= proved <= known, (seed, least)
            compared, lower = compared + 1, lower + (proved < known)
    assert compared >= 4
    assert lower or kind == "nodes"


def test_running_pods_need_no_longer_be_where_their_required_affinity_brought_them() -> None:
    """Two of the four that want each other run in each zone, on the nodes that they prefer: no bound may ask them into one zone."""
    affinity = terms(pulls=[near("b", ZONE, 10)], together=[near("a", ZONE)]) | preferring_good(100)
    nodes = [node(f"n{i}", cpu="2", labels={ZONE: f"z{i}", "good": "y"}) for i in range(2)]
    objects = [*nodes, node("n2", cpu="8", labels={ZONE: "z0"})]
    objects += [running(f"a{i}", f"n{i % 2}", cpu="900m", labels={"app": "a"}, affinity=affinity) for i in range(4)]
    objects += [running(f"b{i}", f"n{i}", cpu="10m", labels={"app": "b"}) for i in range(2)]
    objects += [running("d", "n0", cpu="10m", labels={"app": "d"}, affinity=terms(repels=[near("a", HOST, 3)]))]
    problem = case_of(objects, ["improve"])
    components = PlanObjective(problem, ["improve"]).components
    assert components is not None
    cpsat = CpSat(RunContext.start(Options(workers=1, deterministic=True)))
    for component in components.found:
        start = problem.start[component.classes]
        components.solve(component, cpsat, 1.0, start, components.worth(component.classes, start))
    assert components.bound >= components.worth(range(problem.cluster.n_classes), problem.start) == 438


def preferring_good(weight: int) -> Object:
    preference = {"matchExpressions": [{"key": "good", "operator": "Exists"}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": preference}]}}


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_no_plan_reaches_as_much_with_fewer_moves_than_the_bound(kind: str) -> None:
    compared = 0
    for seed in range(25):
        objects = tiny.cluster(seed, kind)
        _, drain, limits = tiny.plan_options(seed, kind)
        for goals in ([], ["consolidate"]):
            if not (goals or drain):
                continue
            try:
                found = best(objects, goals, drain, allow_eviction=limits.allowEviction, limits=limits)
            except TooLarge:
                continue
            problem = case_of(objects, goals, drain, limits)
            if (problem.cost != 1).any():
                continue
            values = PlanObjective(problem, goals)
            names = [(name, priority) for name, priority, _ in found.tiers]
            reached = [
                found.tiers[names.index((t.name, t.priority))][2] if (t.name, t.priority) in names else t.bound(values)
                for t in values.tiers[:-1]
            ]
            assert -values.bound_of_moves(reached) <= found.moves, (seed, goals, drain)
            compared += 1
    assert compared > 10


def _pools(count: int) -> list[Object]:
    """Two pools with the given numbers of nodes, each with a pod of 1 CPU that only its pool accepts; b has larger nodes."""
    nodes = [node(f"{pool}{i}", cpu=cpu, labels={"pool": pool}) for pool, cpu in (("a", "2"), ("b", "8")) for i in range(count)]
    pods = [
        running(f"{pool}-{i}", f"{pool}{i}", cpu="1", nodeSelector={"pool": pool}) for pool in ("a", "b") for i in range(count)
    ]  # fmt: skip
    return [*nodes, *pods]


def test_pods_take_up_nodes_of_their_own_pool() -> None:
    """By sums alone the two large nodes would do for all sixteen CPUs."""
    problem = case_of(_pools(8), ["consolidate"])
    values = PlanObjective(problem, ["consolidate"])
    assert values.bounds()[0] == 16 - 4 - 1
    assert values.bound_of_moves([11]) == -11
    assert values.bound_of_moves([3]) == -3


def test_pods_that_keep_apart_need_a_node_each() -> None:
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    ]}}  # fmt: skip
    nodes = [node(f"n{i}", cpu="8") for i in range(12)]
    pods = [running(f"web-{i}", f"n{i}", cpu="1", labels={"app": "web"}, affinity=apart) for i in range(9)]
    assert _bounds([*nodes, *pods], ["consolidate"])["freed", None] == 3


def test_a_drain_moves_the_pods_of_the_drained_nodes_at_least() -> None:
    problem = case_of(_pools(3), [], ["a0", "b1"])
    values = PlanObjective(problem, [])
    assert values.bound_of_moves([0]) == -2
    assert values.bound_of_moves([-1]) == -1
