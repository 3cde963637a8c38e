"""The data of the page on random clusters and results: complete, consistent, and the same every time."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubestow.models.documents.placement import Assignment, Placement, Reason, SnapshotRef, TierResult, Unplaced
from kubestow.models.documents.rebalance_plan import Eviction, Move, RebalancePlan, Summary
from kubestow.models.kube.objects import is_terminal, pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from kubestow.report.page.data import MAX_TEXT_CHARACTERS, build
from tests import tiny
from tests.objects import node, pod
from tests.report.page.consistency import check

SEEDS = st.integers(0, 2**31)
KINDS = st.sampled_from(tiny.KINDS)


def _snapshot(seed: int, kind: str, *, gangs: bool = False) -> Snapshot:
    objects = tiny.snapshot(seed, kind, nodes=4, pods=8)
    return from_objects(tiny.with_gangs(objects, seed) if gangs else objects)


def _reference(snapshot: Snapshot, pending: int, *, scratch: bool = False) -> SnapshotRef:
    return SnapshotRef(snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), pending, fromScratch=scratch)


def placement(snapshot: Snapshot, seed: int, *, scratch: bool = False) -> Placement:
    """Every pending pod somewhere or nowhere; also running ones if ``scratch``."""
    rng = random.Random(seed)
    scope = select(snapshot)
    indices = [*scope.pending, *(i for i in scope.fixed if scratch and rng.random() < 0.5)]
    names = [each.metadata.name or "" for each in snapshot.nodes]
    assigned: list[Assignment] = []
    left: list[Unplaced] = []
    for i in indices:
        if rng.random() < 0.3:
            left.append(Unplaced(pod_key(snapshot.pods[i]), [Reason("NodeResourcesFit", rng.randint(1, 2), "insufficient cpu")]))
        else:
            assigned.append(Assignment(pod_key(snapshot.pods[i]), rng.choice(names), len(assigned) + 1))
    tiers = [TierResult("placed", len(assigned), len(indices))]
    return Placement(_reference(snapshot, len(indices), scratch=scratch), "exact", "feasible", tiers, assigned, left)


def plan(snapshot: Snapshot, seed: int) -> RebalancePlan:
    """Random steps that go on from one another, stopovers and evictions among them."""
    rng = random.Random(seed)
    names = [each.metadata.name or "" for each in snapshot.nodes]
    known = set(names)
    at = {pod_key(p): p.spec.nodeName if p.spec.nodeName in known else None for p in snapshot.pods if not is_terminal(p)}
    moves, evictions = [], []
    for step in range(1, rng.randint(0, 12) + 1):
        key, wave = rng.choice(sorted(at)), 1 + step // 4
        was = at[key]
        if was is not None and rng.random() < 0.3:
            evictions.append(Eviction(step, wave, key, was, "admit: makes room"))
            at[key] = None
        else:
            to = rng.choice(names)
            moves.append(Move(step, wave, key, was, to, "repair", stopover=rng.random() < 0.2))
            at[key] = to
    return RebalancePlan(
        _reference(snapshot, 0), ["repair"], "exact", "feasible", [TierResult("moves", -len(moves), 0)], moves, evictions,
        Summary(0, 0, rules={"NodeAffinity": 2}), Summary(0, 0), freed=names[:1],
    )  # fmt: skip


@given(SEEDS, KINDS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_data_of_a_snapshot(seed: int, kind: str, gangs: bool) -> None:
    snapshot = _snapshot(seed, kind, gangs=gangs)
    data = build(snapshot, None, version="1")
    check(data, snapshot, None)
    assert data["kind"] == "Snapshot"
    assert data["snapshot"]["pending"] == sum(state == 4 for state in data["pods"]["state"])


@given(SEEDS, KINDS, st.booleans())
@settings(max_examples=80, deadline=None)
def test_the_data_of_a_placement(seed: int, kind: str, scratch: bool) -> None:
    snapshot = _snapshot(seed, kind)
    result = placement(snapshot, seed, scratch=scratch)
    data = build(snapshot, result, version="1")
    check(data, snapshot, result)
    states = dict(zip(data["pods"]["name"], data["pods"]["state"], strict=True))
    before = {pod_key(p): p.spec.nodeName for p in snapshot.pods}
    for given_ in result.assignments:
        was = before[given_.pod]
        assert states[given_.pod] == (1 if was is None else 0 if was == given_.node else 2)
    assert all(states[left.pod] == 4 for left in result.unplaced)
    assert data["summary"]["tiers"][0]["of"] == len(result.assignments) + len(result.unplaced)


@given(SEEDS, KINDS)
@settings(max_examples=80, deadline=None)
def test_the_data_of_a_plan(seed: int, kind: str) -> None:
    snapshot = _snapshot(seed, kind)
    if not snapshot.pods:
        return
    result = plan(snapshot, seed)
    data = build(snapshot, result, version="1")
    check(data, snapshot, result)
    assert data["rulesBroken"] == {"before": {"NodeAffinity": 2}, "after": {}}
    assert data["nodes"]["flags"][0] & 4


@given(SEEDS, KINDS)
@settings(max_examples=20, deadline=None)
def test_equal_input_gives_equal_data(seed: int, kind: str) -> None:
    def once() -> str:
        snapshot = _snapshot(seed, kind)
        return json.dumps(build(snapshot, placement(snapshot, seed), version="1"))

    assert once() == once()


@given(SEEDS, KINDS)
@settings(max_examples=30, deadline=None)
def test_many_pods_are_shown_in_groups(seed: int, kind: str) -> None:
    snapshot = _snapshot(seed, kind)
    result = placement(snapshot, seed, scratch=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kubestow.report.page.pods.MAX_SINGLE_PODS", 0)
        data = build(snapshot, result, version="1")
    check(data, snapshot, result)
    assert set(data["named"]["name"]) >= {left.pod for left in result.unplaced}


def test_what_is_named_among_groups_is_bounded_and_moves_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.report.page.pods.MAX_SINGLE_PODS", 0)
    monkeypatch.setattr("kubestow.report.page.pods.MAX_NAMED_PODS", 2)
    pods = [pod(f"wait-{i}") for i in range(3)] + [pod("here", node_name="a")]
    snapshot = from_objects([node("a"), node("b"), *pods])
    moves = [Move(1, 1, "default/here", "a", "b", "repair")]
    result = RebalancePlan(_reference(snapshot, 3), ["repair"], "exact", "feasible", [], moves, [], Summary(0, 3), Summary(0, 3))
    data = build(snapshot, result, version="1")
    assert data["named"]["name"] == ["default/wait-0", "default/here"]
    assert data["waves"][0]["steps"][0]["pod"] == "default/here"


@pytest.mark.parametrize("field", ["pod", "node", "unplaced"])
def test_a_result_of_another_snapshot_is_an_input_error(field: str) -> None:
    snapshot = from_objects([node("a"), pod("p")])
    assigned = [Assignment("default/gone" if field == "pod" else "default/p", "gone" if field == "node" else "a", 1)]
    left = [Unplaced("default/gone", [])] if field == "unplaced" else []
    result = Placement(_reference(snapshot, 1), "exact", "optimal", [], assigned, left)
    with pytest.raises(InputError, match=r"gone' is not in the snapshot") as caught:
        build(snapshot, result, version="1")
    assert all("\n" not in problem for problem in caught.value.problems)


def test_a_plan_of_another_snapshot_is_an_input_error() -> None:
    snapshot = from_objects([node("a"), pod("p", node_name="a")])
    moves = [Move(1, 1, "default/p", "a", "x\n", "repair")]
    gone = [Eviction(2, 1, f"default/{i}", "a", "") for i in range(9)]
    result = RebalancePlan(_reference(snapshot, 0), ["repair"], "exact", "feasible", [], moves, gone, Summary(0, 0), Summary(0, 0))
    with pytest.raises(InputError) as caught:
        build(snapshot, result, version="1")
    assert caught.value.problems[0].startswith("result: moves[0].to: node 'x\\n' is not in the snapshot")
    assert caught.value.problems[-1] == "result: 7 more names that the snapshot lacks"


def test_a_malformed_request_is_an_input_error() -> None:
    snapshot = from_objects([node("a"), pod("p", cpu="many")], validate=False)
    with pytest.raises(InputError, match=r"Pod default/p: requests: 'many' is not a quantity"):
        build(snapshot, None, version="1")


def test_what_edits_and_manifests_add_is_told_apart() -> None:
    original = from_objects([node("a")])
    snapshot = from_objects([node("a"), node("b"), pod("new"), pod("left")])
    left = [Unplaced("default/left", [])]
    result = Placement(_reference(snapshot, 2), "exact", "optimal", [], [Assignment("default/new", "b", 1)], left)
    data = build(snapshot, result, original=original, version="1")
    assert (data["nodes"]["flags"], data["pods"]["state"]) == ([0, 8], [6, 4])
    assert build(snapshot, result, version="1")["pods"]["state"] == [1, 4]


def test_a_moved_pod_forgets_a_resize_in_place() -> None:
    resized = pod("p", cpu="1", node_name="a")
    resized["status"]["containerStatuses"] = [{"name": "c", "allocatedResources": {"cpu": "3", "memory": "128Mi"}, "resources": {}}]
    snapshot = from_objects([node("a"), node("b"), resized])
    moves = [Move(1, 1, "default/p", "a", "b", "repair")]
    result = RebalancePlan(_reference(snapshot, 0), ["repair"], "exact", "feasible", [], moves, [], Summary(0, 0), Summary(0, 0))
    usage = build(snapshot, result, version="1")["usage"]
    assert [view["cpu"] for view in usage] == [[3000, 0], [0, 1000]]


def test_pods_that_are_over_or_elsewhere_are_counted_not_shown() -> None:
    over = pod("over", node_name="a")
    over["status"]["phase"] = "Succeeded"
    gated = pod("gated", schedulingGates=[{"name": "g"}])
    data = build(from_objects([node("a"), over, pod("lost", node_name="z"), gated]), None, version="1")
    facts = {name: text for name, text, *_ in data["summary"]["facts"]}
    assert (facts["Pods that have ended"], facts["On nodes not in the snapshot"], facts["Gated"]) == ("1", "1", "1")
    assert (data["pods"]["name"], data["pods"]["place"], data["pods"]["state"]) == (
        ["default/lost", "default/gated"], [[-1, -1]], [0, 5],
    )  # fmt: skip


def test_texts_are_printable_and_of_bounded_length() -> None:
    reasons = [Reason("R" * 9_000, 1, "x\x00\u202e\n\ud800")]
    snapshot = from_objects([node("a"), pod("p")])
    result = Placement(_reference(snapshot, 1), "exact", "optimal", [], [], [Unplaced("default/p", reasons)], notes=["\u2028"])
    data = build(snapshot, result, version="1")
    reason = data["unplaced"][0]["reasons"][0]
    assert reason["message"] == "x\\x00\\u202e\\n\\ud800"
    assert len(reason["rule"]) == MAX_TEXT_CHARACTERS + 1
    assert "\\u2028" in data["summary"]["notes"]
