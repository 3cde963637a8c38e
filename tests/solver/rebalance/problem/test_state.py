"""Accepted steps and broken rules of a state, compared with a scan of plain objects along random walks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step, read_problem
from kubestow.solver.rebalance.problem.state import PlanState
from tests.objects import node, pod
from tests.plans import tiny
from tests.plans.accepting import Position
from tests.plans.brute import Brute
from tests.plans.cluster import ABSENT
from tests.solver.rebalance.problem.test_problem import case_of, class_of, even, running
from tests.tiers import sampled, seeds

Object = dict[str, Any]
ZONE = "zone"


class _Both:
    """A cluster as the planner and as the brute force have it."""

    def __init__(self, objects: list[Object], goals: tuple[str, ...], drain: tuple[str, ...], limits: Limits) -> None:
        snapshot = from_objects(objects)
        self.problem: RebalanceProblem = read_problem(snapshot, PlanOptions(goals, drain, limits))
        self.state = PlanState(self.problem)
        self.brute = Brute(objects, goals, drain, allow_eviction=limits.allowEviction, limits=limits)
        index = self.brute.cluster.index
        assert list(self.problem.cluster.nodes.names) == self.brute.cluster.names
        self.class_of = {index[pod_key(snapshot.pods[i])]: g for g, cls in enumerate(self.problem.cluster.classes) for i in cls.pods}
        self.guards = [{index[pod_key(snapshot.pods[i])] for i in guard.pods} for guard in self.problem.budgets]
        self.position = self.brute.first
        self.history: list[tuple[Step, Position]] = []

    @classmethod
    def random(cls, seed: int, kind: str, *, resized: bool = False) -> _Both:
        """A random cluster; pods that wait are always there."""
        goals, drain, limits = tiny.plan_options(seed, kind)
        objects = tiny.resized(tiny.cluster(seed, kind), seed) if resized else tiny.cluster(seed, kind)
        return cls(objects, goals if "admit" in goals else (*goals, "admit"), drain, limits)

    def leaving(self) -> Iterator[tuple[int, int, int]]:
        """Class, node and the pod of that class that goes first: one that never moved, if there is any."""
        at, done = self.position
        seen = set()
        for i in sorted(self.brute.movable | self.brute.pending, key=lambda i: (i in done, i)):
            g = self.class_of[i]
            if (at[i] != ABSENT and i in self.brute.pending) or (at[i] == ABSENT and i not in self.brute.pending):
                continue  # bound by the plan, or gone for good
            if (g, at[i]) not in seen:
                seen.add((g, at[i]))
                yield g, at[i], i

    def compare(self) -> list[tuple[Step, int, Position]]:
        """Every possible step; returns those that are accepted."""
        found = []
        for g, a, i in self.leaving():
            ways = [self.brute.accepted(self.position, i, n) for n in range(len(self.brute.cluster.names))]
            landing = self.state.landing(g, a).tolist()
            assert landing == [way is not None for way in ways], f"landing of {self.brute.cluster.pods[i].key}, {self.position}"
            found += [(Step(g, a, n), i, way) for n, way in enumerate(ways) if way is not None]
            if a != ABSENT:
                gone = self.brute.accepted(self.position, i, ABSENT)
                assert self.state.may_go(g, a) is (gone is not None), f"eviction of {self.brute.cluster.pods[i].key}, {self.position}"
                if gone is not None:
                    found.append((Step(g, a, ABSENT), i, gone))
        broken = dict(sorted(self.brute.broken(self.position).items()))
        assert self.state.broken() == broken, self.position
        return found


def builder(seed: int, kind: str, length: int = 7, *, resized: bool = False) -> int:
    """Compares every state of a random walk; returns how many steps it took. Some steps are taken back."""
    both, rng, step_count = _Both.random(seed, kind, resized=resized), random.Random(f"walk-{kind}-{seed}"), 0
    for _ in range(length):
        choices = both.compare()
        if both.history and rng.random() < 0.15:
            step, both.position = both.history.pop()
            both.state.undo(step)
        elif choices:
            moves = [choice for choice in choices if choice[0].b != ABSENT]
            step, _, position = rng.choice(moves if moves and rng.random() < 0.85 else choices)
            both.history.append((step, both.position))
            both.state.apply(step)
            both.position = position
            step_count += 1
    both.compare()
    return step_count


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.KINDS)
@seeds(15, 40)
def test_steps_that_are_accepted_are_those_of_the_brute_force(seeds: range, kind: str) -> None:
    assert sum(builder(seed, kind) for seed in seeds) > len(seeds)


@pytest.mark.parametrize("kind", sampled(tiny.KINDS, every=6))
@seeds(15, 40)
def test_steps_beside_resizes_that_wait_are_those_of_the_brute_force(seeds: range, kind: str) -> None:
    assert sum(builder(seed, kind, resized=True) for seed in seeds) > len(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_steps_that_are_accepted_are_those_of_the_brute_force_on_many_clusters(kind: str) -> None:
    assert sum(builder(seed, kind, 12) for seed in range(1000, 3000)) > 4000


@pytest.mark.parametrize("kind", sampled(tiny.KINDS, every=6))
@seeds(50, 150)
def test_what_may_move_and_what_budgets_allow(seeds: range, kind: str) -> None:
    """Read from raw objects once more: exclusions, evictable pods, closed nodes, subjects and budgets."""
    for seed in seeds:
        both = _Both.random(seed, kind)
        problem, brute = both.problem, both.brute
        of = both.class_of
        for i in brute.before:
            g = of.get(i)
            assert (g is not None and bool(problem.movable[g])) is (i in brute.movable), (seed, brute.cluster.pods[i].key)
            assert (g is not None and bool(problem.subjects[g])) is (i in brute.subjects), (seed, brute.cluster.pods[i].key)
            assert (g is not None and bool(problem.evictable[g])) is (i in brute.evictable), (seed, brute.cluster.pods[i].key)
        assert {i for i, g in of.items() if problem.pending[g]} == brute.pending
        for i in brute.movable:
            guard, b = brute._guard.get(i), problem.budget[of[i]]
            allowed = None if b is None else problem.budgets[b].allowed
            assert allowed == (None if guard is None else guard.allowed), (seed, brute.cluster.pods[i].key)
        assert {brute.cluster.names[n] for n in problem.drain} == {brute.cluster.names[n] for n in brute.closed}


# --- found by the walks -----------------------------------------------------------------------------------------------------------------


def _running(name: str, where: str, **rest: Any) -> Object:
    return pod(name, node_name=where, owner=f"ReplicaSet/{name}", labels={"app": "a"}, **rest)


def _even() -> list[Object]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
    ]


def test_a_pod_on_a_node_that_does_not_count_for_its_constraint_is_not_taken_out_of_the_minimum() -> None:
    """Its own node selector no longer takes its node."""
    nodes = [node("n1", labels={ZONE: "z", "disk": "hdd"}), node("n2", labels={ZONE: "z", "disk": "ssd"})]
    pods = [_running(name, where, selector={"disk": "ssd"}, spread=_even()) for name, where in (("p", "n1"), ("q", "n2"))]
    both = _Both([*nodes, *pods], ("repair",), (), Limits())
    both.compare()
    assert both.state.broken() == {"NodeAffinity": 1}


def test_a_pod_on_a_node_that_does_not_count_for_its_constraint_is_kept_from_breaking_it() -> None:
    """Of two pods in its zone it sees the other one and itself, though the zone's count is one."""
    nodes = [node(f"n{i}", labels={ZONE: zone, "disk": disk}) for i, (zone, disk) in enumerate((("z", "hdd"), ("z", "ssd"), ("y", "ssd")))]
    pods = [_running("p", "n0", selector={"disk": "ssd"}, spread=_even()), _running("q", "n2")]
    both = _Both([*nodes, *pods], ("repair",), (), Limits())
    both.compare()
    assert both.state.landing(both.class_of[1], 2).tolist() == [True, False, False]


def test_who_alone_has_the_topology_key_stands_by_itself() -> None:
    """Affinity to one's own kind is fine where no other of them is in any domain: only the pod on the node without the key has to go."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}}
    wanted = {"podAffinity": {"requiredDuringSchedulingRequiredDuringExecution": [term]}}
    objects = [node("n1"), node("n2", labels={ZONE: "z"}), *(_running(p, n, affinity=wanted) for p, n in (("p", "n1"), ("q", "n2")))]
    both = _Both(objects, ("repair",), (), Limits(allowEviction=True))
    both.compare()
    assert [bool(both.problem.evictable[both.class_of[i]]) for i in (0, 1)] == [True, False]


def test_a_domain_is_kept_to_where_it_takes_a_pod() -> None:
    zones = [node(f"n{i}", labels={ZONE: f"z{i % 2}"}) for i in range(1, 5)]
    pods = [running("p", "n1", labels={"app": "a"}, spread=even("a", ZONE)), running("q", "n1", cpu="1")]
    problem = case_of([*zones, *pods])
    state, every = PlanState(problem), np.array([False, True, True, True])
    assert state.prefer_own_domain(class_of(problem, "p"), 0, every).tolist() == [False, False, True, False]
    assert state.prefer_own_domain(class_of(problem, "q"), 0, every).tolist() == every.tolist()
    assert state.prefer_own_domain(class_of(problem, "p"), 0, every & [True, True, False, True]).tolist() == [False, True, False, True]
