"""The benchmark of certificates: repeated decisions are independent, and the table shows the measurements."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from kubestow.instances.generate.worn import Worn, worn
from kubestow.models.documents.survival import Scenario
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.capacity.survive.equal_failures import group
from tests.benchmarks import bench_pairs
from tests.benchmarks.bench_survive import HEADER, SHARED_HEADER, Case, agreement, cases, measure, shared, survives
from tests.objects import node, pod

ROOM = [node("n0"), node("n1"), *(pod(f"web-{i}", node_name=f"n{i}", owner="ReplicaSet/web", cpu=f"{1 + 2 * i}") for i in range(2))]


def test_solve_decides_again() -> None:
    assert survives(from_objects(ROOM), ["n0"], 5.0) is True
    assert survives(from_objects([*ROOM, pod("web-2", node_name="n1", owner="ReplicaSet/web", cpu="1")]), ["n0"], 5.0) is False


def test_a_wrong_certificate_is_not_agreed_with() -> None:
    snapshot = from_objects(ROOM)
    right = [Scenario([name], "survives", "search") for name in ("n0", "n1")]
    wrong = [Scenario([name], "pending", "bound", pending=1) for name in ("n0", "n1")]
    case = Case("nodes", Worn(2, 2), "node")
    assert agreement(snapshot, case, right, 4, 5.0) == (2, 2)
    assert agreement(snapshot, case, wrong, 4, 5.0) == (2, 0)


@pytest.mark.slow
def test_a_row_has_a_cell_for_each_column() -> None:
    for case in cases(["pairs"], seed=3, scale=4):
        row = measure(case, 20.0, 4)
        assert len(row.cells()) == len(HEADER)
        assert row.agree == row.sampled > 0
        assert row.found.scenarios.all == 28


def test_pairs_that_are_counted_by_classes_are_those_that_are_listed() -> None:
    pairs = bench_pairs.Pairs(from_objects([*worn(Worn(16, 160, seed=3, fill=45)).objects(), node("empty"), node("alike")]))
    counted, listed = pairs.count(0.0), group(pairs.search.instance, pairs.nodes, 2)
    assert counted.distinct == len(listed) < counted.pairs == len(list(combinations(pairs.nodes, 2)))
    free = [failed for failed in listed if pairs.is_free(failed)]
    none = [failed for failed in free if not pairs.search.decide(failed, pairs.search.context, quick=True).displaced]
    assert (counted.free, counted.nothing) == (len(free) - len(none), len(none))
    drawn = pairs.drawn(Random(1))
    assert {next(drawn) for _ in range(40)} <= {tuple(failed) for failed in listed}


def test_pairs_that_hold_together_are_certified_as_the_checker_says() -> None:
    measurement = bench_pairs.measure(from_objects(list(worn(Worn(16, 160, seed=3, fill=45)).objects())), 12, 1)
    assert measurement.sample.total() == 12
    assert len(bench_pairs.cells("worn", measurement)) == len(bench_pairs.HEADER)


@pytest.mark.slow
def test_one_process_and_two_are_put_side_by_side() -> None:
    rows = list(shared(Case("loose", Worn(16, 160, seed=3, fill=45), "node", 2), 2, 1, 1000.0))
    assert [len(row) for row in rows] == [len(SHARED_HEADER)] * 2
    assert [row[2] for row in rows] == ["1", "2"]
