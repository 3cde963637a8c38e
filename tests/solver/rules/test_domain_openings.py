"""Which domains required affinity can reach, against all states that accepted steps lead to."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from ortools.sat.python import cp_model

from kubestow.models.cluster.cluster import Ints
from kubestow.models.documents.rebalance_plan import Limits
from kubestow.solver import rules
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.sequencing.sequence import order
from kubestow.solver.rebalance.target.model import TargetModel
from kubestow.solver.rules.inter_pod_affinity.domain_openings import encode, openings
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from tests.solver.rebalance.sequencing.test_sequence import ZONE, case_of, node, pod
from tests.tiers import sampled

Object = dict[str, Any]


def _near(app: str = "a") -> Object:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _case(rng: random.Random) -> RebalanceProblem:
    """Pods near their own kind in zones; some run, wherever that is, some wait."""
    nodes = [node(f"n{i}", cpu=f"{rng.randint(1, 3)}", zone=f"z{i % 3}") for i in range(rng.randint(3, 5))]
    pods = []
    for i in range(rng.randint(1, 4)):
        at = f"n{rng.randrange(len(nodes))}" if rng.random() < 0.5 else None
        pods.append(pod(f"p{i}", at, app="a", affinity=_near(), priority=0 if at else 5))
    return case_of([*nodes, *pods], goals=("admit",), limits=Limits(allowEviction=rng.random() < 0.3))


def _reached(problem: RebalanceProblem, most: int = 300) -> list[Ints]:
    """End states of accepted steps, pods without a gang."""
    state = PlanState(problem)
    found: list[Ints] = [state.counts.copy()]
    seen = {state.counts.tobytes() + state.arrived.tobytes()}
    movable = np.flatnonzero(problem.movable | problem.pending).tolist()

    def go(depth: int) -> None:
        if depth == 0 or len(seen) > most:
            return
        for g in movable:
            if problem.pending[g]:
                sources = [-1] if state.counts[g].sum() < problem.cluster.classes[g].count else []
            else:
                sources = np.flatnonzero(state.counts[g]).tolist()
            for a in sources:
                targets = np.flatnonzero(state.landing(g, a)).tolist()
                if a >= 0 and problem.evictable[g] and state.may_go(g, a):
                    targets.append(-1)
                for b in targets:
                    state.apply(Step(g, a, b))
                    key = state.counts.tobytes() + state.arrived.tobytes()
                    if key not in seen:
                        seen.add(key)
                        found.append(state.counts.copy())
                        go(depth - 1)
                    state.undo(Step(g, a, b))

    go(6)
    return found


def _rule(problem: RebalanceProblem) -> InterPodAffinity:
    return next(rule for rule in rules.build(problem.cluster) if isinstance(rule, InterPodAffinity))


def _allowed(problem: RebalanceProblem, counts: Ints) -> bool:
    return all(opening.allows(counts) for opening in openings(problem, _rule(problem), np.zeros_like(problem.start)))


def _feasible(problem: RebalanceProblem, counts: Ints) -> bool:
    """Return True if the model has an end state with respect to capacity and openings."""
    model = TargetModel(problem, rules.build(problem.cluster))
    encode(model, _rule(problem))
    for (g, n), variable in model.x.items():
        model.model.add(variable == int(counts[g, n]))
    return cp_model.CpSolver().solve(model.model) == cp_model.OPTIMAL


@pytest.mark.parametrize("seed", sampled(range(60), every=12, full=4))
def test_every_state_that_steps_lead_to_is_allowed(seed: int) -> None:
    problem = _case(random.Random(seed))
    found = openings(problem, _rule(problem), np.zeros_like(problem.start))
    assert len(found) == 1
    states = _reached(problem)
    for i, counts in enumerate(states):
        assert all(opening.allows(counts) for opening in found)
        if i % 29 == 0:
            assert _feasible(problem, counts)


def test_two_zones_are_not_opened() -> None:
    """Two pods in each of two zones are near each other, but nobody could be the first of the second zone."""
    nodes = [node(f"n{i}", zone=f"z{i % 2}") for i in range(4)]
    problem = case_of([*nodes, *(pod(f"p{i}", None, app="a", affinity=_near()) for i in range(4))], goals=("admit",))
    target = np.ones_like(problem.start)
    found = order(problem, target, RunContext.start(Options()), seconds=20)
    assert found.steps is None
    assert found.exhausted
    assert not _allowed(problem, target)
    assert not _feasible(problem, target)
    one = target * np.array([1, 0, 1, 0])
    assert order(problem, one, RunContext.start(Options()), seconds=20).steps is not None
    assert _allowed(problem, one)
    assert _feasible(problem, one)


@pytest.mark.parametrize(("running", "free"), [(1, True), (2, False)])
def test_who_is_alone_may_open_another_zone(running: int, *, free: bool) -> None:
    nodes = [node(f"n{i}", cpu="2", zone=f"z{i}") for i in range(2)]
    problem = case_of([*nodes, *(pod(f"p{i}", "n0", app="a", affinity=_near()) for i in range(running))])
    target = np.ascontiguousarray(problem.start[:, ::-1])
    assert (order(problem, target, RunContext.start(Options()), seconds=20).steps is not None) == free
    assert _allowed(problem, target) == free
    assert _feasible(problem, target) == free


def test_who_opens_another_zone_leaves_nobody_behind() -> None:
    nodes = [node(f"n{i}", cpu="4", zone=f"z{i}") for i in range(2)]
    waiting = [pod(f"q{i}", None, app="a", affinity=_near()) for i in range(3)]
    problem = case_of([*nodes, pod("p", "n0", app="a", affinity=_near()), *waiting], goals=("admit",))
    new = problem.pending[:, None]
    apart = np.where(new, [[1, 2]], problem.start)
    together = np.where(new, [[0, 3]], problem.start[:, ::-1])
    for target, fine in ((apart, False), (together, True)):
        assert _allowed(problem, target) == fine
        assert _feasible(problem, target) == fine
        assert (order(problem, target, RunContext.start(Options()), seconds=20).steps is not None) == fine


def test_who_is_matched_by_others_is_not_judged() -> None:
    nodes = [node("n0", zone="z0"), node("n1", zone="z1")]
    problem = case_of([*nodes, pod("p", "n0", app="b", affinity=_near("a")), pod("q", "n0", app="a")])
    assert openings(problem, _rule(problem), np.zeros_like(problem.start)) == []
