"""Plans of no more waves than asked for: tiny clusters against brute force, and instances with known answers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kubestow.checker.plan.plan import verify_plan
from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.runtime.options import Engine, Options
from tests.objects import node, pod
from tests.plans import tiny
from tests.plans.brute import Best, TooLarge
from tests.plans.waves import best_in_waves
from tests.solver.rebalance.problem.test_problem import apart, budget, case_of, even, gang, running

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


def _plan(
    objects: Sequence[Object], goals: Sequence[str], drain: Sequence[str], limits: Limits, *, engine: Engine = "auto", seconds: float = 1.0
) -> RebalancePlan:
    """A plan within its limits."""
    snapshot, options = from_objects(objects), Options(engine, time_limit=seconds, workers=1)
    plan = rebalance(snapshot, PlanOptions(tuple(goals), tuple(drain), limits, options))
    assert verify_plan(snapshot, plan) == []
    assert limits.maxWaves is None or plan.waves <= limits.maxWaves
    assert plan.leastWaves <= plan.waves
    return plan


# --- against brute force ----------------------------------------------------------------------------------------------------------------


KINDS = (*tiny.KINDS, "guarded")


def _guards(seed: int) -> list[Object]:
    """Three nodes, and pods of two apps whose budgets allow one disruption or two at a time; some keep apart or in balance."""
    rng = random.Random(f"guards-{seed}")
    objects = [node(f"n{i}", cpu=f"{rng.choice((2, 3))}", labels={ZONE: f"z{i % 2}"}) for i in range(3)]
    for app in "ab":
        rules: Object = rng.choice(({}, {}, {}, {"spread": even(app, ZONE)}, {"affinity": apart(app)}))
        allowed, cpu = rng.choice((1, 1, 1, 2)), rng.choice(("400m", "500m", "700m"))
        homes = rng.sample(range(3), 2) if "affinity" in rules else [rng.choice((0, 0, 1, 2)) for _ in range(3)]
        objects += [running(f"{app}{i}", f"n{n}", cpu=cpu, labels={"app": app}, **rules) for i, n in enumerate(homes)]
        objects.append(budget(app, app, minAvailable=len(homes) - allowed))
    return objects


def _asked(seed: int, kind: str) -> Iterator[tuple[list[Object], Sequence[str], Sequence[str], Limits]]:
    """Tiny clusters with one to three waves; without gangs that wait, whose units the brute force does not know."""
    if kind == "guarded":
        for limit in (1, 2, 3):
            yield (_guards(seed), *(((), ("n0",)) if seed % 3 else (("consolidate",), ())), Limits(maxWaves=limit))
        return
    objects = tiny.cluster(seed, kind)
    if any("kubestow.dev/gang" in thing["metadata"].get("annotations", {}) for thing in objects):
        return
    goals, drain, limits = tiny.plan_options(seed, kind)
    for limit in (1, 2, 3):
        yield objects, goals, drain, Limits(maxWaves=limit, allowEviction=limits.allowEviction, alsoMove=limits.alsoMove)


def _compare(plan: RebalancePlan, known: Best) -> bool:
    """Check that a plan is as good as the best one, that none is better, and that no bound is below it."""
    best = {(name, priority): value for name, priority, value in [*known.tiers, ("moves", None, -known.moves)]}
    for tier in plan.objective:
        value = best.get((tier.tier, tier.priority), 0)
        assert tier.value <= value <= tier.bound, (tier, value, known.steps)
        if tier.value < value:
            assert plan.status == "feasible"
            return False
    return True


def _against_brute_force(seeds: range, kind: str, engine: Engine) -> None:
    equal = total = 0
    for seed in seeds:
        for objects, goals, drain, limits in _asked(seed, kind):
            try:
                known = best_in_waves(objects, goals, drain, limits, most_states=800)
            except TooLarge:
                continue
            total += 1
            equal += _compare(_plan(objects, goals, drain, limits, engine=engine, seconds=1.0), known)
    assert 10 * equal >= 9 * total, (equal, total)


@pytest.mark.parametrize("kind", ["drain", "guarded"])
def test_plans_of_a_few_clusters_are_as_good_as_brute_force(kind: str) -> None:
    _against_brute_force(range(2), kind, "auto")


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_plans_are_as_good_as_brute_force(kind: str) -> None:
    _against_brute_force(range(2, 7), kind, "auto")


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
@pytest.mark.parametrize("kind", KINDS)
def test_many_plans_are_as_good_as_brute_force(kind: str, block: int) -> None:
    _against_brute_force(range(10 * block + 7, 10 * block + 17), kind, "auto")


@pytest.mark.full
@pytest.mark.parametrize("engine", ["greedy", "lns"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_engine_exceeds_the_limit_or_a_bound(kind: str, engine: Engine) -> None:
    for seed in range(4):
        for objects, goals, drain, limits in _asked(seed, kind):
            try:
                known = best_in_waves(objects, goals, drain, limits, most_states=400)
            except TooLarge:
                continue
            _compare(_plan(objects, goals, drain, limits, engine=engine, seconds=0.5), known)


@pytest.mark.full
def test_the_limit_makes_a_difference_to_these_clusters() -> None:
    fewer = 0
    for seed in range(12):
        values = []
        for objects, goals, drain, limits in _asked(seed, "guarded"):
            values.append([(tier.tier, tier.value) for tier in _plan(objects, goals, drain, limits).objective])
        fewer += any(value != values[-1] for value in values)
    assert fewer >= 6


# --- known answers ----------------------------------------------------------------------------------------------------------------------


def _guarded(nodes: int, *, allowed: int = 1) -> list[Object]:
    """Nodes with one pod of the same app each, and one node with room for all pods."""
    objects = [node("large", cpu="32", labels={"node-role.kubernetes.io/control-plane": ""}), *(node(f"n{i}") for i in range(nodes))]
    objects += [running(f"web-{i}", f"n{i}", cpu="3", labels={"app": "web"}) for i in range(nodes)]
    return [*objects, budget("web", "web", maxUnavailable=allowed), budget("none", "none", maxUnavailable=0)]


@pytest.mark.parametrize("engine", ["greedy", "exact", "lns"])
@pytest.mark.parametrize(("waves", "allowed"), [(0, 1), (1, 1), (3, 1), (2, 2), (9, 1)])
def test_as_many_nodes_are_freed_as_waves_allow_and_the_bound_knows_it(waves: int, allowed: int, engine: Engine) -> None:
    freed = min(8, waves * allowed)
    objects = _guarded(8, allowed=allowed)
    plan = _plan(objects, ["consolidate"], [], Limits(maxWaves=waves), engine=engine)
    assert [(tier.value, tier.bound) for tier in plan.objective] == [(freed, freed), (-freed, -freed)]
    assert plan.status == "optimal"
    values = PlanObjective(case_of(objects, ["consolidate"], limits=Limits(maxWaves=waves)), ["consolidate"])
    assert values.bounds()[0] == freed
    assert (plan.waves, plan.leastWaves) == (-(-freed // allowed), -(-freed // allowed))


@pytest.mark.parametrize("engine", ["greedy", "auto"])
def test_nodes_without_pods_of_scarce_budgets_are_freed_instead(engine: Engine) -> None:
    """Six nodes of which three hold a guarded pod each, and room for the pods of four."""
    nodes = [node(f"n{i}", cpu="2") for i in range(6)]
    pods = [running(f"web-{i}", f"n{i}", cpu="600m", labels={"app": "web"}) for i in range(3)]
    pods += [running(f"other-{i}", f"n{i}", cpu="600m") for i in range(3, 6)]
    plan = _plan([*nodes, *pods, budget("web", "web", minAvailable=2)], ["consolidate"], [], Limits(maxWaves=1), engine=engine)
    assert len(plan.freed) == 4
    assert plan.status == "optimal"
    assert sum(move.pod.startswith("default/web") for move in plan.moves) == 1


def test_the_model_knows_how_many_pods_of_a_budget_may_go() -> None:
    """Five pods are on the wrong node, and one may leave in each of two waves."""
    pods = [running(f"web-{i}", "n0", labels={"app": "web"}, selector={"disk": "ssd"}) for i in range(5)]
    objects = [node("n0"), node("n1", labels={"disk": "ssd"}), *pods, budget("web", "web", minAvailable=4)]
    plan = _plan(objects, ["repair"], [], Limits(maxWaves=2), engine="exact", seconds=5.0)
    assert [(tier.value, tier.bound) for tier in plan.objective] == [(-3, -3), (-2, -2)]
    assert all(obstacle.proved for obstacle in plan.obstacles)


@pytest.mark.parametrize("engine", ["greedy", "auto"])
def test_a_drain_takes_off_what_the_waves_allow(engine: Engine) -> None:
    pods = [running(f"web-{i}", "n0", labels={"app": "web"}) for i in range(5)]
    objects = [node("n0"), node("n1"), *pods, running("other", "n0"), budget("web", "web", minAvailable=3)]
    for waves, remaining in ((1, 3), (2, 1), (3, 0)):
        plan = _plan(objects, [], ["n0"], Limits(maxWaves=waves), engine=engine)
        assert [(tier.value, tier.bound) for tier in plan.objective] == [(-remaining, -remaining), (remaining - 6, remaining - 6)]
        assert plan.status == "optimal"
        assert all(obstacle.proved for obstacle in plan.obstacles)
        why = f"PodDisruptionBudget default/web allows {2 * waves} evictions in {waves} wave{'s' * (waves > 1)}, already used by other pods"
        assert [obstacle.message.partition(": ")[2] for obstacle in plan.obstacles] == [why] * remaining


def test_room_that_a_wave_makes_is_for_the_next() -> None:
    """`new` fits only where p is, and p elsewhere."""
    objects = [node("n0", cpu="2"), node("n1", cpu="1"), running("p", "n0", cpu="1"), pod("new", cpu="2")]
    assert _plan(objects, ["admit"], [], Limits(maxWaves=2)).obstacles == []
    plan = _plan(objects, ["admit"], [], Limits(maxWaves=1), seconds=5.0)
    assert (plan.moves, [obstacle.pod for obstacle in plan.obstacles]) == ([], ["default/new"])
    assert plan.status == "optimal"


def test_a_gang_comes_whole_or_not_at_all() -> None:
    members = gang("pair", *(pod(f"g{i}", cpu="1") for i in range(2)))
    objects = [node("n0", cpu="1"), node("n1", cpu="1"), node("n2", cpu="1"), running("p", "n0", cpu="500m"), *members]
    objects += [running("q", "n1", cpu="500m")]
    for waves, placed in ((1, 0), (2, 2)):
        plan = _plan(objects, ["admit"], [], Limits(maxWaves=waves))
        assert sum(move.source is None for move in plan.moves) == placed


def test_preferences_gain_within_the_waves() -> None:
    """All pods are on one node; without a limit they spread."""
    pods = [running(f"web-{i}", "n0", cpu="300m", labels={"app": "web"}) for i in range(8)]
    objects = [node("n0"), node("n1"), *pods, budget("web", "web", minAvailable=7)]
    engines: tuple[Engine, ...] = "exact", "lns", "greedy"
    for engine in engines:
        limits = (Limits(maxWaves=limit, minGain=0) for limit in (None, 2))
        assert [len(_plan(objects, ["improve"], [], each, engine=engine, seconds=0.5).moves) for each in limits] == [4, 2]


def test_moves_stay_in_their_zone_where_there_is_room() -> None:
    """The best fit is in the other zones, but then one pod goes at a time."""
    nodes = [node(f"n{i}", cpu="4", labels={ZONE: f"z{i % 3}"}) for i in range(6)]
    pods = [running(f"a{i}", f"n{i % 3}", cpu="400m", labels={"app": "a"}, spread=even("a", ZONE)) for i in range(10)]
    fuller = [running(f"f{i}", f"n{i + 3}", cpu=f"{100 + i}m", owner="ReplicaSet/f") for i in range(3)]
    plan = _plan([*nodes, *pods, *fuller], [], ["n0", "n1", "n2"], Limits(maxWaves=3), engine="greedy")
    assert plan.obstacles == []
    assert plan.waves <= 3


# --- statements of plans on waves -------------------------------------------------------------------------------------------------------


def test_every_plan_says_in_how_many_waves_its_steps_go_at_least() -> None:
    plan = _plan(_guarded(4), ["consolidate"], [], Limits())
    assert (plan.waves, plan.leastWaves) == (4, 4)
    assert _plan(_guarded(4, allowed=2), ["consolidate"], [], Limits()).leastWaves == 2
    assert _plan([node("n0"), running("p", "n0")], ["repair"], [], Limits()).leastWaves == 0


def test_budgets_and_pods_that_move_on_are_counted_by_the_checker_as_well() -> None:
    snapshot = from_objects(_guarded(3))
    plan = _plan(_guarded(3), ["consolidate"], [], Limits())
    assert plan.leastWaves == 3
    plan.leastWaves = 4
    (fault,) = verify_plan(snapshot, plan)
    assert fault.why == "leastWaves is 4, budgets and pods that wait for others need only 3"
    for less in (0, 2):
        plan.leastWaves = less  # a weaker claim holds, too
        assert verify_plan(snapshot, plan) == []


def test_a_plan_one_wave_over_its_limit_is_refused() -> None:
    snapshot = from_objects(_guarded(3))
    plan = _plan(_guarded(3), ["consolidate"], [], Limits(maxWaves=3))
    assert plan.waves == 3
    plan.limits = msgspec.structs.replace(plan.limits, maxWaves=2)
    (fault,) = verify_plan(snapshot, plan)
    assert (fault.rule, fault.why) == ("RebalancePlan", "3 waves, at most 2 are allowed")


# --- limits on evictions, where they are counted ----------------------------------------------------------------------------------------


def test_the_limit_of_a_budget_is_what_it_allows_in_each_wave() -> None:
    problem = case_of(_guarded(4, allowed=2), ["consolidate"], limits=Limits(maxWaves=3))
    assert problem.eviction_limits == {0: 6}
    assert case_of(_guarded(4), ["consolidate"]).eviction_limits == {}


def test_the_objective_counts_what_leaves_whatever_the_limit() -> None:
    objects = [node("n0"), node("n1"), running("p", "n0", labels={"app": "web"}), budget("web", "web", minAvailable=0)]
    problem = case_of(objects, drain=["n0"], limits=Limits(maxWaves=0))
    values = PlanObjective(problem, [])
    assert values.bounds() == [-1, 0]
    assert values.of_steps([]) == (-1, 0)
    assert values.of_steps([Step(0, 0, 1)]) == (0, -1)
    assert replace(problem, limits=Limits(maxWaves=1)).eviction_limits == {0: 1}
