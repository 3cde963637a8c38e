"""Nodes emptied pod by pod: drains, room made by others, and consolidation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.solver.rebalance.goals.drain_and_consolidate import consolidate, drain, make_room, move_off
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder
from tests.objects import node, pod
from tests.plans import tiny
from tests.solver.rebalance.goals.test_move_builder import accepted, builder_of
from tests.solver.rebalance.problem.test_problem import apart, class_of, running, step_names

Object = dict[str, Any]


def _steps(builder: MoveBuilder) -> list[tuple[str, str | None, str | None]]:
    return step_names(builder.problem, builder.steps)


# --- drain ------------------------------------------------------------------------------------------------------------------------------


def test_pods_go_to_the_fullest_node_that_takes_them() -> None:
    objects = [node(f"n{i}", cpu="4") for i in range(1, 4)]
    builder = builder_of([*objects, running("p", "n1"), running("q", "n1", cpu="3"), running("r", "n3", cpu="2")], drain=["n1"])
    drain(builder)
    assert _steps(builder) == [("q", "n1", "n2"), ("p", "n1", "n2")]  # the larger one first, for which n3 is too full


def test_drained_nodes_take_nothing_from_each_other() -> None:
    builder = builder_of([node("n1"), node("n2"), node("n3"), running("p", "n1"), running("q", "n2", cpu="1")], drain=["n1", "n2"])
    drain(builder)
    assert {to for _, _, to in _steps(builder)} == {"n3"}


def _left_short() -> list[Object]:
    """Only n2 could hold p, once b has gone to n3; a may stay."""
    nodes = [node("n1", cpu="2"), node("n2", cpu="2"), node("n3", cpu="1")]
    return [*nodes, running("p", "n1", cpu="1500m"), running("a", "n2", cpu="400m"), running("b", "n2", cpu="600m")]


def test_others_make_room_and_those_that_need_not_move_stay() -> None:
    builder = builder_of(_left_short(), drain=["n1"])
    drain(builder)
    assert _steps(builder) == [("b", "n2", "n3"), ("p", "n1", "n2")]


def test_no_room_is_made_beyond_the_limit_of_moves() -> None:
    builder = builder_of(_left_short(), drain=["n1"], limits=Limits(maxMoves=1))
    drain(builder)
    assert _steps(builder) == []
    assert (builder.state.counts == builder.problem.start).all()


@pytest.mark.parametrize("allowed", [True, False])
def test_who_finds_no_place_is_evicted_if_it_may_be(allowed: bool) -> None:
    objects = [node("n1"), node("n2", cpu="1"), *(running(f"p{i}", "n1", cpu="600m") for i in range(3))]
    builder = builder_of(objects, drain=["n1"], limits=Limits(allowEviction=allowed, maxEvictions=1))
    drain(builder)
    assert _steps(builder) == [("p0", "n1", "n2"), *([("p0", "n1", None)] if allowed else [])]


def test_who_finds_no_place_is_asked_again_when_the_others_have_gone() -> None:
    """The larger pod can go to the other node of the zone only after the one it keeps away from has left the zone."""
    nodes = [node("n1", labels={"zone": "z"}), node("n2", labels={"zone": "z"}), node("n3", cpu="1", labels={"zone": "y"})]
    pods = [running("p", "n1", cpu="2", affinity=apart("b", "zone")), running("q", "n1", labels={"app": "b"})]
    builder = builder_of([*nodes, *pods], drain=["n1"])
    drain(builder)
    assert _steps(builder) == [("q", "n1", "n3"), ("p", "n1", "n2")]


@pytest.mark.parametrize(("kind", "least"), [("drain", 8), ("tight", 3)])
def test_a_drain_is_a_sequence_of_accepted_steps_off_drained_nodes_or_to_make_room(kind: str, least: int) -> None:
    emptied = 0
    for seed in range(40):
        _, nodes, limits = tiny.plan_options(seed, kind)
        if not nodes:
            continue
        builder = builder_of(tiny.cluster(seed, kind), [], nodes, limits)
        drain(builder)
        problem, remaining = builder.problem, builder.state.counts[builder.problem.movable][:, builder.problem.closed]
        assert accepted(problem, builder.steps), seed
        assert (remaining <= problem.start[problem.movable][:, problem.closed]).all()
        assert all(problem.closed[step.a] for step in builder.steps if step.b < 0)
        emptied += bool(builder.steps) and not remaining.any()
    assert emptied >= least


# --- room -------------------------------------------------------------------------------------------------------------------------------


def test_room_is_made_for_a_pod_that_waits_or_nothing_happens() -> None:
    builder = builder_of([*_left_short(), pod("new", cpu="1700m")], ["admit"])
    new = class_of(builder.problem, "new")
    assert make_room(builder, new, -1)
    assert _steps(builder)[-1] == ("new", None, "n2")
    builder = builder_of([*_left_short(), pod("new", cpu="2100m")], ["admit"])
    assert not make_room(builder, class_of(builder.problem, "new"), -1)
    assert builder.steps == []


def test_a_pod_moves_to_allowed_nodes_only() -> None:
    builder = builder_of([node("n1"), node("n2"), node("n3"), running("p", "n1")])
    assert not move_off(builder, 0, 0, np.array([True, False, False]))
    assert move_off(builder, 0, 0, np.array([True, False, True]))
    assert _steps(builder) == [("p", "n1", "n3")]


# --- consolidate ------------------------------------------------------------------------------------------------------------------------


def _consolidated(objects: list[Object], prices: list[int] | None = None, limits: Limits | None = None) -> tuple[MoveBuilder, list[int]]:
    builder = builder_of(objects, ["consolidate"], limits=limits)
    consolidate(builder, np.array(prices or [1] * builder.problem.cluster.n_nodes))
    here = (builder.problem.movable | builder.problem.pending) @ builder.state.counts
    return builder, np.flatnonzero(builder.problem.freeable & (here == 0)).tolist()


def test_nodes_with_the_fewest_pods_are_freed_and_empty_ones_stay_so() -> None:
    objects = [node(f"n{i}") for i in range(4)]
    objects += [running("a", "n0"), running("b", "n0"), running("c", "n1"), running("d", "n2"), running("e", "n2")]
    builder, freed = _consolidated(objects)
    assert freed in ([0, 1, 3], [1, 2, 3])
    assert len(builder.steps) == builder.problem.moves(builder.state.counts) == 3


def test_the_dear_node_is_freed_of_two() -> None:
    objects = [node("n0", cpu="2"), node("n1", cpu="2"), running("a", "n0"), running("b", "n1")]
    assert [_consolidated(objects, prices)[1] for prices in ([1, 5], [5, 1])] == [[1], [0]]


def test_who_goes_to_a_node_that_is_freed_later_goes_to_another_at_once() -> None:
    """Nodes of one, two and three pods: the fullest of all has room for all six."""
    sizes = {"n0": 1, "n1": 2, "n2": 3, "n3": 4}
    objects: list[Object] = [node(name, cpu="10" if name == "n3" else "600m") for name in sizes]
    objects += [running(f"{name}-{i}", name) for name, size in sizes.items() for i in range(size)]
    builder, freed = _consolidated(objects)
    assert freed == [0, 1, 2]
    assert len(builder.steps) == 6


def test_a_node_is_freed_whole_or_not_at_all() -> None:
    objects = [node("n0"), node("n1", cpu="1"), running("a", "n0", cpu="2"), running("b", "n0"), running("c", "n1", cpu="900m")]
    builder, freed = _consolidated(objects)
    assert (freed, _steps(builder)) == ([1], [("c", "n1", "n0")])
    builder, freed = _consolidated([*objects, pod("bare", node_name="n1")])
    assert (freed, builder.steps) == ([], [])


def test_no_more_moves_than_allowed_and_none_in_vain() -> None:
    objects = [node("n0"), node("n1"), node("n2")]
    objects += [running(f"p{i}", f"n{i // 2}") for i in range(6)]
    for max_moves, freed in ((1, 0), (2, 1), (3, 1), (4, 2)):
        builder, nodes = _consolidated(objects, limits=Limits(maxMoves=max_moves))
        assert (len(nodes), len(builder.steps)) == (freed, 2 * freed)


def test_no_pod_moves_twice_and_each_step_is_accepted() -> None:
    freed = 0
    for kind in ("consolidate", "drain", "mixed"):
        for seed in range(40):
            builder = builder_of(tiny.cluster(seed, kind), ["consolidate"])
            start = builder.problem.freeable & ((builder.problem.movable @ builder.problem.start) == 0)
            consolidate(builder, np.ones(builder.problem.cluster.n_nodes, dtype=np.int64))
            end = builder.problem.freeable & ((builder.problem.movable @ builder.state.counts) == 0)
            assert accepted(builder.problem, builder.steps), (kind, seed)
            assert len(builder.steps) == builder.problem.moves(builder.state.counts), (kind, seed)
            assert (end >= start).all()  # empty nodes stay empty
            assert bool(builder.steps) == bool(end.sum() > start.sum())
            freed += int(end.sum() - start.sum())
    assert freed > 40
