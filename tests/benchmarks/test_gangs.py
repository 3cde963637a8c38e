"""Gangs whose answer is known: a sample here, hundreds in runs marked slow (``pytest -m slow tests/benchmarks/test_gangs.py``)."""

from __future__ import annotations

import pytest

from tests.benchmarks import bench_gangs
from tests.benchmarks.bench_gangs import Explained, Placed
from tests.gangs import known, pod_by_pod
from tests.instances.planted.planted_gangs import CAUSES, feasible
from tests.tiers import thinned

pytestmark = pytest.mark.full

#: Seconds that each gang is given.
LIMIT = 60.0


@pytest.mark.parametrize("seed", thinned(range(24), 3))
def test_a_planted_gang_is_placed_whole(seed: int) -> None:
    instance = feasible(seed, nodes=50 + 3 * seed, pods=8 + 3 * seed)
    assert known.solve(instance, LIMIT).whole


@pytest.mark.parametrize("cause", thinned(range(len(CAUSES)), 3))
def test_a_planted_cause_is_found(cause: int) -> None:
    row = bench_gangs.explain(cause + len(CAUSES), LIMIT)
    assert row.family == CAUSES[cause]
    assert (row.proved, row.named, row.working) == (True, True, row.ways)
    assert row.ways


def test_pods_placed_one_by_one_obey_every_rule() -> None:
    instance = feasible(6, nodes=60, shape="spread")
    snapshot = known.expanded(instance)
    result = pod_by_pod.schedule(snapshot)
    assert 0 < len(result.pods) <= result.pending
    assert known.one_by_one(snapshot, result.pods) == []


def test_mutual_affinity_is_out_of_reach_pod_by_pod() -> None:
    result = pod_by_pod.schedule(known.expanded(feasible(0, nodes=60, shape="mutual")))
    assert (result.whole, result.gangs) == (0, 1)
    assert result.share < 1


def test_tables_have_a_row_for_each_family_and_one_for_all() -> None:
    placed = [Placed(0, "rack", True, 1.0, False, 0.5), Placed(1, "rack", False, 3.0, True, 1.0), Placed(2, "zone", True, 2.0, False, 0.0)]
    lines = list(bench_gangs.placed_table(placed))
    assert lines[2:] == [
        "| rack (2) | 1 (50.0%) | 2.0 | 3.0 | 1 (50.0%) | 75% |",
        "| zone (1) | 1 (100.0%) | 2.0 | 2.0 | 0 (0.0%) | 0% |",
        "| all (3) | 2 (66.7%) | 2.0 | 3.0 | 1 (33.3%) | 50% |",
    ]
    explained = [Explained(0, "ports", True, True, True, 3, 3, 1.0), Explained(1, "numa", False, False, False, 2, 1, 2.0)]
    assert [row.good for row in explained] == [True, False]
    assert list(bench_gangs.explained_table(explained))[-1] == "| all (2) | 1 (50.0%) | 1 | 1 | 4 of 5 | 1.5 | 2.0 |"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500))
def test_all_planted_gangs_are_placed_whole(seed: int) -> None:
    answer = known.solve(feasible(seed), LIMIT)
    assert answer.whole


@pytest.mark.slow
def test_nearly_all_planted_causes_are_found() -> None:
    rows = [bench_gangs.explain(seed, LIMIT) for seed in range(140)]
    assert sum(row.proved for row in rows) >= 0.95 * len(rows)
    assert [row for row in rows if row.proved and not (row.named and row.working == row.ways)] == []
