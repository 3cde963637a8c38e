"""Proofs from a few classes about an end state: they never claim more than holds with all other pods there."""

from __future__ import annotations

import random
from collections import deque

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Ints
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step, read_problem
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.sequencing import confinement
from kubestow.solver.rebalance.sequencing.confinement import DeadlockStudy
from kubestow.solver.rebalance.sequencing.deadlocks import waiting_in_cycle
from kubestow.solver.rebalance.target.model import TargetModel
from kubestow.solver.rules import build
from tests.plans import kinds, tiny
from tests.solver.rebalance.sequencing.test_sequence import case_of, node, pod, target_of

#: States of a cluster that are listed by hand.
STATES = 400


def _ends(problem: RebalanceProblem) -> dict[bytes, int] | None:
    """Return all placements, int64[G, N] as bytes, that accepted steps lead to, with the fewest moves; None if there are too many."""
    state, seen = PlanState(problem), set[tuple[bytes, bytes]]()
    found: dict[bytes, int] = {}
    queue: deque[tuple[int, tuple[Step, ...]]] = deque([(0, ())])
    while queue:
        moves, steps = queue.popleft()
        for step in steps:
            state.apply(step)
        key = state.counts.tobytes(), state.arrived.tobytes()
        if key not in seen:
            seen.add(key)
            found.setdefault(key[0], moves)
            for step in _accepted(problem, state):
                if step.a >= 0 and step.b >= 0:
                    queue.append((moves + 1, (*steps, step)))
                else:
                    queue.appendleft((moves, (*steps, step)))
        for step in reversed(steps):
            state.undo(step)
        if len(seen) > STATES:
            return None
    return found


def _accepted(problem: RebalanceProblem, state: PlanState) -> list[Step]:
    found = []
    for g in np.flatnonzero(problem.movable | problem.pending).tolist():
        if problem.pending[g]:
            waits = int(state.counts[g].sum()) < problem.cluster.classes[g].count
            found += [Step(g, -1, b) for b in np.flatnonzero(state.landing(g, -1)).tolist() if waits]
            continue
        for a in np.flatnonzero(state.counts[g]).tolist():
            found += [Step(g, a, -1)] if problem.evictable[g] and state.may_go(g, a) else []
            found += [Step(g, a, b) for b in np.flatnonzero(state.landing(g, a)).tolist()]
    return found


def _problem(kind: str, seed: int) -> RebalanceProblem:
    if kind in kinds.KINDS:
        case = kinds.KINDS[kind](seed)
        return read_problem(from_objects(case.objects), PlanOptions(case.goals, case.drain, case.limits))
    goals, drain, limits = tiny.plan_options(seed, kind)
    objects = tiny.cluster(seed, kind)
    return read_problem(from_objects(tiny.resized(objects, seed) if seed % 3 == 0 else objects), PlanOptions(goals, drain, limits))


@pytest.mark.parametrize("kind", ["circle", "broken"])
def test_a_few_times_few_classes_reach_all_that_they_reach_with_the_others_there(kind: str) -> None:
    _compare(kind, 4)


@pytest.mark.full
@pytest.mark.parametrize("kind", [*kinds.KINDS, *tiny.KINDS])
def test_few_classes_reach_all_that_they_reach_with_the_others_there(kind: str) -> None:
    """And by no more moves. This is what makes the cut valid."""
    _compare(kind, 12)


def _compare(kind: str, seeds: int) -> None:
    rng, compared = random.Random(kind), 0
    for seed in range(seeds):
        problem = _problem(kind, seed)
        able = np.flatnonzero(problem.movable | problem.pending).tolist()
        ends = _ends(problem) if able and all(cls.gang is None for cls in problem.cluster.classes) else None
        for _ in range(3 if ends is not None else 0):
            chosen = tuple(sorted(rng.sample(able, rng.randint(1, min(3, len(able))))))
            found = confinement._ConfinedSearch(problem, PlanState(problem), chosen, lambda: False).run(100_000)
            assert found is not None
            known = {counts.tobytes(): moves for counts, moves in zip(found.reachable, found.moves, strict=True)}
            for end, moves in (ends or {}).items():
                counts = np.frombuffer(end, dtype=np.int64).reshape(problem.start.shape)
                others = int(np.maximum(counts - problem.start, 0)[problem.movable & ~np.isin(np.arange(len(counts)), chosen)].sum())
                assert known[counts[list(chosen)].tobytes()] + others <= moves, (kind, seed, chosen)
                compared += 1
    assert compared


def _study(problem: RebalanceProblem, target: Ints, waiting: list[Step]) -> DeadlockStudy:
    study = DeadlockStudy(problem, PlanState(problem), target, lambda: False)
    study.run(waiting)
    return study


def _moves(problem: RebalanceProblem, *moves: tuple[str, str, str]) -> list[Step]:
    classes = {cls.pod.metadata.name: g for g, cls in enumerate(problem.cluster.classes)}
    nodes = problem.cluster.nodes.names
    return [Step(classes[name], nodes.index(a), nodes.index(b)) for name, a, b in moves]


def test_a_circle_excludes_end_states_whatever_bystanders_do() -> None:
    problem = case_of([node("a"), node("b"), node("c", cpu="500m"), pod("p", "a"), pod("q", "b", cpu="900m"), pod("s", "c", cpu="100m")])
    target = target_of(problem, {"p": "b", "q": "a", "s": "b"})
    study = _study(problem, target, _moves(problem, ("p", "a", "b"), ("q", "b", "a")))
    assert study.excluded
    assert [len(each.classes) for each in study.confinements] == [2]
    assert len(study.confinements[0].reachable) == 1  # the start


def test_a_spare_node_makes_it_a_detour() -> None:
    problem = case_of([node("a"), node("b"), node("c"), pod("p", "a"), pod("q", "b", cpu="900m")])
    target = target_of(problem, {"p": "b", "q": "a"})
    study = _study(problem, target, _moves(problem, ("p", "a", "b"), ("q", "b", "a")))
    assert not study.excluded
    assert study.detours == 1
    assert study.confinements[0].detours(problem, target) == 1
    assert study.confinements[0].detours(problem, problem.start) == 0


def test_rules_that_bystanders_may_fulfil_are_not_held_against_an_end_state() -> None:
    """p needs a pod of app m near it, which none of the two is; whether one is on b then is not theirs to say."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "m"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    things = [node("a", cpu="3"), node("b", cpu="3"), pod("p", "a", affinity=near), pod("m1", "a", app="m"), pod("q", "b")]
    problem = case_of(things)
    target = target_of(problem, {"p": "b", "m1": "b"})
    alone = confinement._ConfinedSearch(
        problem, PlanState(problem), tuple(s.g for s in _moves(problem, ("p", "a", "b"))), lambda: False
    ).run(100)
    assert alone is not None
    assert alone.detours(problem, target) == 0


def test_too_many_classes_or_states_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = case_of([node("a"), node("b"), pod("p", "a"), pod("q", "b", cpu="900m")])
    target = target_of(problem, {"p": "b", "q": "a"})
    waiting = _moves(problem, ("p", "a", "b"), ("q", "b", "a"))
    assert waiting_in_cycle(waiting) == waiting
    for name in ("MAX_CLASSES", "MAX_STATES"):
        monkeypatch.setattr(confinement, name, 0)
        assert not _study(problem, target, waiting).excluded
        monkeypatch.undo()
    stopped = DeadlockStudy(problem, PlanState(problem), target, lambda: True)
    stopped.run(waiting)
    assert not stopped.excluded


def test_a_model_is_confined_to_what_is_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = case_of([node("a"), node("b"), node("c"), pod("p", "a"), pod("q", "b", cpu="900m")])
    found = confinement._ConfinedSearch(problem, PlanState(problem), (0, 1), lambda: False).run(100)
    assert found is not None
    model = TargetModel(problem, build(problem.cluster))
    assert model.confine(found.classes, found.reachable[:1], [0]) is not None
    assert model.assignment(problem.start) is not None
    assert model.assignment(target_of(problem, {"p": "c"})) is None
    monkeypatch.setattr("kubestow.solver.rebalance.target.model.MAX_TABLE_VALUES", 1)
    assert TargetModel(problem, build(problem.cluster)).confine(found.classes, found.reachable, found.moves) is None
