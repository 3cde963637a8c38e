"""The cost of moving a pod: its annotation, or else the highest cost by priority and age, or else 1."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.disruption.move_cost import costs
from kubestow.models.documents.policy import AgeCost, Moves, Policy, PriorityCost
from kubestow.models.snapshot.snapshot import InputError, from_objects
from tests.objects import node, pod

Object = dict[str, Any]
RANKS = (PriorityCost(0, 2), PriorityCost(100, 5), PriorityCost(1000, 4))
AGES = (AgeCost(24, 10), AgeCost(240, 30))


def _pod(name: str, *, cost: str | None = None, born: str | None = None, note: str = "kubestow.dev/move-cost", **more: Any) -> Object:
    made = pod(name, node_name="n", **more)
    if cost is not None:
        made["metadata"]["annotations"] = {note: cost}
    if born is not None:
        made["metadata"]["creationTimestamp"] = born
    return made


def _costs(*pods: Object, **moves: Any) -> list[int]:
    """Of every pod."""
    found = costs(from_objects([node("n"), *pods]), Policy(moves=Moves(**moves)), range(len(pods)))
    assert 1 not in [cost for i, cost in found.items() if "annotations" not in pods[i]["metadata"]]  # a cost of 1 is not written
    return [found.get(i, 1) for i in range(len(pods))]


def test_a_move_costs_one() -> None:
    assert _costs(_pod("p"), _pod("q", priority=1000)) == [1, 1]


def test_annotations() -> None:
    assert _costs(_pod("p", cost="7"), _pod("q", cost="1"), _pod("r", cost="1000000"), _pod("s", cost="007")) == [7, 1, 1_000_000, 7]
    named = [_pod("p", cost="7", note="kubestow.dev/dear"), _pod("q", cost="7")]
    assert _costs(*named, annotation="kubestow.dev/dear") == [7, 1]


def test_an_annotation_that_a_snapshot_does_not_keep_is_refused() -> None:
    deletion = "controller.kubernetes.io/pod-deletion-cost"
    assert _costs(_pod("p", cost="7", note=deletion), annotation=deletion) == [7]
    with pytest.raises(ValueError, match=r"begins with kubestow\.dev/"):
        Moves(annotation="example.com/dear")


@pytest.mark.parametrize(("priority", "cost"), [(-1, 1), (None, 2), (0, 2), (99, 2), (100, 5), (5000, 5)])
def test_the_highest_cost_of_all_priorities_reached(priority: int | None, cost: int) -> None:
    assert _costs(_pod("p", priority=priority), priorities=RANKS) == [cost]


def test_ages_are_measured_from_the_newest_pod() -> None:
    pods = [
        _pod("newest", born="2026-01-11T00:00:00Z"),
        _pod("almost", born="2026-01-10T00:00:01Z"),
        _pod("day", born="2026-01-10T00:00:00Z"),
        _pod("elsewhere", born="2026-01-10T01:00:00+01:00"),
        _pod("old", born="2026-01-01T00:00:00Z"),
        _pod("unknown"),
        _pod("odd", born="yesterday"),
    ]
    assert _costs(*pods, ages=AGES) == [1, 1, 10, 10, 30, 1, 1]


def test_the_newest_pod_counts_though_it_is_none_of_those_asked_for() -> None:
    objects = [node("n"), _pod("p", born="2026-01-01T00:00:00Z"), _pod("new", born="2026-02-01T00:00:00Z")]
    assert costs(from_objects(objects), Policy(moves=Moves(ages=AGES)), [0]) == {0: 30}


def test_the_higher_of_both_counts_and_an_annotation_before_them() -> None:
    pods = [
        _pod("p", priority=100, born="2026-01-01T00:00:00Z"),
        _pod("q", priority=100, born="2026-01-11T00:00:00Z"),
        _pod("r", priority=100, born="2026-01-01T00:00:00Z", cost="3"),
    ]
    assert _costs(*pods, priorities=RANKS, ages=AGES) == [30, 5, 3]


def test_all_annotations_that_are_no_cost_are_named() -> None:
    wrong = ["", "0", "-1", "1.5", "1000001", "many", "9" * 50, " 3", "٣", "1_000"]
    pods = [_pod(f"p{i}", cost=text) for i, text in enumerate(wrong)]
    with pytest.raises(InputError) as raised:
        _costs(*pods, _pod("fine", cost="3"))
    reported = str(raised.value)
    assert [f"default/p{i}:" in reported for i in range(len(wrong))] == [True] * len(wrong)
    assert "default/fine" not in reported
    assert "kubestow.dev/move-cost" in reported
    assert "9" * 50 not in reported


def test_pods_that_are_not_moved_are_not_read() -> None:
    assert costs(from_objects([node("n"), _pod("p", cost="many")]), Policy(), []) == {}
