"""The checker's own reading of forgiven rules, compared with the planner's, and plans that lie about it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kubestow.checker.plan.execution_grace import forgiven
from kubestow.checker.plan.plan import verify_plan
from kubestow.models.documents.rebalance_plan import ForgivenRule, RebalancePlan
from kubestow.models.execution.execution_grace import History
from kubestow.models.kube.objects import pod_key
from kubestow.solver.rebalance.problem.forgiveness import forgive
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Options
from tests.histories import random_history, snapshot
from tests.objects import node, pod
from tests.solver.rebalance.problem.test_problem import HOST, near

FEW, MANY = 15, 300


def agree(seeds: range) -> int:
    """Assert that planner and checker forgive the same rules; return their number."""
    total = 0
    for seed in seeds:
        now, earlier, grace = random_history(seed)
        found = forgive(now, History(grace, tuple(earlier))).rules
        mine = {(pod_key(now.pods[i]), field, k) for i, (field, k) in found}
        assert {tuple(each) for each in forgiven(now, earlier, grace, ())} == mine, seed
        total += len(mine)
    return total


def test_planner_and_checker_forgive_the_same_rules_of_a_few() -> None:
    assert agree(range(FEW)) > 0


@pytest.mark.full
def test_planner_and_checker_forgive_the_same_rules() -> None:
    assert agree(range(FEW, MANY)) > 30


def plans(seeds: range) -> int:
    """Assert that plans with a history hold; return the number of plans that forgive something."""
    total = 0
    for seed in seeds:
        now, earlier, grace = random_history(seed)
        options = Options(engine="exact" if seed % 2 else "greedy", workers=1, time_limit=5)
        plan = rebalance(now, PlanOptions(("repair",), options=options, history=History(grace, tuple(earlier))))
        assert plan.executionGrace is not None
        assert verify_plan(now, plan, claims=True, earlier=earlier) == [], seed
        gone = {move.pod for move in plan.moves} | {eviction.pod for eviction in plan.evictions}
        total += any(each.pod not in gone for each in plan.executionGrace.forgiven)
    return total


def test_plans_that_forgive_hold_of_a_few() -> None:
    plans(range(3))


@pytest.mark.full
def test_plans_that_forgive_hold() -> None:
    assert plans(range(8, 120)) > 10


def _forget(plan: RebalancePlan) -> None:
    assert plan.executionGrace is not None
    plan.executionGrace.forgiven.clear()


def _invent(plan: RebalancePlan) -> None:
    assert plan.executionGrace is not None
    plan.executionGrace.forgiven.append(ForgivenRule("default/b", "InterPodAffinity"))


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (_forget, "the plan does not forgive that the pod breaks InterPodAffinity: the earlier snapshots say otherwise"),
        (_invent, "the plan forgives that the pod breaks InterPodAffinity, and it does not break it"),
    ],
)
def test_a_plan_that_lies_about_what_is_forgiven_is_found_out(lie: Callable[[RebalancePlan], None], why: str) -> None:
    alone = [node("n0"), node("n1"), pod("a", node_name="n0", owner="ReplicaSet/a", affinity=near("b", HOST, "Required"))]
    beside = pod("b", node_name="n1", labels={"app": "b"})
    now, before = snapshot([*alone, beside]), snapshot([*alone, beside, pod("c", node_name="n0", labels={"app": "b"})], 10)
    plan = rebalance(now, PlanOptions(("repair",), history=History(300, (before,))))
    assert (plan.moves, [tier.value for tier in plan.objective if tier.tier == "rules"]) == ([], [0])
    assert verify_plan(now, plan, claims=True, earlier=[before]) == []
    copy = msgspec.json.decode(msgspec.json.encode(plan), type=RebalancePlan)
    lie(copy)
    assert why in [fault.why for fault in verify_plan(now, copy, claims=True, earlier=[before])]
    (fault,) = verify_plan(now, plan, earlier=[])
    assert fault.why == "the plan is made with 1 earlier snapshots, and not with these"
