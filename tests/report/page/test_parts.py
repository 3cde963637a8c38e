"""Nodes, figures, preferences and the search over time, as the page gets them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from kubestow.models.documents.placement import (
    Cause,
    Fact,
    FamilyResult,
    Placement,
    Preferences,
    Reason,
    Remedy,
    Rollout,
    SearchPoint,
    Seconds,
    SnapshotRef,
    TierResult,
    Unmet,
    Unmodelled,
    Unplaced,
    Wave,
    WorkloadResult,
)
from kubestow.models.documents.policy import Multipliers, Policy
from kubestow.models.documents.rebalance_plan import Move, Obstacle, RebalancePlan, Summary
from kubestow.models.kube.objects import Node, Pod
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.report.documents.tier_words import tier_words
from kubestow.report.page import words
from kubestow.report.page.data import build
from kubestow.report.page.render import embed
from tests.objects import node, pod
from tests.report.page.consistency import check

GIB = 2**30


def _placement(**more: Any) -> Placement:
    return Placement(**{
        "snapshot": SnapshotRef("abc", 1, 1, 1), "engine": "exact", "status": "feasible", "objective": [], "assignments": [], **more,
    })  # fmt: skip


def test_a_placement(snapshot: Snapshot, placement: Placement) -> None:
    data = build(snapshot, placement, version="0.1.0")
    check(data, snapshot, placement)
    assert (data["title"], data["kind"], data["version"]) == ("Placement of 4 pods", "Placement", "0.1.0")
    assert data["snapshot"] == {"sha256": "abc", "nodes": 3, "pods": 5, "pending": 4, "origin": ""}
    assert [zone["name"] for zone in data["zones"]] == ["a", "b", ""]
    assert data["nodes"]["zone"] == [0, 1, 2]
    assert data["usage"][0]["cpu"] == [1000, 0, 0]
    assert data["usage"][1] == {"cpu": [2000, 1000, 0], "memory": [2 * GIB, GIB, 0], "pods": [2, 1, 0]}
    assert data["summary"]["seconds"] == {"load": 0.1, "compile": 0.2, "solve": 0.3, "verify": 0.1}
    assert data["summary"]["tiers"] == [
        {"label": "pods placed, priority 10", "value": 2, "bound": 2, "gap": "proved", "of": 2},
        {"label": "pods placed, priority 0", "value": 0, "bound": 1, "gap": "100 %", "of": 2},
    ]
    assert data["summary"]["facts"] == [
        ["Nodes", "3"], ["Pods running", "1 → 3"], ["Placed", "2 of 4"], ["Pending", "2"], ["CPU requested", "8% → 25%", "of 12 cores"],
        ["Memory requested", "4% → 13%", "of 24 GiB"], ["Nodes with pods", "1 → 2"],
    ]  # fmt: skip
    assert data["unplaced"] == [
        {
            "pods": ["prod/db-0", "prod/db-1"], "count": 2, "gang": None, "cause": None,
            "reasons": [{"rule": "NodeResourcesFit", "nodes": 3, "message": "insufficient cpu"}],
        }
    ]  # fmt: skip


def test_a_large_cluster_counts_whole_cores(make_node: Callable[..., Node], make_pod: Callable[..., Pod]) -> None:
    snapshot = Snapshot(nodes=[make_node(f"n{i}", cpu="64500m") for i in range(20)])
    assert ["CPU requested", "0%", "of 1,290 cores"] in build(snapshot, None, version="1")["summary"]["facts"]


def test_nodes() -> None:
    beta = {"failure-domain.beta.kubernetes.io/zone": "z", "node-role.kubernetes.io/master": ""}
    cordoned = node("b", labels=beta, unschedulable=True, taints=[{"key": "k", "effect": "NoExecute"}])
    data = build(from_objects([node("a", pods="7"), cordoned]), None, version="1")
    nodes = data["nodes"]
    assert data["zones"] == [{"name": name, "key": "failure-domain.beta.kubernetes.io/zone"} for name in ("z", "")]
    assert (nodes["zone"], nodes["flags"], nodes["taints"]) == ([1, 0], [0, 3], [[], ["k:NoExecute"]])
    assert (nodes["cpu"], nodes["memory"], nodes["pods"]) == ([4000, 4000], [8 * GIB, 8 * GIB], [7, 110])
    assert nodes["labels"][0] == ["kubernetes.io/hostname=a"]


def test_labels_of_very_many_nodes_are_left_out(make_node: Callable[..., Node]) -> None:
    data = build(Snapshot(nodes=[make_node(f"n{i}") for i in range(501)]), None, version="1")
    assert "labels" not in data["nodes"]


def test_a_topology_that_cannot_be_read_is_a_note() -> None:
    zone = {"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4"}]}
    kind = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
    objects = [
        node("a"),
        node("b"),
        {**kind, "metadata": {"name": "a"}, "zones": [zone]},
        {**kind, "metadata": {"name": "b"}, "zones": [zone] * 2},
    ]
    data = build(from_objects(objects, validate=False), None, version="1")
    assert data["nodes"]["numa"] == {"0": [{"name": "node-0", "resources": {"cpu": "4"}}]}
    assert any(note.startswith("NodeResourceTopology b: zone 'node-0' is listed twice") for note in data["summary"]["notes"])


def test_a_plan() -> None:
    snapshot = from_objects([node("a"), node("b"), pod("p", node_name="a")])
    moves = [Move(1, 1, "default/p", "a", "b", "drain: frees a")]
    families = [FamilyResult("taints", 5, 9, 2)]
    plan = RebalancePlan(
        SnapshotRef("", 2, 1, 0), ["consolidate"], "exact", "optimal", [TierResult("freed", 1, 1)], moves, [],
        Summary(1, 0, rules={"NodeAffinity": 1}, preferences=[FamilyResult("taints", 3, 3, 2)]), Summary(1, 0, preferences=families),
        freed=["a"],
        obstacles=[Obstacle("repair", "stays", pod="default/p"), Obstacle("consolidate", "kept", node="b", proved=True)],
    )  # fmt: skip
    data = build(snapshot, plan, version="1")
    check(data, snapshot, plan)
    assert data["title"] == "Rebalancing plan: 1 move"
    assert data["nodes"]["flags"] == [4, 0]
    assert data["waves"] == [
        {"wave": 1, "steps": [{"pod": 0, "from": 0, "to": 1, "reason": "drain: frees a", "evict": False, "stopover": False}]}
    ]
    assert data["obstacles"] == [
        {"goal": "repair", "message": "stays", "proved": False, "about": "default/p"},
        {"goal": "consolidate", "message": "kept", "proved": True, "about": "b"},
    ]
    assert data["rulesBroken"] == {"before": {"NodeAffinity": 1}, "after": {}}
    assert data["preferences"] == {
        "families": [{"family": "taints", "before": 3, "value": 5, "multiplier": 2}], "workloads": [], "unmet": [],
    }  # fmt: skip
    assert data["summary"]["tiers"][0]["of"] is None


def test_preferences() -> None:
    preferences = Preferences(
        [FamilyResult("taints", 5, 9)], [WorkloadResult("Pod ns/a,ns/b,ns/c", 3, 1)], [Unmet("Deployment ns/d", "taints", "avoid k", 2, 4)]
    )
    data = build(Snapshot(), _placement(preferences=preferences), version="1")["preferences"]
    assert data["workloads"] == [{"workload": "Pod ns/a and 2 more", "value": 3, "lost": 1}]
    assert data["unmet"] == [{"workload": "Deployment ns/d", "family": "taints", "preference": "avoid k", "pods": 2, "lost": 4}]


def test_search_over_time() -> None:
    points = [SearchPoint("placed", 2.5, 4, 5, 0), SearchPoint("soft", 3.0, 1), SearchPoint("placed", 0.5, 3, None, 0)]
    assert build(Snapshot(), _placement(search=points), version="1")["search"] == [
        {"label": "pods placed, priority 0", "fewer": False, "points": [[0.5, 3, None], [2.5, 4, 5]]},
        {"label": "preferences, in points", "fewer": False, "points": [[3.0, 1, None]]},
    ]


def test_costs_over_time_are_marked_so_that_their_bounds_are_lower_ones() -> None:
    points = [SearchPoint("strategy", 1.0, -312, -228), SearchPoint("placed", 1.0, 3, 4)]
    spread, pack = (_placement(search=points, policy=Policy(strategy=each)) for each in ("spread", "pack"))
    for result in (spread, pack):
        name = tier_words(TierResult("strategy", -312, -228), result.policy).name
        cost, gain = build(Snapshot(), result, version="1")["search"]
        assert cost == {"label": name, "fewer": True, "points": [[1.0, 312, 228]]}
        assert gain["fewer"] is False


def test_causes_stand_with_their_pods(snapshot: Snapshot, placement: Placement) -> None:
    cause = Cause(
        ["prod/db-0"], [Fact("NodeResourcesFit", "Pod", "no")], minimal=True, waysOut=[Remedy("nodes", "one more", options=["--x"])]
    )
    placement.causes = [cause]
    found = build(snapshot, placement, version="1")["unplaced"]
    assert [(group["pods"], group["cause"] is not None) for group in found] == [(["prod/db-0"], True), (["prod/db-1"], False)]
    assert found[0]["cause"] == {
        "facts": [{"rule": "NodeResourcesFit", "object": "Pod", "message": "no"}], "alone": True, "minimal": True, "proved": True,
        "waysOut": [{"message": "one more", "options": ["--x"]}], "untried": [],
    }  # fmt: skip


def test_large_groups_name_some_of_their_pods() -> None:
    pods = [pod(f"p{i}") for i in range(60)]
    snapshot = from_objects([node("a"), *pods])
    left = [Unplaced(f"default/p{i}", []) for i in range(60)]
    (group,) = build(snapshot, _placement(unplaced=left), version="1")["unplaced"]
    assert (len(group["pods"]), group["count"]) == (50, 60)


def test_much_that_is_not_modelled_is_summed_up() -> None:
    found = [Unmodelled(f"default/p{i}", "f", "ignored") for i in range(30)]
    told = build(Snapshot(), _placement(unmodelled=found), version="1")["summary"]["unmodelled"]
    assert len(told) == 21
    assert told[-1] == {"pod": "and 10 more", "field": "f", "effect": "ignored"}


def test_a_snapshot_says_what_is_not_modelled_and_what_was_odd() -> None:
    odd = pod("p", schedulerName="mine")
    snapshot = from_objects([node("a"), odd, pod("lost", node_name="gone")])
    summary = build(snapshot, None, version="1")["summary"]
    assert [each["pod"] for each in summary["unmodelled"]] == ["default/p"]
    assert summary["notes"] == snapshot.warnings != []
    assert (summary["status"], summary["engine"], summary["tiers"]) == (None, None, [])


class _Fault:
    pod, node, rule, why = "default/p", None, "NodePorts", "taken"


@pytest.mark.parametrize("count", [1, 1_001])
def test_violations(count: int) -> None:
    summary = build(Snapshot(), _placement(), violations=[_Fault()] * count, version="1")["summary"]
    assert summary["violations"][0] == {"pod": "default/p", "node": "", "rule": "NodePorts", "why": "taken"}
    assert len(summary["violations"]) == min(count, 1_000)
    assert (summary["notes"] == ["1 more violations are left out"]) == (count > 1_000)


def test_the_policy_of_the_result_decides_what_counts() -> None:
    found = pod("p")
    found["spec"]["containers"].append({"name": "d"})
    found["metadata"]["annotations"] = {"resource-policy.nri.io/affinity": "c: [d]"}
    snapshot = from_objects([node("a"), found])

    def rules(policy: Policy | None) -> list[str]:
        result = _placement(unplaced=[Unplaced("default/p", [])], policy=policy)
        return [rule["rule"] for rule in build(snapshot, result, version="1")["shapes"][0]["rules"]]

    assert rules(None) == ["ContainerAffinity"]
    assert rules(Policy(multipliers=Multipliers(containerAffinity=0))) == []


def test_what_is_no_number_of_seconds_is_left_out() -> None:
    points = [SearchPoint("placed", math.nan, 1), SearchPoint("placed", math.inf, 2), SearchPoint("placed", 1.0, 3)]
    data = build(Snapshot(), _placement(search=points, seconds=Seconds(math.nan)), version="1")
    assert data["search"] == [{"label": "pods placed", "fewer": False, "points": [[1.0, 3, None]]}]
    assert data["summary"]["seconds"] is None
    assert json.loads(embed(data)) == data


@pytest.mark.parametrize(("cpu", "text"), [("3999m", "99%"), ("4", "100%"), ("4001m", "101%"), ("20m", "1%"), ("19m", "0%")])
def test_shares_are_never_rounded_to_full(cpu: str, text: str) -> None:
    data = build(from_objects([node("a"), pod("p", cpu=cpu, node_name="a")]), None, version="1")
    assert ["CPU requested", text, "of 4 cores"] in data["summary"]["facts"]


def test_very_many_kinds_of_reasons_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.report.page.unplaced._MAX_GROUPS", 2)
    snapshot = from_objects([node("a"), *(pod(f"p{i}") for i in range(5))])
    left = [Unplaced(f"default/p{i}", [Reason(f"R{i}", 1, "")]) for i in range(5)]
    data = build(snapshot, _placement(unplaced=left), version="1")
    check(data, snapshot, _placement(unplaced=left))
    assert [group["count"] for group in data["unplaced"]] == [1, 1, 3]
    assert data["unplaced"][2]["reasons"][0]["rule"] == "Other"


def test_causes_of_placed_pods_are_nothing_to_tell(snapshot: Snapshot, placement: Placement) -> None:
    placement.causes = [Cause(["prod/web-1"], [])]
    assert sum(group["count"] for group in build(snapshot, placement, version="1")["unplaced"]) == 2
    told = build(snapshot, None, causes=[Cause(["prod/db-0"], [], gang="g")], version="1")["unplaced"]
    assert [(group["pods"], group["gang"], group["reasons"]) for group in told] == [(["prod/db-0"], "g", [])]


# --- plans and rollouts that do not reach all -----------------------------------------------------------------------------


def _plan(**more: Any) -> RebalancePlan:
    return RebalancePlan(**{
        "snapshot": SnapshotRef("", 3, 3, 0), "goals": ["drain"], "engine": "exact", "status": "optimal", "objective": [], "moves": [],
        "evictions": [], "before": Summary(0, 0), "after": Summary(0, 0), **more,
    })  # fmt: skip


def _facts(data: dict[str, Any]) -> dict[str, list[str]]:
    return {name: rest for name, *rest in data["summary"]["facts"]}


def test_a_node_to_drain_that_is_not_emptied_is_told_from_one_that_is() -> None:
    pods = [
        pod("stays", node_name="a"),
        pod("goes", node_name="b"),
        pod("agent", node_name="b", owner="DaemonSet/agent"),
        pod("leaves", node_name="b"),
    ]
    pods[-1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    snapshot = from_objects([node("a"), node("b"), node("c"), *pods])
    found = _plan(
        drain=["a", "b"],
        moves=[Move(1, 1, "default/goes", "b", "c", "drains b")],
        obstacles=[Obstacle("drain", "default/stays stays on a", pod="default/stays", node="a", proved=True)],
    )
    data = build(snapshot, found, version="1")
    check(data, snapshot, found)
    assert data["nodes"]["flags"] == [16, 4, 0]
    assert _facts(data)["Nodes drained"] == ["1 of 2"]
    done = build(snapshot, _plan(drain=["b"], moves=found.moves), version="1")
    assert done["nodes"]["flags"] == [0, 4, 0]
    assert _facts(done)["Nodes drained"] == ["1"]


def test_bindings_are_no_moves_and_nodes_free_before_are_not_freed() -> None:
    agent = pod("agent", node_name="c", owner="DaemonSet/agent")
    snapshot = from_objects([node("a"), node("b"), node("c"), pod("p", node_name="a"), pod("waits"), agent])
    moves = [Move(1, 1, "default/p", "a", "b", "frees a"), Move(2, 1, "default/waits", None, "b", "admits it")]
    data = build(snapshot, _plan(moves=moves, freed=["a"], objective=[TierResult("freed", 2, 3)]), version="1")
    assert data["title"] == "Rebalancing plan: 1 move and 1 binding"
    assert data["nodes"]["flags"] == [4, 0, 32]
    facts = _facts(data)
    assert (facts["Moves"], facts["Bindings"][0]) == (["1"], "1")
    assert facts["Nodes freed"] == ["1", "bound 2; 1 more was free before"]
    priced = Policy(priceLabel="price")
    data = build(snapshot, _plan(moves=moves, freed=["a"], objective=[TierResult("freed", -7, -5)], policy=priced), version="1")
    assert _facts(data)["Nodes freed"] == ["1", "cost 7, bound 5"]


@pytest.mark.parametrize("waves", [1, 2])
def test_a_rollout_that_halts_counts_each_pod_once(waves: int) -> None:
    snapshot = from_objects([node("a"), pod("new-1"), pod("new-2")])
    stuck = Unplaced("default/new-1", [Reason("InterPodAffinity", 2, "anti-affinity on 2")])
    rollout = Rollout(
        "Deployment default/app", "RollingUpdate", 2, 1, 0, False, True, [Wave(w + 1, [], ["default/new-1"], []) for w in range(waves)],
        [stuck], [Remedy("maxUnavailable", "maxUnavailable 1 instead of 0")],
    )  # fmt: skip
    left = [stuck, Unplaced("default/new-2", [Reason("Deployment", 0, "never created")])]
    halt, other = build(snapshot, _placement(rollout=rollout, unplaced=left), version="1")["unplaced"]
    assert (halt["pods"], halt["count"], other["pods"]) == (["default/new-1"], 1, ["default/new-2"])
    assert [each["rule"] for each in halt["reasons"]] == ["Rollout", "InterPodAffinity"]
    assert f"after {waves} wave{'s' * (waves > 1)}, wherever" in halt["reasons"][0]["message"]
    assert [each["message"] for each in halt["cause"]["waysOut"]] == ["maxUnavailable 1 instead of 0"]


@pytest.mark.parametrize(
    ("message", "nodes", "told"),
    [
        ("insufficient cpu on 3", 3, "insufficient cpu"),
        ("insufficient cpu, memory on 13", 13, "insufficient cpu, memory"),
        ("insufficient cpu on 13", 3, "insufficient cpu on 13"),
        ("cpu on 1, memory on 2", 2, "cpu on 1, memory on 2"),
    ],
)
def test_a_message_does_not_repeat_the_number_beside_it(message: str, nodes: int, told: str) -> None:
    left = [Unplaced("default/p", [Reason("NodeResourcesFit", nodes, message)])]
    (group,) = build(from_objects([node("a"), pod("p")]), _placement(unplaced=left), version="1")["unplaced"]
    assert group["reasons"][0]["message"] == told


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 0, "0"), ("cpu", 500, "500m"), ("cpu", 1000, "1 core"), ("cpu", 1255, "1.26 cores"), ("cpu", 74250, "74.3 cores"),
        ("cpu", 99_960, "100 cores"), ("cpu", 3_488_000, "3,488 cores"), ("memory", 0, "0 B"), ("memory", 1023, "1,023 B"),
        ("memory", 24 * GIB, "24 GiB"), ("memory", 5 * GIB // 2, "2.5 GiB"), ("memory", 1 << 50, "1 PiB"), ("memory", 1 << 62, "4,096 PiB"),
    ],
)  # fmt: skip
def test_offers_are_told_with_their_unit(resource: str, value: int, text: str) -> None:
    assert words.offer(resource, value) == text


def test_claims_of_devices_are_told_also_of_pods_that_are_alike_otherwise() -> None:
    pods = [pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]), pod("q"), pod("r")]
    pods[2]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    data = build(from_objects([node("a"), *pods]), None, version="1")
    told = [[rule["text"] for rule in shape["rules"] if rule["rule"] == "DynamicResources"] for shape in data["shapes"]]
    assert sorted(told) == [[], ["needs the devices of a claim of template t"], ["needs the devices of claim c"]]
