"""Planted instances: every pod placed and every tier proved, where kube-scheduler leaves some pending."""

from __future__ import annotations

import pytest

from tests.benchmarks.bench_packing import baseline, fresh, instances, solve
from tests.tiers import thinned

pytestmark = pytest.mark.full

#: The instances that CI solves; `bench_packing.py` has the rest.
SOLVED = instances(["*-8x4-*", "*-16x8-*", "*-32x8-*", "*-64x10-97-*"])
FRESH = fresh(range(2), ["*"])


def test_there_are_instances_of_every_family() -> None:
    assert len(SOLVED) == 33
    assert len(FRESH) == 4


@pytest.mark.parametrize("name", thinned(SOLVED, 5))
def test_everything_is_placed_and_proved(name: str) -> None:
    result, _ = solve(name, 30.0)
    assert result.status == "optimal"
    assert len(result.assignments) == result.snapshot.pending > baseline()[name]


@pytest.mark.parametrize("name", FRESH)
def test_generated_nodes_are_filled_to_the_last_unit(name: str) -> None:
    result, _ = solve(name, 30.0)
    assert result.status == "optimal"
    assert len(result.assignments) == result.snapshot.pending
