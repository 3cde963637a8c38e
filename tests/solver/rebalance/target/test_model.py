"""The model of a plan's end state has every state that accepted steps lead to, with its value: along random walks."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ortools.sat.python import cp_model

from kubestow.models.cluster.cluster import Ints
from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.rebalance.problem.end_state import state_of
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step, read_problem
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.target.model import TargetModel
from kubestow.solver.rebalance.target.rules import TargetRules
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from tests import tiny_soft
from tests.plans import tiny
from tests.tiers import sampled, seeds

GOALS = ("repair", "admit", "consolidate", "improve")


class Relaxation:
    """A case with its model."""

    def __init__(self, problem: RebalanceProblem, goals: tuple[str, ...] = GOALS) -> None:
        self.problem, self.values = problem, PlanObjective(problem, goals)
        active = rules.build(problem.cluster)
        self.model = TargetModel(problem, active)
        self.points = self.values.encode(TargetRules(self.model, active))

    def at(self, counts: Ints) -> tuple[int, ...] | None:
        """Return the model's best value of each tier in a state; None if it has no such state."""
        if any(counts[g, n] and (g, n) not in self.model.x for g, n in np.argwhere(counts).tolist()):
            return None
        everything = Points()
        for points in self.points:
            everything.extend(points)
        self.model.model.maximize(everything.expression())
        solution = self.model.assignment(counts, objective=True)
        return None if solution is None else tuple(points.value(solution) for points in self.points)


def whole(problem: RebalanceProblem, counts: Ints) -> bool:
    """Return True if pending gangs are bound whole or not at all, in one domain if required. Walks bind their pods one by one."""
    for gang in problem.cluster.gangs:
        bound = counts[list(gang.classes)].sum(axis=0)
        if 0 < bound.sum() < gang.needed or (gang.key and len(set(problem.cluster.domains(gang.key)[0][bound > 0].tolist())) > 1):
            return False
    return True


def allowed(state: PlanState, g: int) -> bool:
    """Return True if the budget of a class allows one more eviction for good."""
    b = state.problem.budget[g]
    same = np.array([other == b for other in state.problem.budget]) & state.problem.movable
    return b is None or int((state.problem.start - state.counts)[same].sum()) < state.problem.budgets[b].allowed


def step(state: PlanState, rng: random.Random) -> Step | None:
    """Some step that the state accepts."""
    problem, found = state.problem, []
    for g in np.flatnonzero(problem.movable | problem.pending).tolist():
        if problem.pending[g]:
            sources = [-1] if state.counts[g].sum() < problem.cluster.count[g] else []
        else:
            sources = np.flatnonzero(state.counts[g]).tolist()
        for a in sources:
            found += [Step(g, a, n) for n in np.flatnonzero(state.landing(g, a)).tolist()]
            if a >= 0 and problem.evictable[g] and allowed(state, g) and state.may_go(g, a):
                found.append(Step(g, a, -1))
    return rng.choice(found) if found else None


def builder(problem: RebalanceProblem, rng: random.Random, length: int, mends: set[str]) -> int:
    """Follow accepted steps; every state is one of the model, with the same values. ``mends``: rules of which the model knows little."""
    relaxation, state, seen = Relaxation(problem), PlanState(problem), 0
    names = [tier.name for tier in relaxation.values.tiers]
    for _ in range(length + 1):
        if whole(problem, state.counts):
            found = relaxation.at(state.counts)
            assert found is not None, (state.counts - problem.start).tolist()
            true = relaxation.values.of(state.counts)
            if mends & (state.broken().keys() | state_of(problem, state.counts).broken().keys()):
                at = names.index("rules")
                assert found[at] >= max(true[at], -sum(state.broken().values()))
                found = (*found[:at], true[at], *found[at + 1 :])
            assert found == true, dict(zip(names, zip(found, true, strict=True), strict=True))
            seen += 1
        chosen = step(state, rng)
        if chosen is None:
            break
        state.apply(chosen)
    return seen


def rebalanced(seed: int, kind: str, *, resized: bool = False) -> RebalanceProblem:
    objects = tiny.resized(tiny.cluster(seed, kind), seed) if resized else tiny.cluster(seed, kind)
    _, drain, limits = tiny.plan_options(seed, kind)
    return read_problem(
        from_objects(objects), PlanOptions(GOALS, drain, Limits(allowEviction=limits.allowEviction, alsoMove=limits.alsoMove))
    )


def scrambled(seed: int, kind: str) -> RebalanceProblem:
    """A random cluster whose pending pods were bound anywhere, so that rules of all sorts are broken."""
    rng = random.Random(f"scrambled-{kind}-{seed}")
    objects = tiny_soft.snapshot(seed, kind, nodes=3, pods=5)
    names = [o["metadata"]["name"] for o in objects if o["kind"] == "Node"]
    for thing in objects:
        if thing["kind"] == "Pod" and (rng.random() < 0.85 or thing["spec"].get("nodeName")):
            thing["spec"] = {**thing["spec"], "nodeName": thing["spec"].get("nodeName") or rng.choice(names)}
            thing["status"] = {"phase": "Running"}
            if rng.random() < 0.8:
                owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
                thing["metadata"] = {**thing["metadata"], "ownerReferences": [owner]}
    drain = (names[0],) if rng.random() < 0.3 else ()
    return read_problem(from_objects(objects), PlanOptions(GOALS, drain, Limits(allowEviction=rng.random() < 0.3)))


@pytest.mark.parametrize("kind", sampled(tiny.KINDS, every=6))
@seeds(10, 25)
def test_every_state_on_the_way_is_one_of_the_model(seeds: range, kind: str) -> None:
    rng = random.Random(kind)
    assert sum(builder(rebalanced(seed, kind), rng, 6, set()) for seed in seeds) > 2 * len(seeds)


@pytest.mark.parametrize("kind", sampled(tiny.KINDS, every=6))
@seeds(10, 25)
def test_every_state_beside_resizes_that_wait_is_one_of_the_model(seeds: range, kind: str) -> None:
    """Counts alone do not tell who holds more than it asks for and who came back: there the model takes the better of both."""
    rng = random.Random(f"resized-{kind}")
    assert sum(builder(rebalanced(seed, kind, resized=True), rng, 6, {"NodeResourcesFit"}) for seed in seeds) > 2 * len(seeds)


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.KINDS)
@seeds(8, 20, start=100)
def test_a_part_has_the_state_that_it_is_a_part_of_and_gains_what_the_whole_gains(seeds: range, kind: str) -> None:
    rng, compared = random.Random(f"part-{kind}"), 0
    for seed in seeds:
        problem = rebalanced(seed, kind)
        whole_model, state = Relaxation(problem, GOALS[:3]), PlanState(problem)
        for _ in range(3):
            chosen = step(state, rng)
            if chosen is not None:
                state.apply(chosen)
        base = state.counts
        room = whole_model.model.room
        nodes = np.array(sorted(rng.sample(range(problem.cluster.n_nodes), 2)))
        part = Cells({}, {})
        for g in np.flatnonzero(problem.movable & base[:, nodes].any(axis=1)).tolist():
            part.cells[g] = nodes.astype(np.int32), np.maximum(room[g, nodes], np.maximum(base[g, nodes], problem.start[g, nodes]))
            part.pods[g] = int(base[g, nodes].sum())
        if not part.cells or not whole(problem, base):
            continue
        active = rules.build(problem.cluster)
        model = TargetModel(problem, active, part, base)
        points = whole_model.values.encode(TargetRules(model, active))
        everything = Points()
        for each in points:
            everything.extend(each)
        model.model.maximize(everything.expression())
        start = model.assignment(base, objective=True)
        assert start is not None, (seed, base.tolist())
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        assert solver.solve(model.model) == cp_model.OPTIMAL
        solution = list(solver.response_proto.solution)
        found = base.copy()
        for cell, variable in model.x.items():
            found[cell] = solution[variable.index]
        before, after = whole_model.at(base), whole_model.at(found)
        assert before is not None
        assert after is not None, (seed, base.tolist(), found.tolist())
        gains = [each.value(solution) - each.value(start) for each in points]
        assert gains == [b - a for a, b in zip(before, after, strict=True)], (seed, base.tolist(), found.tolist())
        compared += 1
    assert compared > len(seeds) // 4


#: Volumes and their zones are left to the order of steps: in the model what of them depends on other pods is taken for mended.
VOLUMES = {"VolumeBinding", "VolumeRestrictions", "NodeVolumeLimits"}


@pytest.mark.full
@pytest.mark.parametrize("kind", ["nodes", "pods", "spread", "mixed"])
@seeds(10, 25)
def test_every_state_of_a_scrambled_cluster_is_one_of_the_model(seeds: range, kind: str) -> None:
    rng = random.Random(kind)
    assert sum(builder(scrambled(seed, kind), rng, 6, VOLUMES) for seed in seeds) > len(seeds)
