"""The exact engine of plans against a breadth-first search over all accepted steps."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.exact import ExactPlanSearch
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step, read_problem
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.result import PlanSearchResult
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.rebalance.tiers.tier import Tier
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from tests.objects import node, pod
from tests.plans import tiny
from tests.plans.brute import TooLarge, best
from tests.tiers import sampled

Object = dict[str, Any]


def solve(
    objects: Sequence[Object], goals: Sequence[str], drain: Sequence[str] = (), limits: Limits | None = None, **more: Any
) -> PlanSearchResult:
    """From no plan at all; the steps are carried out one by one."""
    options = Options(**{"time_limit": 60.0, "workers": 1, **more})
    plan_options = PlanOptions(tuple(goals), tuple(drain), limits or Limits(), options)
    problem = read_problem(from_objects(list(objects)), plan_options)
    exact = ExactPlanSearch(PlanObjective(problem, plan_options.goals), RunContext.start(options))
    found = exact.solve()
    if all(cls.gang is None for cls in problem.cluster.classes):
        carried_out(problem, found)
    assert found.values == exact.values.of_steps(found.steps)
    return found


def tiers(objects: Sequence[Object], goals: Sequence[str], drain: Sequence[str], limits: Limits) -> list[Tier]:
    problem = read_problem(from_objects(list(objects)), PlanOptions(tuple(goals), tuple(drain), limits))
    return PlanObjective(problem, goals).tiers


def carried_out(problem: RebalanceProblem, found: PlanSearchResult) -> None:
    state = PlanState(problem)
    for step in found.steps:
        for _ in range(step.k):
            assert state.may_go(step.g, step.a) if step.b < 0 else state.landing(step.g, step.a)[step.b], step
            state.apply(Step(step.g, step.a, step.b))
    assert (state.counts == problem.end(found.steps)).all()


@pytest.mark.parametrize("kind", sampled(tiny.KINDS, every=6))
def test_every_tier_is_that_of_the_brute_force(kind: str) -> None:
    compared = 0
    for seed in range(12):
        objects = tiny.cluster(seed, kind)
        goals, drain, limits = tiny.plan_options(seed, kind)
        try:
            true = best(objects, goals, drain, allow_eviction=limits.allowEviction, limits=limits)
        except TooLarge:
            continue
        found = solve(objects, goals, drain, limits)
        values = {(tier.name, tier.priority): value for tier, value in zip(tiers(objects, goals, drain, limits), found.values, strict=True)}
        for name, priority, value in true.tiers:
            assert values.pop((name, priority), 0) == value, (seed, name, true, found.values)
        assert -values.pop(("moves", None)) == true.moves, (seed, true, found.values)
        assert -sum(value for (name, _), value in values.items() if name == "evictions") in (0, true.evictions)
        assert found.proved, (seed, found.values, found.bounds, found.notes)
        compared += 1
    assert compared > 4


def running(name: str, at: str, **more: Any) -> Object:
    return pod(name, node_name=at, owner="ReplicaSet/r", **more)


def wants(*disks: str) -> Object:
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": list(disks)}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def swap(*spare: Object) -> list[Object]:
    """Two pods, each on the node that only the other one accepts."""
    nodes = [node("n1", cpu="1", labels={"disk": "ssd"}), node("n2", cpu="1", labels={"disk": "hdd"}), *spare]
    pods = [running("p1", "n2", cpu="1", affinity=wants("ssd", "both")), running("p2", "n1", cpu="1", affinity=wants("hdd", "both"))]
    return [*nodes, *pods]


def test_pods_that_change_places_go_by_a_spare_one() -> None:
    objects = swap(node("n3", cpu="1", labels={"disk": "both", "price": "5"}))
    for thing in objects[:2]:
        thing["metadata"]["labels"]["price"] = "1"
    policy = Policy(priceLabel="price")
    found = solve(objects, ["repair", "consolidate"], policy=policy)
    assert (found.values, found.proved) == ((0, -2000, -3), True)
    found = solve(objects, ["repair", "consolidate"], limits=Limits(maxMoves=2), policy=policy)
    assert (found.values, found.proved) == ((0, -6000, -2), True)
    found = solve(objects, ["repair"])
    assert (found.values, found.proved) == ((0, -2), True)
    found = solve(objects, ["repair"], limits=Limits(maxMoves=1))
    assert (found.values, found.proved) == ((-1, -1), True)


def test_a_circle_without_a_spare_place_is_proved_to_be_one() -> None:
    found = solve(swap(), ["repair"])
    assert (found.values, found.proved, found.steps) == ((-2, 0), True, [])
    assert any("was excluded" in note for note in found.notes)


def test_the_dearer_node_is_freed() -> None:
    objects = [
        node("n1", labels={"price": "3"}),
        node("n2", labels={"price": "5"}),
        node("n3", labels={"price": "0.5"}, unschedulable=True),
    ]
    objects += [running("p1", "n1", cpu="1"), *(running(f"q{i}", "n2", cpu="1") for i in range(3))]
    found = solve(objects, ["consolidate"], policy=Policy(priceLabel="price"))
    assert (found.values, found.proved) == ((-3000, -3), True)
    assert solve(objects, ["consolidate"]).values == (2, -1)


def test_a_preference_has_to_be_worth_the_move() -> None:
    term = {"weight": 5, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects = [node("n1"), node("n2", labels={"disk": "ssd"}), running("p", "n1", affinity=affinity)]
    found = solve(objects, ["improve"])
    assert (found.values[1], found.proved) == (-1, True)
    found = solve(objects, ["improve"], limits=Limits(minGain=6))
    assert (found.values[1], found.proved) == (0, True)


def test_overcommitted_nodes_are_a_start_like_any_other() -> None:
    objects = [node("n1", cpu="1"), node("n2", cpu="2"), *(running(f"p{i}", "n1", cpu="600m") for i in range(3))]
    found = solve(objects, ["repair", "improve"])
    assert (found.values[0], found.values[-1], found.proved) == (0, -2, True)


def test_a_run_that_is_stopped_keeps_the_plan_and_says_no_more_than_it_knows() -> None:
    plan_options = PlanOptions(("repair",), (), Limits(), Options(workers=1))
    problem = read_problem(from_objects(swap(node("n3", cpu="1", labels={"disk": "both"}))), plan_options)
    stop = threading.Event()
    stop.set()
    g = next(g for g, cls in enumerate(problem.cluster.classes) if cls.pod.metadata.name == "p1")
    found = ExactPlanSearch(PlanObjective(problem, plan_options.goals), RunContext.start(plan_options.options, stop)).solve([Step(g, 1, 2)])
    assert (found.values, found.steps, found.proved) == ((-1, -1), [Step(g, 1, 2)], False)
    assert found.bounds == [0, 0]


@pytest.mark.parametrize("kind", ["tight", "mixed"])
def test_two_deterministic_runs_are_the_same(kind: str) -> None:
    for seed in range(3):
        goals, drain, limits = tiny.plan_options(seed, kind)
        first, second = (
            solve(tiny.cluster(seed, kind), goals, drain, limits, deterministic=True, workers=None, time_limit=20.0) for _ in range(2)
        )
        assert (first.steps, first.values, first.bounds, first.notes) == (second.steps, second.values, second.bounds, second.notes)
