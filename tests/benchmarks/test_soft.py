"""Soft preferences on the benchmark instances: better than kube-scheduler's own placement, with a bound."""

from __future__ import annotations

import pytest

from kubestow.checker.objective import preferences
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.snapshot.snapshot import from_objects, load
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.benchmarks.bench_soft import DATA, POLICY, baseline, fresh, instances, recorded, soft_tier, solve
from tests.benchmarks.contended_clusters import contended_cluster
from tests.benchmarks.soft_clusters import soft_cluster
from tests.tiers import thinned

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


@pytest.mark.parametrize("seed", thinned(range(1000, 1003), 3))
def test_generated_clusters_are_repeatable_as_full_as_asked_for_and_have_room_for_all(seed: int) -> None:
    objects = soft_cluster(seed, nodes=60, fill=70)
    assert objects == soft_cluster(seed, nodes=60, fill=70) != soft_cluster(seed + 1, nodes=60, fill=70)
    room = sum(int(o["status"]["allocatable"]["cpu"][:-1]) for o in objects if o["kind"] == "Node")
    requested = sum(int(o["spec"]["containers"][0]["resources"]["requests"]["cpu"][:-1]) for o in objects if o["kind"] == "Pod")
    assert 0.7 * room <= requested <= 0.8 * room
    result = place(from_objects(objects), Options(engine="greedy", deterministic=True, policy=POLICY))
    assert len(result.assignments) == result.snapshot.pending


def test_generated_instances_have_names_of_their_families() -> None:
    assert fresh([1, 2], ["soft-60-*"]) == ["soft-60-70-seed1", "soft-60-70-seed2"]


@pytest.mark.slow
def test_clusters_that_pods_compete_for_are_bounded_together() -> None:
    """Group by group all pods have all that they prefer, and the gap was two thirds of the value."""
    result = place(from_objects(contended_cluster(1, nodes=60)), Options(time_limit=15, policy=POLICY))
    tier = soft_tier(result)
    assert len(result.assignments) == result.snapshot.pending
    assert 0 < tier.value <= tier.bound <= 1.1 * tier.value


@pytest.mark.slow
@pytest.mark.parametrize("name", instances())
def test_better_than_kube_scheduler_on_every_instance(name: str) -> None:
    result, _ = solve(name, 60.0)
    check(name, result)


def check(name: str, result: Placement) -> None:
    tiers = {t.tier: t for t in result.objective}
    assert tiers["placed"].value == tiers["placed"].bound
    assert baseline()[name] < tiers["soft"].value <= tiers["soft"].bound
