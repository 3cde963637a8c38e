"""Moves for preferences and balance: gains are exact, and each move gains at least the required amount."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Ints
from kubestow.models.documents.rebalance_plan import Limits
from kubestow.solver.rebalance.goals.improve import Gains, improve
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder
from kubestow.solver.rebalance.problem.end_state import EndState
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.tiers.improvement import BALANCE_PER_POINT, ImprovementTier
from kubestow.solver.rebalance.tiers.measures import Measures
from tests import tiny_soft
from tests.objects import node
from tests.solver.rebalance.goals.test_move_builder import accepted, builder_of
from tests.solver.rebalance.problem.test_problem import case_of, running, step_names
from tests.tiers import sampled

Object = dict[str, Any]
SOFT = ("nodes", "pods", "spread", "mixed")


def preferring(seed: int, kind: str) -> list[Object]:
    """A tiny random cluster with preferences, all pods of which run somewhere and may move."""
    rng, objects = random.Random(seed), tiny_soft.snapshot(seed, kind)
    names = [thing["metadata"]["name"] for thing in objects if thing["kind"] == "Node"]
    for thing in objects:
        if thing["kind"] == "Pod":
            metadata, spec = thing["metadata"], thing["spec"]
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
            thing["metadata"] = {"name": metadata["name"], "namespace": metadata["namespace"], "labels": metadata.get("labels", {})}
            thing["metadata"]["ownerReferences"] = [owner]
            thing["spec"] = {**spec, "nodeName": spec.get("nodeName") or rng.choice(names)}
            thing["status"] = {"phase": "Running"}
    return objects


def _improved(objects: list[Object], min_gain: int = 1, **limits: Any) -> MoveBuilder:
    builder = builder_of(objects, ["improve"], limits=Limits(minGain=min_gain, **limits))
    improve(builder)
    assert accepted(builder.problem, builder.steps)
    return builder


def total_value(measures: Measures, counts: Ints) -> int:
    """Return the value of preferences and balance, moves not counted."""
    return ImprovementTier().value(measures, EndState(measures.problem, counts, moves=0, cost=0))


def _wants_ssd(weight: int) -> Object:
    preference = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": preference}]}}


def test_a_preference_is_followed_where_it_is_worth_the_move() -> None:
    objects = [node("n0"), node("n1", labels={"disk": "ssd"}), running("p", "n0", cpu="1m", memory="1Ki", affinity=_wants_ssd(5))]
    points = Measures(case_of(objects, ["improve"])).preferences.node_points(0)
    assert points.tolist() == [0, 5]
    for least, moved in ((0, True), (5, True), (6, False)):
        builder = _improved(objects, least)
        assert step_names(builder.problem, builder.steps) == ([("p", "n0", "n1")] if moved else [])


def test_load_is_evened_out() -> None:
    builder = _improved([node("n0"), node("n1"), *(running(f"p{i}", "n0", cpu="1") for i in range(4))], 0)
    assert builder.state.counts.tolist() == [[2, 2]]
    assert len(builder.steps) == 2


def test_limits_hold() -> None:
    objects = [node("n0"), node("n1"), *(running(f"p{i}", "n0", cpu="500m") for i in range(8))]
    assert len(_improved(objects, 0).steps) == 4
    assert len(_improved(objects, 0, maxMoves=3).steps) == 3


def test_the_move_that_gains_most_goes_first() -> None:
    objects = [node("n0"), node("n1", labels={"disk": "ssd"})]
    objects += [running(f"p{weight}", "n0", cpu="1m", memory="1Ki", affinity=_wants_ssd(weight)) for weight in (2, 90)]
    builder = _improved(objects, maxMoves=1)
    assert step_names(builder.problem, builder.steps) == [("p90", "n0", "n1")]


def test_hard_rules_come_before_preferences() -> None:
    objects = [node("n0"), node("n1", cpu="1", labels={"disk": "ssd"}), running("p", "n0", cpu="2", affinity=_wants_ssd(100))]
    assert _improved(objects).steps == []


@pytest.mark.full
@pytest.mark.parametrize("kind", SOFT)
def test_gains_are_differences_of_values(kind: str) -> None:
    """Of every move of every pod, after some others."""
    compared = 0
    for seed in range(8):
        problem = case_of(preferring(seed, kind), ["improve"])
        rng, state, measures = random.Random(seed), PlanState(problem), Measures(problem)
        gains = Gains(problem, state.counts)
        for _ in range(3):
            for g, n in np.argwhere(state.counts).tolist():
                found = gains.moving(g, n)
                now = total_value(measures, state.counts)
                for b in range(problem.cluster.n_nodes):
                    counts = state.counts.copy()
                    counts[g, n] -= 1
                    counts[g, b] += 1
                    assert found[b] - found[n] == total_value(measures, counts) - now, (seed, g, n, b)
                    compared += bool(found[b] != found[n])
            g, n = rng.choice(np.argwhere(state.counts).tolist())
            b = rng.randrange(problem.cluster.n_nodes)
            state.apply(Step(g, n, b))
            gains.put(g, n, -1)
            gains.put(g, b, 1)
    assert compared > 100


@pytest.mark.full
@pytest.mark.parametrize("least", [0, 1, 20])
def test_every_step_is_worth_a_move_when_it_is_made(least: int) -> None:
    made = 0
    for kind in SOFT:
        for seed in range(20):
            builder = _improved(preferring(seed, kind), least)
            state = PlanState(builder.problem)
            for step in builder.steps:
                before = total_value(Measures(builder.problem), state.counts)
                state.apply(step)
                assert total_value(Measures(builder.problem), state.counts) - before >= max(1, BALANCE_PER_POINT * least), (kind, seed)
            made += len(builder.steps)
    assert made > (20 if least > 1 else 60)


@pytest.mark.parametrize("kind", sampled(SOFT, every=4))
def test_no_single_move_is_left_that_would_be_worth_it(kind: str) -> None:
    for seed in range(20):
        builder = _improved(preferring(seed, kind), 1)
        problem, state = builder.problem, builder.state
        now = total_value(Measures(problem), state.counts)
        for g, n in np.argwhere(state.counts * problem.movable[:, None]).tolist():
            for b in np.flatnonzero(state.landing(g, n)).tolist():
                state.apply(Step(g, n, b))
                assert total_value(Measures(problem), state.counts) - now < BALANCE_PER_POINT, (seed, g, n, b)
                state.undo(Step(g, n, b))
