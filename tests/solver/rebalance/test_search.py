"""The search for a plan: goal after goal, what one reached the next ones keep; and which engine does what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance import search as searching
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step, read_problem
from kubestow.solver.rebalance.result import PlanSearchResult
from kubestow.solver.rebalance.search import construct, search
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.runtime.options import Options, Progress
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext
from tests.objects import node, pod
from tests.plans import tiny
from tests.solver.rebalance.goals.test_improve import SOFT, preferring
from tests.solver.rebalance.goals.test_move_builder import accepted, begin
from tests.solver.rebalance.problem.test_problem import budget, case_of, class_of, gang, running, step_names

Object = dict[str, Any]


def _built(
    objects: Sequence[Object], goals: Sequence[str], drain: Sequence[str] = (), limits: Limits | None = None
) -> tuple[RebalanceProblem, list[Step]]:
    problem = case_of(objects, goals, drain, limits)
    steps = construct(begin(problem), PlanObjective(problem, goals), goals)
    assert accepted(problem, steps)
    return problem, steps


def _search(
    objects: Sequence[Object], goals: Sequence[str], drain: Sequence[str] = (), *, stop: bool = False, **options: Any
) -> tuple[PlanSearchResult, list[Progress]]:
    """Return the result and all progress reports."""
    plan_options = PlanOptions(tuple(goals), tuple(drain), Limits(), Options(**{"time_limit": 20.0, "workers": 1, **options}))
    problem = read_problem(from_objects(objects), plan_options)
    progress: list[Progress] = []
    context = RunContext.start(plan_options.options, report=ProgressReporter(progress.append))
    if stop:
        context.stop.set()
    return search(problem, PlanObjective(problem, goals), plan_options.goals, context), progress


# --- construction -----------------------------------------------------------------------------------------------------------------------


def test_nodes_freed_by_one_goal_stay_free_in_the_next() -> None:
    objects = [node("n0", cpu="2"), node("n1", cpu="2"), *(running(f"p{i}", f"n{i}", cpu="500m") for i in range(2))]
    problem, steps = _built(objects, ["consolidate", "improve"])
    assert step_names(problem, steps) == [("p0", "n0", "n1")]
    problem, steps = _built(objects, ["improve", "consolidate"])
    assert steps == []  # evenness comes first


def test_what_is_left_is_evened_out_without_the_freed_nodes() -> None:
    objects = [node("n0"), *(node(f"n{i}", labels={"node-role.kubernetes.io/control-plane": ""}) for i in (1, 2))]
    objects += [running("p", "n0", cpu="1"), *(running(f"q{i}", "n1", cpu="1") for i in range(3))]
    problem, steps = _built(objects, ["consolidate", "improve"], limits=Limits(minGain=0))
    builder = begin(problem)
    for step in steps:
        builder.take(step)
    assert builder.state.counts.sum(axis=0).tolist() == [0, 2, 2]


def test_a_pod_that_waits_is_bound_and_nodes_are_freed_of_the_rest() -> None:
    objects = [
        node("n0", cpu="2"),
        node("n1", cpu="2"),
        running("p", "n0", cpu="500m"),
        running("q", "n1", cpu="500m"),
        pod("new", cpu="2"),
    ]
    problem, steps = _built(objects, ["admit", "consolidate"])
    assert [to for name, _, to in step_names(problem, steps) if name == "new"] == ["n0"]
    assert len(steps) == 2
    problem, steps = _built(objects, ["consolidate"])
    assert step_names(problem, steps) == [("p", "n0", "n1")]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["mixed", "drain", "repair"])
def test_no_goal_spoils_what_those_before_it_reached(kind: str) -> None:
    for seed in range(25):
        _, drain, limits = tiny.plan_options(seed, kind)
        objects = tiny.cluster(seed, kind)
        for goals in (("repair", "admit", "consolidate"), ("consolidate", "repair"), ("admit", "improve")):
            problem = case_of(objects, goals, drain, limits)
            values = PlanObjective(problem, goals)
            size = 1 if drain else 0
            before: tuple[int, ...] = ()
            for count in range(len(goals) + 1):
                steps = construct(begin(problem), values, goals[:count])
                now = values.of_steps(steps)
                assert now[: len(before)] >= before, (seed, goals[:count])
                if count:
                    size += sum(tier.goal == goals[count - 1] for tier in values.tiers)
                before = now[:size]


# --- engines ----------------------------------------------------------------------------------------------------------------------------


def _puzzle() -> list[Object]:
    """Greedy frees none of three nodes, as each has a pod that fits nowhere at first; two moves free one."""
    sizes = {"n0": ("1100m", "900m"), "n1": ("1100m",), "n2": ("900m",)}
    nodes = [node(name, cpu="2") for name in sizes]
    return [*nodes, *(running(f"{name}-{i}", name, cpu=cpu) for name, found in sizes.items() for i, cpu in enumerate(found))]


def _hard() -> list[Object]:
    """One of the two full nodes can be freed by making room on the other ones."""
    nodes = [node("a", cpu="3"), node("b", cpu="3"), node("c", cpu="3")]
    pods = {"a": ("2", "300m"), "b": ("1500m", "300m"), "c": ("500m", "300m", "200m")}
    return [*nodes, *(running(f"{name}-{i}", name, cpu=cpu) for name, found in pods.items() for i, cpu in enumerate(found))]


def _thirds() -> list[Object]:
    """Two nodes whose total capacity suffices for all pods, but neither holds two pods."""
    sizes = {"n0": "1200m", "n1": "1200m", "n2": "1300m"}
    return [*(node(name, cpu="2") for name in sizes), *(running(f"p-{name}", name, cpu=cpu) for name, cpu in sizes.items())]


def test_the_greedy_engine_searches_no_further() -> None:
    found, tell = _search(_hard(), ["consolidate"], engine="greedy")
    assert found.engine == "greedy"
    assert {progress.phase for progress in tell} == {"greedy", "search"}


def test_what_is_proved_at_once_needs_no_other_engine() -> None:
    found, _ = _search([node("n0"), node("n1")], ["consolidate"], engine="exact")
    assert (found.engine, found.steps, found.values, found.bounds) == ("greedy", [], (2, 0), [2, 0])


@pytest.mark.parametrize(
    ("engine", "limit", "used"), [("auto", 10**6, "exact"), ("auto", 0, "lns"), ("lns", 10**6, "lns"), ("exact", 0, "exact")]
)
def test_the_size_decides_which_engine_auto_takes(monkeypatch: pytest.MonkeyPatch, engine: str, limit: int, used: str) -> None:
    monkeypatch.setattr(searching, "MAX_EXACT_CELLS", limit)
    monkeypatch.setattr("kubestow.solver.rebalance.lns.MAX_IDLE_NEIGHBOURHOODS", 5)
    found, _ = _search(_thirds(), ["consolidate"], engine=engine, time_limit=2.0)
    assert found.engine == used
    assert [note for note in found.notes if "auto chose lns" in note] == (
        ["engine auto chose lns: an exact model would have 6 variables (limit 0)"] if (engine, limit) == ("auto", 0) else []
    )


def test_the_exact_engine_is_never_worse_than_the_start_and_proves_it() -> None:
    for objects in (_puzzle(), _hard()):
        greedy, _ = _search(objects, ["consolidate"], engine="greedy")
        exact, tell = _search(objects, ["consolidate"], engine="exact")
        assert exact.values >= greedy.values
        assert list(exact.values) == exact.bounds
        last = {each.tier: (each.value, each.bound) for each in tell if each.phase == "search"}
        assert last == {"freed": (exact.values[0],) * 2, "moves": (exact.values[1],) * 2}


@pytest.mark.full
def test_preferences_are_searched_after_what_comes_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.solver.rebalance.lns.MAX_IDLE_NEIGHBOURHOODS", 5)
    for goals in (["improve"], ["consolidate", "improve"]):
        built, _ = _search(_puzzle(), goals, engine="greedy")
        found, tell = _search(_puzzle(), goals, engine="lns", time_limit=1.0)
        best, _ = _search(_puzzle(), goals, engine="exact")
        assert (found.engine, found.values) == ("lns", best.values)
        assert found.values >= built.values
        assert all(now <= limit for now, limit in zip(found.values, found.bounds, strict=True))
        assert {progress.phase for progress in tell} >= {"greedy", "search"}


def test_a_search_that_is_stopped_or_out_of_time_gives_what_it_has() -> None:
    for more in ({"stop": True}, {"time_limit": 1e-6}):
        found, _ = _search([node("n0"), node("n1"), running("p", "n0", cpu="3")], [], ["n0"], **more)
        assert (found.engine, found.steps, found.values) == ("greedy", [], (-1, 0))
        assert found.bounds[0] == 0


def test_moves_that_construction_made_in_vain_are_straightened() -> None:
    """A pod that went over another node goes at once."""
    problem = case_of([node("n0"), node("n1"), node("n2"), running("p", "n0")], ["consolidate"], ["n0"])
    values = PlanObjective(problem, ["consolidate"])
    steps = [Step(0, 0, 1), Step(0, 1, 2)]
    found = PlanSearchResult(list(steps), values.of_steps(steps), [0] * len(values.tiers))
    searching._straighten(values, found, RunContext.start(Options(deterministic=True)))
    assert found.steps == [Step(0, 0, 2)]
    assert found.values == values.of_steps([Step(0, 0, 2)])


@pytest.mark.full
def test_gangs_and_budgets_are_kept_by_every_engine() -> None:
    members = gang("train", *(pod(f"g{i}", cpu="2", priority=1) for i in range(2)))
    objects = [*(node(f"n{i}", cpu="2") for i in range(3)), budget("guard", "web", minAvailable=1), *members]
    objects += [running(f"p{i}", f"n{i}", cpu="500m", labels={"app": "web"}) for i in range(2)]
    for engine in ("greedy", "exact", "lns"):
        found, _ = _search(objects, ["admit"], engine=engine, time_limit=2.0)
        assert found.values == (2, -1), engine  # one moves to the other's node, or to the third
        problem = case_of(objects, ["admit"])
        assert {s.b for s in found.steps if s.g == class_of(problem, "g0")} <= {0, 1, 2}


@pytest.mark.full
def test_each_move_of_a_proved_improvement_is_worth_it() -> None:
    """Dropping any single move, with the others still accepted, loses at least the required gain."""
    compared = 0
    for kind in SOFT:
        for seed in range(10):
            objects = preferring(seed, kind)
            problem = case_of(objects, ["improve"], limits=Limits(minGain=1))
            values = PlanObjective(problem, ["improve"])
            found, _ = _search(objects, ["improve"], engine="exact", time_limit=3.0)
            if list(found.values) != found.bounds:
                continue
            for i in range(len(found.steps)):
                others = found.steps[:i] + found.steps[i + 1 :]
                if accepted(problem, others):
                    assert values.of_steps(others) < found.values, (kind, seed)
                    compared += 1
    assert compared >= 20
