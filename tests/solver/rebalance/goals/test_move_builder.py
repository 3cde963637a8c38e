"""A sequence of accepted steps under construction: limits, steps taken back, and the order in which pods and places are tried."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from tests.objects import node, pod
from tests.plans import tiny
from tests.solver.rebalance.problem.test_problem import budget, case_of, class_of, running

Object = dict[str, Any]


def builder_of(
    objects: Sequence[Object], goals: Sequence[str] = (), drain: Sequence[str] = (), limits: Limits | None = None
) -> MoveBuilder:
    """A walk with no step yet, and all the time that it wants."""
    return begin(case_of(objects, goals, drain, limits))


def begin(problem: RebalanceProblem) -> MoveBuilder:
    return MoveBuilder(problem, lambda: False)


def accepted(problem: RebalanceProblem, steps: Sequence[Step]) -> bool:
    """Return True if steps are accepted pod by pod, one after the other, within the limits. For plans without gangs."""
    builder = begin(problem)
    for step in steps:
        for _ in range(step.k):
            single = Step(step.g, step.a, step.b)
            if step.b < 0:
                fine = builder.within(step.g, eviction=True) and builder.state.may_go(step.g, step.a)
            else:
                fine = builder.within(step.g) and bool(builder.state.landing(step.g, step.a)[step.b])
            if not fine:
                return False
            builder.take(single)
    return True


def _pods(*names: str, **more: Any) -> list[Object]:
    """Pods of different sizes on n1, so that each is a class of its own."""
    return [running(name, "n1", cpu=f"{100 + i}m", **more) for i, name in enumerate(names)]


def _within(builder: MoveBuilder, *names: str, eviction: bool = False) -> list[bool]:
    return [builder.within(class_of(builder.problem, name), eviction=eviction) for name in names]


def _go(builder: MoveBuilder, name: str, to: int) -> None:
    builder.take(Step(class_of(builder.problem, name), 0, to))


def test_moves_and_evictions_have_their_limits() -> None:
    objects = [node("n1"), node("n2"), *_pods("p", "q", "r"), pod("new")]
    builder = builder_of(objects, ["admit"], ["n1"], Limits(maxMoves=1, maxEvictions=1, allowEviction=True))
    assert _within(builder, "p", "q") == [True, True]
    _go(builder, "p", 1)
    assert _within(builder, "p", "q", "new") == [False, False, True]
    assert not builder.places(class_of(builder.problem, "q"), 0).any()
    assert _within(builder, "q", eviction=True) == [True]
    _go(builder, "q", -1)
    assert _within(builder, "r", eviction=True) == [False]
    builder.rewind_to(0)
    assert _within(builder, "p", "q") == [True, True]
    assert _within(builder, "r", eviction=True) == [True]


def test_moves_per_namespace_and_per_workload_are_counted_apart() -> None:
    other_pod = running("r", "n1", cpu="1", namespace="other", owner="ReplicaSet/b")
    objects = [node("n1"), node("n2"), *_pods("p", "q", owner="ReplicaSet/a"), other_pod]
    for limits in (Limits(maxMovesPerNamespace=1), Limits(maxMovesPerWorkload=1)):
        builder = builder_of(objects, limits=limits)
        _go(builder, "p", 1)
        assert _within(builder, "p", "q", "other/r") == [False, False, True]
        builder.rewind_to(0)
        _go(builder, "other/r", 1)
        assert _within(builder, "p", "q", "other/r") == [True, True, False]


def test_who_went_for_good_stays_missing_in_its_budget() -> None:
    objects = [node("n1"), node("n2"), budget("guard", "web", minAvailable=1), *_pods("p", "q", "r", labels={"app": "web"})]
    builder = builder_of(objects, drain=["n1"], limits=Limits(allowEviction=True))
    assert builder.problem.budgets[0].allowed == 2
    _go(builder, "p", 1)  # moved pods are healthy again
    assert _within(builder, "q", eviction=True) == [True]
    _go(builder, "q", -1)
    assert _within(builder, "r", eviction=True) == [True]
    builder.take(Step(class_of(builder.problem, "p"), 1, -1))
    assert (_within(builder, "r"), _within(builder, "r", eviction=True)) == ([False], [False])
    builder.rewind_to(2)
    assert _within(builder, "r") == [True]


def test_a_budget_lets_as_many_go_as_it_allows_in_all_waves() -> None:
    objects = [node("n1"), node("n2"), budget("guard", "web", minAvailable=2), *_pods("p", "q", "r", labels={"app": "web"}), *_pods("s")]
    builder = builder_of(objects, drain=["n1"], limits=Limits(maxWaves=2, allowEviction=True))
    _go(builder, "p", 1)
    assert _within(builder, "q", "s") == [True, True]
    _go(builder, "q", 1)
    assert _within(builder, "p", "r", "s") == [False, False, True]
    assert _within(builder, "r", eviction=True) == [False]
    builder.rewind_to(1)
    assert _within(builder, "r") == [True]
    _go(builder, "q", -1)  # for good: nobody else may go
    assert _within(builder, "r") == [False]


def test_several_pods_of_a_step_count_each() -> None:
    builder = builder_of([node("n1"), node("n2"), *(running(f"p{i}", "n1") for i in range(4))], limits=Limits(maxMoves=3))
    builder.take(Step(0, 0, 1, 2))
    assert builder.within(0)
    builder.take(Step(0, 0, 1))
    assert not builder.within(0)
    builder.rewind_to(1)
    assert builder.within(0)


def test_the_fullest_place_is_taken_and_the_largest_pod_goes_first() -> None:
    objects = [node("n1"), node("n2"), node("n3"), node("n4"), running("a", "n1"), running("b", "n1", cpu="2"), running("c", "n1")]
    objects += [running("d", "n2", cpu="2"), running("e", "n3", cpu="1"), pod("bare", node_name="n1")]
    builder = builder_of(objects)
    small, large = class_of(builder.problem, "a"), class_of(builder.problem, "b")
    assert builder.running(0) == [large, small, small]
    assert builder.tightest(small, np.array([False, True, True, True])) == 1
    assert builder.tightest(small, np.array([False, False, True, True])) == 2
    assert builder.tightest(small, np.ones(4, dtype=bool), bias=np.array([0, 0, 1, 1])) == 2
    builder.kept_empty[1] = True
    assert builder.places(small, 0).tolist() == [False, False, True, True]


def test_it_is_over_when_its_caller_says_so() -> None:
    late = False
    builder = MoveBuilder(case_of([node("n1")]), lambda: late)
    assert not builder.over()
    late = True
    assert builder.over()


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_steps_taken_back_leave_no_trace(kind: str) -> None:
    for seed in range(8):
        rng, (goals, drain, limits) = random.Random(seed), tiny.plan_options(seed, kind)
        builder = builder_of(tiny.cluster(seed, kind), goals, drain, limits)
        state, problem = builder.state, builder.problem
        broken, free = state.broken(), state.fit.free.copy()
        for _ in range(3):
            for _ in range(5):
                g = rng.randrange(problem.cluster.n_classes)
                a = -1 if problem.pending[g] else rng.choice(np.flatnonzero(state.counts[g]).tolist() or [-1])
                if problem.pending[g] or (a >= 0 and problem.movable[g]):
                    builder.take(Step(g, a, rng.randrange(problem.cluster.n_nodes)))
            builder.rewind_to(rng.randrange(len(builder.steps) + 1))
        builder.rewind_to(0)
        assert (state.counts == problem.start).all()
        assert (state.fit.free == free).all()
        assert not state.arrived.any()
        assert state.broken() == broken
        assert not any(builder._spent.values())
        assert not any(builder._gone.values())
