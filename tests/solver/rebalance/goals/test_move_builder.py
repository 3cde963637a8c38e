"""A sequence of accepted steps under construction: limits, steps taken back, and the order in which pods and places are tried."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from models.documents.rebalance_plan import Limits
from solver.rebalance.goals.move_builder import Walk
from solver.rebalance.problem.problem import Case, Step
from tests.objects import node, pod
from tests.plans import tiny
from tests.solver.rebalance.problem.test_problem import budget, case_of, class_of, running

Object = dict[str, Any]


def walk_of(objects: Sequence[Object], goals: Sequence[str] = (), drain: Sequence[str] = (), limits: Limits | None = None) -> Walk:
    """A walk with no step yet, and all the time that it wants."""
    return begin(case_of(objects, goals, drain, limits))


def begin(case: Case) -> Walk:
    return Walk(case, threading.Event(), lambda: False)


def accepted(case: Case, steps: Sequence[Step]) -> bool:
    """Whether steps are accepted pod by pod, one after the other, within the limits. For plans without gangs."""
    walk = begin(case)
    for step in steps:
        for _ in range(step.k):
            single = Step(step.g, step.a, step.b)
            if step.b < 0:
                fine = walk.within(step.g, eviction=True) and walk.state.may_go(step.g, step.a)
            else:
                fine = walk.within(step.g) and bool(walk.state.landing(step.g, step.a)[step.b])
            if not fine:
                return False
            walk.take(single)
    return True


def _pods(*names: str, **more: Any) -> list[Object]:
    """Pods of different sizes on n1, so that each is a class of its own."""
    return [running(name, "n1", cpu=f"{100 + i}m", **more) for i, name in enumerate(names)]


def _within(walk: Walk, *names: str, eviction: bool = False) -> list[bool]:
    return [walk.within(class_of(walk.case, name), eviction=eviction) for name in names]


def _go(walk: Walk, name: str, to: int) -> None:
    walk.take(Step(class_of(walk.case, name), 0, to))


def test_moves_and_evictions_have_their_limits() -> None:
    objects = [node("n1"), node("n2"), *_pods("p", "q", "r"), pod("new")]
    walk = walk_of(objects, ["admit"], ["n1"], Limits(maxMoves=1, maxEvictions=1, allowEviction=True))
    assert _within(walk, "p", "q") == [True, True]
    _go(walk, "p", 1)
    assert _within(walk, "p", "q", "new") == [False, False, True]
    assert not walk.places(class_of(walk.case, "q"), 0).any()
    assert _within(walk, "q", eviction=True) == [True]
    _go(walk, "q", -1)
    assert _within(walk, "r", eviction=True) == [False]
    walk.back_to(0)
    assert _within(walk, "p", "q") == [True, True]
    assert _within(walk, "r", eviction=True) == [True]


def test_moves_per_namespace_and_per_workload_are_counted_apart() -> None:
    other_pod = running("r", "n1", cpu="1", namespace="other", owner="ReplicaSet/b")
    objects = [node("n1"), node("n2"), *_pods("p", "q", owner="ReplicaSet/a"), other_pod]
    for limits in (Limits(maxMovesPerNamespace=1), Limits(maxMovesPerWorkload=1)):
        walk = walk_of(objects, limits=limits)
        _go(walk, "p", 1)
        assert _within(walk, "p", "q", "other/r") == [False, False, True]
        walk.back_to(0)
        _go(walk, "other/r", 1)
        assert _within(walk, "p", "q", "other/r") == [True, True, False]


def test_who_went_for_good_stays_missing_in_its_budget() -> None:
    objects = [node("n1"), node("n2"), budget("guard", "web", minAvailable=1), *_pods("p", "q", "r", labels={"app": "web"})]
    walk = walk_of(objects, drain=["n1"], limits=Limits(allowEviction=True))
    assert walk.case.budgets[0].allowed == 2
    _go(walk, "p", 1)  # moved pods are healthy again
    assert _within(walk, "q", eviction=True) == [True]
    _go(walk, "q", -1)
    assert _within(walk, "r", eviction=True) == [True]
    walk.take(Step(class_of(walk.case, "p"), 1, -1))
    assert (_within(walk, "r"), _within(walk, "r", eviction=True)) == ([False], [False])
    walk.back_to(2)
    assert _within(walk, "r") == [True]


def test_several_pods_of_a_step_count_each() -> None:
    walk = walk_of([node("n1"), node("n2"), *(running(f"p{i}", "n1") for i in range(4))], limits=Limits(maxMoves=3))
    walk.take(Step(0, 0, 1, 2))
    assert walk.within(0)
    walk.take(Step(0, 0, 1))
    assert not walk.within(0)
    walk.back_to(1)
    assert walk.within(0)


def test_the_fullest_place_is_taken_and_the_largest_pod_goes_first() -> None:
    objects = [node("n1"), node("n2"), node("n3"), node("n4"), running("a", "n1"), running("b", "n1", cpu="2"), running("c", "n1")]
    objects += [running("d", "n2", cpu="2"), running("e", "n3", cpu="1"), pod("bare", node_name="n1")]
    walk = walk_of(objects)
    small, large = class_of(walk.case, "a"), class_of(walk.case, "b")
    assert walk.running(0) == [large, small, small]
    assert walk.tightest(small, np.array([False, True, True, True])) == 1
    assert walk.tightest(small, np.array([False, False, True, True])) == 2
    assert walk.tightest(small, np.ones(4, dtype=bool), bias=np.array([0, 0, 1, 1])) == 2
    walk.shut[1] = True
    assert walk.places(small, 0).tolist() == [False, False, True, True]


def test_it_is_over_when_time_is_up_or_somebody_says_stop() -> None:
    stop, late = threading.Event(), False
    walk = Walk(case_of([node("n1")]), stop, lambda: late)
    assert not walk.over()
    late = True
    assert walk.over()
    late = False
    stop.set()
    assert walk.over()


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_steps_taken_back_leave_no_trace(kind: str) -> None:
    for seed in range(8):
        rng, (goals, drain, limits) = random.Random(seed), tiny.asked(seed, kind)
        walk = walk_of(tiny.cluster(seed, kind), goals, drain, limits)
        state, case = walk.state, walk.case
        broken, free = state.broken(), state.fit.free.copy()
        for _ in range(3):
            for _ in range(5):
                g = rng.randrange(case.cluster.n_classes)
                a = -1 if case.pending[g] else rng.choice(np.flatnonzero(state.counts[g]).tolist() or [-1])
                if case.pending[g] or (a >= 0 and case.movable[g]):
                    walk.take(Step(g, a, rng.randrange(case.cluster.n_nodes)))
            walk.back_to(rng.randrange(len(walk.steps) + 1))
        walk.back_to(0)
        assert (state.counts == case.start).all()
        assert (state.fit.free == free).all()
        assert not state.arrived.any()
        assert state.broken() == broken
        assert not any(walk._spent.values())
        assert not any(walk._gone.values())
