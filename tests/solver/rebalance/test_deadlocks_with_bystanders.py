"""Deadlocks next to pods that have no part in them: refuted once, and stopovers counted, however many bystanders there are."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.checker.plan.plan import verify_plan
from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance import exact
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.rebalance.sequencing import sequence
from kubestow.solver.rebalance.sequencing.sequence import OrderResult
from kubestow.solver.runtime.options import Options
from tests.objects import node, pod

Object = dict[str, Any]
PLACE = "example.com/place"


def _pod(name: str, at: str, cpu: str, *places: str) -> Object:
    """A running pod that belongs on some nodes, on any if none are named."""
    found = pod(name, node_name=at, cpu=cpu, owner="ReplicaSet/web", labels={"app": name})
    if places:
        expression = {"key": PLACE, "operator": "In", "values": list(places)}
        wanted = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        found["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}
    return found


def _node(name: str, cpu: str = "4") -> Object:
    return node(name, cpu=cpu, labels={PLACE: name})


def _circles(count: int, bystanders: int, *, spare: bool = False) -> list[Object]:
    """Pairs of pods that belong on each other's node. ``spare``: a node for stopovers, which another pod has to get in the end."""
    found = [_node("third", "16")]
    for i in range(count):
        found += [_node(f"l{i}"), _node(f"r{i}")]
        found += [_pod(f"p{i}", f"l{i}", "3", f"r{i}"), _pod(f"q{i}", f"r{i}", "3", f"l{i}", *(["spare"] if spare else []))]
    if spare:
        found += [_node("spare"), _pod("r", "third", "3", "spare")]
    return [*found, *(_pod(f"s{i}", "third", f"{100 + i}m") for i in range(bystanders))]


class _Count:
    """Counts end states for which the exact engine asks for an order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, order = 0, sequence.order

        def counted(*arguments: Any, **options: Any) -> OrderResult:
            self.calls += 1
            return order(*arguments, **options)

        monkeypatch.setattr(exact, "order", counted)


def _plan(things: list[Object], limits: Limits | None = None) -> RebalancePlan:
    snapshot = from_objects(things)
    found = rebalance(snapshot, PlanOptions(("repair",), (), limits or Limits(), Options(time_limit=60.0, workers=1)))
    assert verify_plan(snapshot, found) == []
    assert found.status == "optimal"
    return found


def _values(found: RebalancePlan) -> list[int]:
    return [tier.value for tier in found.objective]


@pytest.mark.parametrize("bystanders", [0, 5, 50])
def test_a_circle_is_refuted_by_one_end_state(bystanders: int, monkeypatch: pytest.MonkeyPatch) -> None:
    count = _Count(monkeypatch)
    found = _plan(_circles(1, bystanders))
    assert _values(found) == [-2, 0]
    assert count.calls == 1
    assert any("wait for each other" in obstacle.message for obstacle in found.obstacles)


def test_each_circle_is_refuted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count = _Count(monkeypatch)
    assert _values(_plan(_circles(3, 20))) == [-6, 0]
    assert count.calls <= 4


def test_bystanders_in_the_same_spread_constraint_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    count, things = _Count(monkeypatch), _circles(1, 20)
    for thing in things:
        if thing["kind"] == "Pod":
            thing["metadata"]["labels"] = {"app": "w"}
            selector = {"matchLabels": {"app": "w"}}
            constraint = {"maxSkew": 50, "topologyKey": PLACE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
            thing["spec"]["topologySpreadConstraints"] = [constraint]
    assert _values(_plan(things)) == [-2, 0]
    assert count.calls == 1


def test_bystanders_that_fill_the_spare_node_are_counted_in_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """p could stop over on the third node if the pods there had another place: 3.5 CPUs do not fit into the rest."""
    things = [_node("left"), _node("right"), _node("third")]
    things += [_pod("p", "left", "3", "right", "third"), _pod("q", "right", "3", "left", "third")]
    things += [_pod(f"s{i}", "third", f"{300 + 10 * i}m") for i in range(10)]
    count = _Count(monkeypatch)
    assert _values(_plan(things)) == [-2, 0]
    assert count.calls <= 3


@pytest.mark.full
@pytest.mark.parametrize(("circles", "moves"), [(1, 4), (2, 7)])
def test_stopovers_of_circles_are_counted_in_the_bound(circles: int, moves: int, monkeypatch: pytest.MonkeyPatch) -> None:
    count = _Count(monkeypatch)
    assert _values(_plan(_circles(circles, 30, spare=True))) == [0, -moves]
    assert count.calls <= 3


@pytest.mark.full
def test_the_limit_of_moves_counts_stopovers(monkeypatch: pytest.MonkeyPatch) -> None:
    count = _Count(monkeypatch)
    assert _values(_plan(_circles(1, 30, spare=True), Limits(maxMoves=3))) == [-1, -2]
    assert count.calls <= 4
