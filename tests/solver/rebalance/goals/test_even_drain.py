"""Ties of a drain: of plans with equal values the one that preferences and balance like best, never a worse one."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Options
from tests.objects import node, pod
from tests.plans import tiny
from tests.solver.rebalance.problem.test_problem import running

Object = dict[str, Any]
HOST = "kubernetes.io/hostname"
OPTIONS = Options(deterministic=True, workers=1, time_limit=20.0)


def _targets(objects: list[Object], drain: tuple[str, ...] = ("n1",), **limits: Any) -> dict[str, str]:
    plan = rebalance(from_objects(objects), PlanOptions((), drain, Limits(**limits), OPTIONS))
    assert plan.status == "optimal"
    return {move.pod.partition("/")[2]: move.to or "" for move in plan.moves}


def _soft(key: str = HOST) -> dict[str, Any]:
    return {
        "spread": [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }


def _web(i: int, at: str, **spec: Any) -> Object:
    return pod(f"web-{i}", node_name=at, owner="ReplicaSet/web", labels={"app": "web"}, **{"cpu": "500m", **spec})


def test_a_drained_pod_goes_to_the_empty_node_and_not_beside_its_replica() -> None:
    nodes = [node(f"n{i}") for i in range(1, 5)]
    objects = [*nodes, *(_web(i, f"n{i}", **_soft()) for i in (1, 2, 3))]
    assert _targets(objects) == {"web-1": "n4"}


def test_stacked_replicas_are_spread_over_all_other_nodes() -> None:
    nodes = [node(f"n{i}", cpu="8") for i in range(1, 5)]
    objects = [*nodes, *(_web(i, "n1", **_soft()) for i in range(3))]
    assert sorted(_targets(objects).values()) == ["n2", "n3", "n4"]


def test_without_preferences_the_most_even_node_is_taken() -> None:
    nodes = [node(f"n{i}") for i in range(1, 4)]
    assert _targets([*nodes, running("p", "n1", cpu="1"), running("q", "n2", cpu="2")]) == {"p": "n3"}


def test_no_pod_more_stays_where_only_a_tight_packing_holds_all() -> None:
    """The even choice would put the small one where only the large one fits."""
    nodes = [node("n1", cpu="8"), node("n2", cpu="2"), node("n3", cpu="3")]
    objects = [*nodes, running("small", "n1", cpu="2"), running("large", "n1", cpu="3")]
    assert _targets(objects) == {"small": "n2", "large": "n3"}


def test_single_targets_are_changed_where_not_all_can_be() -> None:
    """The drained node's only large pod needs the one node that the even choice would fill, the small ones are spread all the same."""
    nodes = [node("n1", cpu="16"), node("n2", cpu="4"), node("n3", cpu="4"), node("n4", cpu="6")]
    pods = [running("large", "n1", cpu="6"), *(_web(i, "n1", cpu="1", **_soft()) for i in range(2))]
    found = _targets([*nodes, *pods])
    assert found["large"] == "n4"
    assert {found["web-0"], found["web-1"]} == {"n2", "n3"}


@pytest.mark.parametrize("seed", range(12))
def test_values_of_random_drains_stay_and_points_only_rise(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker judges each plan; the values are those without the choice."""
    objects = tiny.cluster(seed, ("spread", "anti", "mixed")[seed % 3])
    plan_options = PlanOptions((), (next(o["metadata"]["name"] for o in objects if o["kind"] == "Node"),), Limits(), OPTIONS)
    new = rebalance(from_objects(objects), plan_options)
    monkeypatch.setattr("kubestow.solver.rebalance.rebalance.even_drain", lambda values, steps, over: steps)
    old = rebalance(from_objects(objects), plan_options)
    assert [tier.value for tier in new.objective] == [tier.value for tier in old.objective]
    assert _worth(new) >= _worth(old)
    assert max((move.wave for move in new.moves), default=0) <= max((move.wave for move in old.moves), default=0)


def _worth(plan: Any) -> int:
    soft = sum(family.value * family.multiplier for family in plan.after.preferences or ())
    return int(10_000 * soft + (plan.after.balance or 0))
