"""LimitRanger and ResourceQuota from end to end: what is left, why, what would help, and a placement that ignores them."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker.placement import verify
from models.documents.placement import Assignment, Placement
from models.snapshot.snapshot import Snapshot, load
from models.workloads.expand import expand
from solver.runtime.options import Engine, Options
from solver.solve import place

RULES = Path(__file__).resolve().parents[3] / "instances/rules"


def case(*, partial: bool = True, replicas: int | None = None) -> Snapshot:
    """Quota for five more pods of web, six of them wanted, and a pod that is too large."""
    snapshot, manifests = (
        load([str(RULES / "namespace-limits.yaml")]),
        load([str(RULES / "namespace-limits-workload.yaml")], manifests=True),
    )
    return expand(snapshot, manifests, partial=partial, replicas={} if replicas is None else {"StatefulSet/shop/web": replicas}).snapshot


def left(found: Placement) -> dict[str, list[str]]:
    return {entry.pod: [reason.rule for reason in entry.reasons] for entry in found.unplaced}


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
    told = {(violation.pod, violation.rule) for violation in verify(snapshot, found)}
    assert {("shop/web-5", "ResourceQuota"), ("shop/report", "LimitRanger")} <= told
