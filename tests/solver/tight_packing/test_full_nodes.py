"""Refuted packings are impossible by brute force; packings found by a dive fit."""

from __future__ import annotations

import numpy as np
import pytest

from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.tight_packing.demands import PackingDemands
from kubestow.solver.tight_packing.full_nodes import FullNodes
from tests.solver.tight_packing.tiny_rooms import context, fits, max_placed, problem, reachable
from tests.tiers import sampled

INSTANCES = 200


def possible(demands: PackingDemands, out: dict[int, int]) -> bool:
    """Return whether some placement leaves out at most the given number of pods of each priority."""
    return any(
        all(
            sum(c - v for c, v, q in zip(demands.count.tolist(), placed, demands.priority.tolist(), strict=True) if q == p) <= out.get(p, 0)
            for p in set(demands.priority.tolist())
        )
        for placed in reachable(demands)
    )


@pytest.mark.parametrize("seed", sampled(range(INSTANCES), every=20, full=4))
def test_refutes_only_what_is_impossible_and_dives_to_what_has_room(seed: int) -> None:
    demands = problem(seed)
    rng = np.random.default_rng(seed)
    best = max_placed(demands)
    total = {p: int(demands.count[demands.priority == p].sum()) for p in best}
    for more in (0, 1):  # pods that the optimum leaves out, and one pod fewer of some priority
        out = {p: max(0, total[p] - best[p] - more * int(rng.integers(0, 2))) for p in best}
        proof = FullNodes(demands, out)
        cpsat = CpSat(context())
        real = possible(demands, out)
        assert not (proof.impossible(cpsat, 1.0) and real)
        assert not (proof.crowded(cpsat, 1.0) and real)
        patterns = proof.patterns(1.0)
        if patterns is None:
            continue
        program, pods = proof.program(patterns)
        if program.refutes(pods, lambda: False):
            assert not real
        elif (counts := program.dive(pods, lambda: False)) is not None:
            assert fits(demands, counts)
            unplaced = demands.count - counts.sum(axis=1)
            assert all(int(unplaced[demands.priority == p].sum()) <= n for p, n in out.items())


def test_tight_packings_that_the_linear_program_refutes_or_a_dive_finds() -> None:
    """Pods of three in ten: three to a node. Whole nodes say so to the linear program, sums do not."""
    demand, count = np.array([[3], [4]], dtype=np.int64), np.array([14, 2])
    demands = PackingDemands(np.arange(2), count, demand, np.array([0, 10]), np.full((5, 1), 10), np.ones((2, 5), dtype=bool))
    ways = {out: FullNodes(demands, {0: out, 10: 0}) for out in (0, 1)}
    assert not ways[0].impossible(CpSat(context()), 1.0)
    programs = {out: proof.program(proof.patterns(1.0) or []) for out, proof in ways.items()}
    assert programs[0][0].refutes(programs[0][1], lambda: False)
    program, pods = programs[1]
    assert not program.refutes(pods, lambda: False)
    counts = program.dive(pods, lambda: False)
    assert counts is not None
    assert counts.sum(axis=1).tolist() == [13, 2]
    assert fits(demands, counts)


def test_nodes_of_few_pods_that_leave_too_much() -> None:
    """Three nodes of 100 take 45 + 35 + 20 and twice 26 + 26 + 24 + 24. With 45 twice more in place of four of these, nodes of 97, 97 and
    96 are full as well, all together; but no three pods fill one of 97, nor two that of 96."""
    demand, free = np.array([[45], [35], [20], [26], [24]], dtype=np.int64), np.ones((5, 3), dtype=bool)
    one = PackingDemands(np.arange(5), np.array([1, 1, 1, 4, 4]), demand, np.zeros(5, dtype=np.int64), np.full((3, 1), 100), free)
    other = PackingDemands(np.arange(5), np.array([3, 1, 1, 2, 2]), demand, np.zeros(5, dtype=np.int64), np.array([[97], [97], [96]]), free)
    for demands, crowded in ((one, False), (other, True)):
        proof = FullNodes(demands, {0: 0})
        assert proof.spare[0] == 0
        assert proof.crowded(CpSat(context()), 1.0) is crowded


def test_a_pod_that_finds_no_company() -> None:
    """Two nodes of 10 for 7 + 5 + 4 + 4: the sum is right, and nothing but 3 would fill the node of the 7."""
    one = np.array([[7], [5], [4]], dtype=np.int64)
    demands = PackingDemands(
        np.arange(3), np.array([1, 1, 2]), one, np.zeros(3, dtype=np.int64), np.full((2, 1), 10), np.ones((3, 2), dtype=bool)
    )
    cpsat = CpSat(context())
    assert FullNodes(demands, {}).impossible(cpsat, 1.0)
    assert not FullNodes(demands, {0: 1}).impossible(cpsat, 1.0)


def test_whole_pods_say_more_than_their_sum() -> None:
    """One pod that stays out makes room for 4 of the one resource or the other, not for 3 of both."""
    demand = np.array([[4, 0], [0, 4]], dtype=np.int64)
    demands = PackingDemands(
        np.arange(2), np.array([3, 3]), demand, np.zeros(2, dtype=np.int64), np.array([[9, 9]]), np.ones((2, 1), dtype=bool)
    )
    cpsat = CpSat(context())
    assert FullNodes(demands, {0: 1}).impossible(cpsat, 1.0)
    assert not FullNodes(demands, {0: 2}).impossible(cpsat, 1.0)


@pytest.mark.parametrize("first", [0, 1])
def test_the_largest_pod_is_the_one_that_asks_for_most_whatever_slots_there_are(first: int) -> None:
    """Three nodes of 10 for 5 + 5 + 7 + 7 + 6: nothing joins the 7. Every pod takes the same part of a node's slots."""
    order = [first, 1 - first, 2]
    demand, count = np.array([[5, 1], [7, 1], [6, 1]], dtype=np.int64)[order], np.array([2, 2, 1])[order]
    room = np.tile(np.array([10, 110], dtype=np.int64), (3, 1))
    demands = PackingDemands(np.arange(3), count, demand, np.zeros(3, dtype=np.int64), room, np.ones((3, 3), dtype=bool))
    assert FullNodes(demands, {}).impossible(CpSat(context()), 1.0)


def test_where_the_largest_pod_has_company_the_next_ones_are_asked() -> None:
    """Three nodes of 10 for 9 + 5 + 5 times 3 + 1: the 1 joins the 9, and nothing but 5 would join the 5."""
    demand, count = np.array([[9], [5], [3], [1]], dtype=np.int64), np.array([1, 1, 5, 1])
    room, allowed = np.full((3, 1), 10), np.ones((4, 3), dtype=bool)
    assert FullNodes(PackingDemands(np.arange(4), count, demand, np.zeros(4, dtype=np.int64), room, allowed), {}).impossible(
        CpSat(context()), 1.0
    )
