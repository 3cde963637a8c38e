"""The benchmark of evenness: its clusters are repeatable, and its figures are those of the placement."""

from __future__ import annotations

import pytest

from tests.benchmarks.bench_evenness import CLUSTERS, measured


@pytest.mark.parametrize("name", ["one-replica", "one-replica-pending"])
def test_all_zones_are_used(name: str) -> None:
    measurement = measured(name, CLUSTERS[name](), 20.0)
    assert (measurement.pods, measurement.placed, measurement.status, measurement.met) == (30, 30, "optimal", True)
    assert measurement.zones == measurement.nodes == (31.25, 31.25)
    assert measurement.gap < 1


@pytest.mark.full
@pytest.mark.parametrize("name", sorted({*CLUSTERS} - {"large"}))
def test_the_goal_is_met(name: str) -> None:
    measurement = measured(name, CLUSTERS[name](), 20.0)
    assert measurement.placed == measurement.pods
    assert measurement.met


def test_clusters_are_repeatable() -> None:
    assert all(CLUSTERS[name]() == CLUSTERS[name]() for name in sorted({*CLUSTERS} - {"large"}))
