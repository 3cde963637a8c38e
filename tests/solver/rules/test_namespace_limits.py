"""LimitRanger and ResourceQuota from end to end: unplaced pods, reasons, remedies, and a placement that ignores the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubestow.checker.placement import verify
from kubestow.models.cluster.rollout_admission import with_quotas
from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.snapshot.snapshot import Snapshot, load
from kubestow.models.workloads.expand import expand
from kubestow.solver.runtime.options import Engine, Options
from kubestow.solver.solve import place

RULES = Path(__file__).resolve().parents[3] / "instances/rules"


def case(*, partial: bool = True, replicas: int | None = None) -> Snapshot:
    """Quota for five more pods of web, six of them wanted, and a pod that is too large."""
    snapshot, manifests = (
        load([str(RULES / "namespace-limits.yaml")]),
        load([str(RULES / "namespace-limits-workload.yaml")], manifests=True),
    )
    return expand(snapshot, manifests, partial=partial, replicas={} if replicas is None else {"StatefulSet/shop/web": replicas}).snapshot


def left(placement: Placement) -> dict[str, list[str]]:
    return {entry.pod: [reason.rule for reason in entry.reasons] for entry in placement.unplaced}


@pytest.mark.parametrize("engine", ["auto", "exact", "greedy", "lns"])
def test_every_engine_leaves_what_cannot_be_created(engine: Engine) -> None:
    snapshot = case()
    found = place(snapshot, Options(engine=engine, time_limit=5, workers=1))
    assert left(found) == {"shop/report": ["LimitRanger"], "shop/web-5": ["ResourceQuota"]}
    assert (found.status, verify(snapshot, found)) == ("optimal", [])


def test_a_gang_that_cannot_be_created_whole_waits_whole() -> None:
    found = place(case(partial=False), Options(time_limit=5, workers=1))
    assert {pod for pod, rules in left(found).items() if "GangScheduling" in rules} == {f"shop/web-{i}" for i in range(6)}
    (cause,) = [cause for cause in found.causes if cause.gang]
    assert [fact.rule for fact in cause.facts] == ["ResourceQuota"]
    assert "exceeded quota: team, requested: requests.cpu=500m, used: requests.cpu=4, limited: requests.cpu=4" in cause.facts[0].message
    assert place(case(partial=False, replicas=5), Options(time_limit=5, workers=1)).unplaced[0].pod == "shop/report"


def test_a_placement_of_refused_pods_is_invalid() -> None:
    snapshot = case()
    found = place(snapshot, Options(time_limit=5, workers=1))
    order = max(entry.order for entry in found.assignments)
    for i, entry in enumerate(found.unplaced):
        found.assignments.append(Assignment(entry.pod, "n1", order + 1 + i))
    found.unplaced = []
    violations = {(violation.pod, violation.rule) for violation in verify(snapshot, found)}
    assert {("shop/web-5", "ResourceQuota"), ("shop/report", "LimitRanger")} <= violations


def test_a_quota_is_raised_by_what_the_pods_lack_and_no_more() -> None:
    snapshot = case(partial=False)
    found = place(snapshot, Options(time_limit=10, workers=1))
    (cause,) = [cause for cause in found.causes if cause.gang]
    way = cause.waysOut[0]
    assert (way.change, way.message) == ("raiseQuota", "raise quota team: requests.cpu 4500m instead of 4")
    assert way.arguments == {"shop/team": "requests.cpu=4500m"}
    for limit, fits in (("4500m", True), ("4499m", False)):
        again = place(with_quotas(snapshot, {"shop/team": {"requests.cpu": limit}}), Options(time_limit=5, workers=1))
        assert ("shop/web-5" not in left(again)) is fits


def test_no_quota_helps_a_pod_that_a_limit_range_refuses() -> None:
    found = place(case(), Options(time_limit=10, workers=1))
    ways = {pod: [way.change for way in cause.waysOut] for cause in found.causes for pod in cause.pods}
    assert "raiseQuota" in ways["shop/web-5"]
    assert "raiseQuota" not in ways["shop/report"]
