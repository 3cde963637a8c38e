"""Planted instances: every pod placed and every tier proved, where kube-scheduler leaves some pending."""

from __future__ import annotations

import pytest

from tests.benchmarks.bench_packing import baseline, instances, solve

pytestmark = pytest.mark.full

#: What CI solves; `bench_packing.py` has the rest.
SOLVED = instances(["*-8x4-*", "*-16x8-*", "*-32x8-95-*", "*-64x10-97-*"])
PERFECT = instances(["*-32x8-100-*"])


def test_there_are_instances_of_every_family() -> None:
    assert len(SOLVED) == 27
    assert len(PERFECT) == 6


@pytest.mark.parametrize("name", SOLVED)
def test_everything_is_placed_and_proved(name: str) -> None:
    result, _ = solve(name, 30.0)
    assert result.status == "optimal"
    assert len(result.assignments) == result.snapshot.pending > baseline()[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", PERFECT)
def test_perfect_packing_is_nearly_reached(name: str) -> None:
    result, _ = solve(name, 60.0)
    assert len(result.assignments) >= 0.99 * result.snapshot.pending
    assert all(t.bound >= t.value for t in result.objective)
