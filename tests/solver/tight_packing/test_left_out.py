"""Choices of the pods that are placed: each another one, each within the room of all nodes."""

from __future__ import annotations

import numpy as np

from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.tight_packing.demands import PackingDemands
from kubestow.solver.tight_packing.left_out import LeftOut
from tests.solver.tight_packing.tiny_rooms import context


def equal(demand: list[list[int]], count: list[int], room: list[list[int]], priority: list[int]) -> PackingDemands:
    size = len(count)
    allowed = np.ones((size, len(room)), dtype=bool)
    return PackingDemands(np.arange(size), np.array(count), np.array(demand), np.array(priority), np.array(room), allowed)


def test_the_largest_stay_out_first_and_every_choice_comes_once() -> None:
    demands = equal([[5], [4], [3]], [1, 1, 2], [[6], [6]], [0, 0, 0])
    choices = LeftOut(demands, {0: 3}, CpSat(context()))
    listed = []
    while (chosen := choices.next(2.0)) is not None:
        listed.append(chosen.tolist())
    assert listed == [[0, 1, 2], [1, 0, 2], [1, 1, 1]]


def test_priorities_keep_their_numbers() -> None:
    demands = equal([[5], [5]], [2, 2], [[10], [5]], [10, 0])
    choices = LeftOut(demands, {10: 2, 0: 1}, CpSat(context()))
    chosen = choices.next(2.0)
    assert chosen is not None
    assert chosen.tolist() == [2, 1]
    assert LeftOut(demands, {10: 2, 0: 2}, CpSat(context())).next(2.0) is None


def test_nodes_that_take_other_pods_are_told_apart() -> None:
    """There is room for both in all, but not where they may be."""
    demands = equal([[5], [5]], [2, 1], [[6], [20]], [0, 0])
    demands.allowed[:] = [[True, False], [False, True]]
    assert LeftOut(demands, {0: 3}, CpSat(context())).next(2.0) is None
    assert LeftOut(demands, {0: 2}, CpSat(context())).next(2.0) is not None


def test_pods_that_are_larger_than_all_room_stay_out() -> None:
    demands = equal([[2**55], [1]], [1, 1], [[3], [2]], [0, 0])
    chosen = LeftOut(demands, {0: 1}, CpSat(context())).next(2.0)
    assert chosen is not None
    assert chosen.tolist() == [0, 1]


def test_amounts_of_terabytes() -> None:
    demands = equal([[2**50 + 1], [2**50 - 1]], [2, 2], [[2**51], [2**51]], [0, 0])
    chosen = LeftOut(demands, {0: 3}, CpSat(context())).next(2.0)
    assert chosen is not None
    assert chosen.sum() == 3
