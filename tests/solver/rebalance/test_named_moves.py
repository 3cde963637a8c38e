"""Class-level steps in waves as moves of named pods: who goes, by what number, and what for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubestow.models.documents.rebalance_plan import Eviction, Limits, Move
from kubestow.solver.rebalance.named_moves import Reasons, name_moves
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from tests.objects import node, pod
from tests.solver.rebalance.problem.test_problem import case_of, class_of, gang, running

Object = dict[str, Any]


def _dealt(problem: RebalanceProblem, *waves: list[Step], units: tuple[int, ...] = ()) -> tuple[list[Move], list[Eviction]]:
    return name_moves(
        problem,
        waves,
        [n in units for n in range(len(waves))],
        lambda g, a, bound: f"{g} from {a}" + "".join(f", {name}" for name in bound),
    )


def _brief(moves: list[Move]) -> list[tuple[int, int, str, str | None, str]]:
    return [(move.step, move.wave, move.pod.removeprefix("default/"), move.source, move.to) for move in moves]


def _pods(count: int, at: str = "n0") -> list[Object]:
    return [running(f"p{i}", at) for i in range(count)]


NODES = [node(f"n{i}") for i in range(4)]


def test_pods_of_a_class_leave_in_input_order_and_are_numbered_through() -> None:
    problem = case_of([*NODES, *_pods(4)])
    moves, evictions = _dealt(problem, [Step(0, 0, 1, 2)], [Step(0, 0, 2), Step(0, 0, 3)])
    assert _brief(moves) == [(1, 1, "p0", "n0", "n1"), (2, 1, "p1", "n0", "n1"), (3, 2, "p2", "n0", "n2"), (4, 2, "p3", "n0", "n3")]
    assert evictions == []
    assert [move.reason for move in moves] == ["0 from 0"] * 4
    assert not any(move.stopover for move in moves)


def test_who_never_moved_leaves_before_who_came() -> None:
    problem = case_of([*NODES, *_pods(1, "n0"), running("q", "n1")])
    assert len(problem.cluster.classes) == 1
    moves, _ = _dealt(problem, [Step(0, 0, 1)], [Step(0, 1, 2)])
    assert _brief(moves) == [(1, 1, "p0", "n0", "n1"), (2, 2, "q", "n1", "n2")]


def test_who_came_in_this_wave_does_not_go_on_in_it() -> None:
    problem = case_of([*NODES, *_pods(2)])
    moves, _ = _dealt(problem, [Step(0, 0, 1)], [Step(0, 0, 1), Step(0, 1, 2)], [Step(0, 1, 3)])
    assert _brief(moves) == [
        (1, 1, "p0", "n0", "n1"), (2, 2, "p1", "n0", "n1"), (3, 2, "p0", "n1", "n2"), (4, 3, "p1", "n1", "n3"),
    ]  # fmt: skip
    gone, evictions = _dealt(problem, [Step(0, 0, 1)], [Step(0, 0, 1), Step(0, 1, -1)])
    assert [move.pod for move in gone] == ["default/p0", "default/p1"]
    assert [eviction.pod for eviction in evictions] == ["default/p0"]


def test_who_goes_on_stopped_over() -> None:
    problem = case_of([*NODES, *_pods(2)])
    moves, _ = _dealt(problem, [Step(0, 0, 1)], [Step(0, 1, 2)], [Step(0, 0, 3)])
    assert _brief(moves) == [(1, 1, "p0", "n0", "n1"), (2, 2, "p0", "n1", "n2"), (3, 3, "p1", "n0", "n3")]
    assert [(move.stopover, move.reason) for move in moves] == [
        (True, "stops over to make room"),
        (False, "0 from 1"),
        (False, "0 from 0"),
    ]


def test_evictions_share_the_numbers_of_moves() -> None:
    problem = case_of([*NODES, *_pods(3)], [], ["n0"], Limits(allowEviction=True))
    moves, evictions = _dealt(problem, [Step(0, 0, 1), Step(0, 0, -1)], [Step(0, 0, -1)])
    assert [move.step for move in moves] == [1]
    assert evictions == [Eviction(2, 1, "default/p1", "n0", "0 from 0"), Eviction(3, 2, "default/p2", "n0", "0 from 0")]


@pytest.mark.parametrize(("units", "numbers"), [((), [1, 2, 3, 4]), ((1,), [1, 2, 2, 3])])
def test_pods_of_a_gang_that_bind_as_a_unit_share_a_number(units: tuple[int, ...], numbers: list[int]) -> None:
    objects = [*NODES, *_pods(2), *gang("train", pod("a", cpu="1"), pod("b", cpu="2"))]
    problem = case_of(objects, ["admit"])
    a, b, p = (class_of(problem, name) for name in ("a", "b", "p0"))
    moves, _ = _dealt(problem, [Step(p, 0, 1)], [Step(a, -1, 0), Step(b, -1, 2)], [Step(p, 0, 3)], units=units)
    assert [move.step for move in moves] == numbers
    assert [(move.pod, move.source, move.gang) for move in moves[1:3]] == [
        ("default/a", None, "default/train"), ("default/b", None, "default/train"),
    ]  # fmt: skip
    assert moves[0].gang is None


def test_a_reason_is_told_of_the_pods_that_get_the_node() -> None:
    """Those that are bound there later, not those that are moved there or bound elsewhere."""
    problem = case_of([*NODES, *_pods(2), running("q", "n1", cpu="1"), pod("a", cpu="2"), pod("b", cpu="3")], ["admit"])
    p, q, a, b = (class_of(problem, name) for name in ("p0", "q", "a", "b"))
    moves, _ = _dealt(problem, [Step(p, 0, 1), Step(q, 1, 0)], [Step(a, -1, 0), Step(b, -1, 0)], [Step(p, 0, 2)])
    assert [move.reason for move in moves] == [
        f"{p} from 0, default/a, default/b", f"{q} from 1", "is pending", "is pending", f"{p} from 0, default/a, default/b",
    ]  # fmt: skip


# --- reasons ----------------------------------------------------------------------------------------------------------------------------


def _reason(
    problem: RebalanceProblem, a: int, *goals: str, bound: tuple[str, ...] = (), broken: tuple[str, ...] = (), freed: bool = False
) -> str:
    """Why a pod leaves node a."""
    g = class_of(problem, "p0")
    mask = np.zeros(problem.cluster.n_nodes, dtype=bool)
    mask[a] = freed
    return Reasons(problem, {(g, a): list(broken)} if broken else {}, mask, goals)(g, a, bound)


def test_reasons() -> None:
    problem = case_of([*NODES, *_pods(1)], [], ["n3"])
    two, new = ("NodeAffinity", "NodePorts"), ("default/new",)
    assert _reason(problem, 3, "repair", broken=two) == "n3 is drained"
    assert _reason(problem, 0, "repair", "consolidate", broken=two, freed=True) == "breaks NodeAffinity, NodePorts on n0"
    assert _reason(problem, 0, "consolidate", broken=two, freed=True) == "frees n0"
    assert _reason(problem, 0, "admit", "improve", bound=new) == "makes room on n0 for default/new"
    assert _reason(problem, 0, "admit", bound=(*new, "default/other")) == "makes room on n0 for default/new and others"
    assert _reason(problem, 0, "admit", "improve") == "better preferences or balance"
    assert _reason(problem, 0, "repair") == "makes room on n0"
