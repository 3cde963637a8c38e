"""Soft preferences on the benchmark instances: better than kube-scheduler's own placement, with a bound."""

from __future__ import annotations

import pytest

from checker.objective import preferences
from models.documents.placement import Placement
from models.documents.policy import DEFAULT
from models.snapshot.snapshot import load
from tests.benchmarks.bench_soft import DATA, baseline, instances, recorded, solve

pytestmark = pytest.mark.full


@pytest.mark.parametrize("name", instances())
def test_the_scoring_is_that_of_the_recorded_baseline(name: str) -> None:
    snapshot = load([str(DATA / f"{name}.json.gz")])
    placed = recorded(name)
    families = preferences.score(snapshot, placed, (), DEFAULT, pending=set(placed)).families
    assert sum(families.values()) == baseline()[name]


@pytest.mark.parametrize("name", instances()[:1])
def test_better_than_kube_scheduler_in_seconds(name: str) -> None:
    result, _ = solve(name, 10.0)
    check(name, result)


@pytest.mark.slow
@pytest.mark.parametrize("name", instances())
def test_better_than_kube_scheduler_on_every_instance(name: str) -> None:
    result, _ = solve(name, 60.0)
    check(name, result)


def check(name: str, result: Placement) -> None:
    tiers = {t.tier: t for t in result.objective}
    assert tiers["placed"].value == tiers["placed"].bound
    assert baseline()[name] < tiers["soft"].value <= tiers["soft"].bound
