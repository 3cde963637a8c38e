"""Drains of pods whose spread constraints honor taints: the cordon of a drain excludes the node from the domains."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.checker.plan.plan import summary, verify_plan
from kubestow.checker.plan.remaining_steps import rest_faults
from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.cordon import cordoned
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Options
from tests.checker.plan.plans import faults, move, plan, rules, running, tier
from tests.objects import node

Object = dict[str, Any]
HOST = "kubernetes.io/hostname"
CORDON = "node.kubernetes.io/unschedulable"


def _even(*, taints: str | None = "Honor", **more: Any) -> list[Object]:
    selector = {"matchLabels": {"app": "w"}}
    policy = {} if taints is None else {"nodeTaintsPolicy": taints}
    return [{"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **policy, **more}]


def _things(homes: str, spread: list[Object], *, cordon: bool = False, **spec: Any) -> list[Object]:
    """Nodes n1 to n3, and a pod of w for each digit of ``homes``."""
    nodes = [node(f"n{i}") for i in (1, 2, 3)]
    if cordon:
        nodes[0]["spec"] = {"unschedulable": True, "taints": [{"key": CORDON, "effect": "NoSchedule"}]}
    return [*nodes, *(running(f"w-{i}", f"n{home}", spread=spread, **spec) for i, home in enumerate(homes))]


def _drained(things: list[Object]) -> RebalancePlan:
    snapshot = from_objects(things)
    found = rebalance(snapshot, PlanOptions((), ("n1",), Limits(), Options(time_limit=20.0, workers=1)))
    assert verify_plan(snapshot, found) == []
    assert found.status == "optimal"
    return found


@pytest.mark.parametrize("cordon", [False, True])
def test_a_drained_node_is_no_domain_of_a_constraint_that_honors_taints(cordon: bool) -> None:
    found = _drained(_things("123", _even(), cordon=cordon))
    assert [(tier.tier, tier.value) for tier in found.objective] == [("drained", 0), ("moves", -1)]


@pytest.mark.parametrize("taints", ["Ignore", None])
def test_it_is_a_domain_of_any_other_constraint(taints: str | None) -> None:
    assert [(tier.tier, tier.value) for tier in _drained(_things("123", _even(taints=taints))).objective] == [("drained", -1), ("moves", 0)]


def test_it_is_a_domain_for_pods_that_tolerate_the_taint() -> None:
    things = _things("123", _even(), tolerations=[{"key": CORDON, "operator": "Exists"}])
    assert [tier.value for tier in _drained(things).objective] == [-1, 0]


@pytest.mark.parametrize("cordon", [False, True])
def test_too_few_domains_are_left_for_min_domains(cordon: bool) -> None:
    """With n1 cordoned there are two of three domains, so the minimum is 0, and no node takes a second pod."""
    found = _drained(_things("1123", _even(minDomains=3), cordon=cordon))
    assert [tier.value for tier in found.objective] == [-2, 0]
    assert found.moves == []


def test_the_checker_refuses_what_the_scheduler_would() -> None:
    things = _things("1123", _even(minDomains=3))
    snapshot, document = plan(things, ("drain",), (tier("drained", -1), tier("moves", -1)), move(1, 1, "w-0", "n1", "n2"), drain=("n1",))
    assert rules(snapshot, document) == {"PodTopologySpread"}
    fits = _things("123", _even())
    assert faults(*plan(fits, ("drain",), (tier("drained", 0), tier("moves", -1)), move(1, 1, "w-0", "n1", "n2"), drain=("n1",))) == []


def test_the_rest_of_a_plan_is_judged_with_the_cordon() -> None:
    """The verdict is the same with and without the cordon in the cluster."""
    for cordon in (False, True):
        snapshot, document = plan(
            _things("123", _even(), cordon=cordon), ("drain",), (tier("drained", 0), tier("moves", -1)), move(1, 1, "w-0", "n1", "n2"),
            drain=("n1",),
        )  # fmt: skip
        assert rest_faults(snapshot, document) == []
        assert bool(rest_faults(snapshot, document, cordon=False)) == (not cordon)


def test_before_describes_the_cluster_with_the_cordon() -> None:
    """Two pods on n2 and one on n1: without n1, n3 has the minimum, as before; with both n1 and n3 drained, n2 is alone."""
    snapshot, document = plan(_things("22", _even()), ("drain",), (), drain=("n1", "n3"))
    assert summary(snapshot, document)[0].rules == {}
    snapshot, document = plan(_things("22", _even()), ("drain",), (), drain=("n1",))
    assert summary(snapshot, document)[0].rules == {"PodTopologySpread": 2}


def test_a_cordon_is_added_once_and_keeps_other_taints() -> None:
    things = _things("1", [])
    things[0]["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}, {"key": CORDON, "effect": "NoSchedule"}]}
    snapshot = from_objects(things)
    found = cordoned(snapshot, ["n1"])
    spec = found.nodes[0].spec
    assert spec is not None
    assert spec.unschedulable
    assert [taint.key for taint in spec.taints or ()] == ["k", CORDON]
    assert snapshot.nodes[0].spec is not None
    assert not snapshot.nodes[0].spec.unschedulable
    assert (found.sha256, found.nodes[1:]) == (snapshot.sha256, snapshot.nodes[1:])
    assert cordoned(snapshot, ()) is snapshot
