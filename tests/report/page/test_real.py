"""The page's data of real results: what the solver makes of the instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubestow.checker.placement import verify
from kubestow.models.documents.placement import Edits, Placement
from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.snapshot import Snapshot, from_objects, load
from kubestow.report.page.data import build
from kubestow.report.page.places import with_new_pods
from kubestow.solver.explain.per_node import explain
from kubestow.solver.explain.unplaced import asked, explain_left
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.solve import place
from tests.objects import node, pod
from tests.report.page.consistency import check
from tests.tiers import sampled

INSTANCES = Path("instances")
OPTIONS = Options(time_limit=5, deterministic=True)

SOLVED = ["quickstart", "scs-control-plane", "peter-sheep-wolf", "two-socket-joint", "gang-mutual", "spread-infeasible-zone"]
#: Goals and the nodes to drain.
PLANNED: list[tuple[str, tuple[Any, ...], tuple[str, ...]]] = [
    ("rebalance-drain", (), ("n1",)),
    ("rebalance-consolidate", ("consolidate",), ()),
    ("rebalance-repair", ("repair",), ()),
    ("rebalance-admit", ("admit",), ()),
    ("rebalance-swap", ("repair",), ()),
    ("rebalance-stuck", ("repair",), ()),
]


def _load(name: str) -> Snapshot:
    return load([str(INSTANCES / f"{name}.yaml")])


@pytest.mark.full
@pytest.mark.parametrize("name", SOLVED)
def test_placements(name: str) -> None:
    snapshot = _load(name)
    result = place(snapshot, OPTIONS)
    data = build(snapshot, result, version="1", violations=verify(snapshot, result))
    check(data, snapshot, result)
    assert data["summary"]["violations"] == []
    assert data["summary"]["status"] == result.status
    assert len(data["summary"]["tiers"]) == len(result.objective)


@pytest.mark.full
def test_container_zones_and_numa() -> None:
    snapshot = _load("peter-sheep-wolf")
    data = build(snapshot, place(snapshot, OPTIONS), version="1")
    meadow = data["pods"]["name"].index("farm/meadow")
    zones = dict(data["pods"]["zones"][str(meadow)])
    assert zones["peter"] == zones["sheep"] != zones["wolf"]
    offered = data["nodes"]["numa"][str(data["pods"]["place"][1][meadow])]
    assert {zone["name"] for zone in offered} >= {*zones["peter"], *zones["wolf"]}
    assert all(zone["resources"]["cpu"] == "4" for zone in offered)


@pytest.mark.parametrize(("name", "goals", "drain"), sampled(PLANNED, every=6), ids=[name for name, _, _ in PLANNED])
def test_plans(name: str, goals: tuple[Any, ...], drain: tuple[str, ...]) -> None:
    snapshot = _load(name)
    result = rebalance(snapshot, PlanOptions(goals, drain, Limits(), OPTIONS))
    data = build(snapshot, result, version="1")
    check(data, snapshot, result)
    assert isinstance(result, RebalancePlan)
    assert [each["about"] for each in data["obstacles"]] == [each.pod or each.node or "" for each in result.obstacles]
    for use in result.after.nodes:
        n = data["nodes"]["name"].index(use.node)
        after = data["usage"][1]
        assert (after["cpu"][n], after["memory"][n], after["pods"][n]) == (use.cpu, use.memory, use.pods)
    for name in {*result.freed, *result.drain}:
        assert data["nodes"]["flags"][data["nodes"]["name"].index(name)] & 4


def _rollout(name: str, workload: str) -> tuple[Snapshot, Placement]:
    snapshot = _load(name)
    result = roll_out(snapshot, workload, None, OPTIONS)
    return with_new_pods(snapshot, result), result


def test_a_rollout_that_goes_through() -> None:
    snapshot, result = _rollout("rollout-three-nodes", "app")
    assert result.rollout is not None
    assert result.rollout.complete
    data = build(snapshot, result, version="1")
    check(data, snapshot, result)
    assert data["kind"] == "Rollout"
    assert len(data["waves"]) == len(result.rollout.waves) > 0
    gone = {pod for wave in result.rollout.waves for pod in wave.delete}
    came = {entry.pod for wave in result.rollout.waves for entry in wave.create}
    states = dict(zip(data["pods"]["name"], data["pods"]["state"], strict=True))
    assert all(states[name] == 3 for name in gone)
    assert all(states[name] == 6 for name in came)
    assert data["unplaced"] == []


def test_a_rollout_that_comes_to_a_halt() -> None:
    snapshot, result = _rollout("rollout-deadlock", "app")
    assert result.rollout is not None
    data = build(snapshot, result, version="1")
    check(data, snapshot, result)
    halt = data["unplaced"][0]
    assert "gets stuck" in halt["reasons"][0]["message"]
    assert halt["pods"] == [left.pod for left in result.rollout.stuck]
    assert [way["message"] for way in halt["cause"]["waysOut"]] == [way.message for way in result.rollout.waysOut] != []


def test_pods_being_deleted_go_in_the_first_wave_of_a_rollout() -> None:
    template = {"metadata": {"labels": {"app": "app"}}, "spec": {"containers": [{"name": "c"}]}}
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "app"}}, "template": template, "strategy": strategy}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app", "namespace": "default"}, "spec": spec}
    labels = {"app": "app", "pod-template-hash": "1"}
    old = [pod(f"app-1-{i}", labels=labels, node_name="a", owner="ReplicaSet/app-1") for i in range(2)]
    old[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    snapshot = from_objects([node("a"), deployment, *old])
    result = roll_out(snapshot, "app", None, OPTIONS)
    snapshot = with_new_pods(snapshot, result)
    data = build(snapshot, result, version="1")
    first = data["waves"][0]["steps"][0]
    assert (data["pods"]["name"][first["pod"]], first["from"], first["to"]) == ("default/app-1-1", 0, -1)
    assert data["pods"]["place"][1][data["pods"]["name"].index("default/app-1-1")] == -1


@pytest.mark.full
def test_edits_are_part_of_the_page() -> None:
    original = _load("quickstart")
    edits = Edits(addNodes=["1:c1"])
    edited = apply(original, None, edits)
    result = place(edited.snapshot, Options(time_limit=5, deterministic=True, edits=edits))
    data = build(edited.snapshot, result, original=original, version="1")
    check(data, edited.snapshot, result)
    assert sum(flags & 8 > 0 for flags in data["nodes"]["flags"]) == 1
    assert "with 1 more node like c1" in data["summary"]["notes"]


def test_what_explain_says_of_pending_pods() -> None:
    snapshot = from_objects([node("a", cpu="2"), node("b", cpu="1"), pod("big", cpu="9"), pod("ok", cpu="2")])
    verdicts = explain(snapshot)
    left = asked(snapshot, verdicts, whole=False)
    found = explain_left(snapshot, left, [], RunContext.start(Options(time_limit=5)))
    data = build(snapshot, None, verdicts=verdicts, causes=[cause for _, cause in found], version="1")
    check(data, snapshot, None)
    by_pod = {group["pods"][0]: group for group in data["unplaced"]}
    big, fits = by_pod["default/big"], by_pod["default/ok"]
    assert [(r["rule"], r["nodes"]) for r in big["reasons"]] == [("NodeResourcesFit", 2)]
    assert "CPU" in big["cause"]["facts"][0]["message"]
    assert big["cause"]["proved"]
    assert fits["reasons"][-1] == {"rule": "Feasible", "nodes": 1, "message": "would accept the pod now"}
    assert fits["cause"] is None


def test_a_rollout_that_a_quota_stops_names_the_quota() -> None:
    snapshot, result = _rollout("rollout-quota", "app")
    (halt,) = build(snapshot, result, version="1")["unplaced"]
    assert halt["pods"] == [left.pod for left in result.unplaced]
    assert [reason["rule"] for reason in halt["reasons"]] == ["Rollout", "ResourceQuota"]
    assert "exceeded quota: team" in halt["reasons"][1]["message"]
