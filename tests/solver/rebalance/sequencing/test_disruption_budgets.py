"""Steps in an order in which every eviction and move finds its budget allowing one."""

from __future__ import annotations

from typing import Any

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.sequencing.disruption_budgets import respect_budgets
from tests.objects import node
from tests.solver.rebalance.problem.test_problem import apart, budget, case_of, running

Object = dict[str, Any]


def _case(allowed: int, pods: int, *nodes: Object, **more: Any) -> RebalanceProblem:
    """Pods on n0 of which ``allowed`` may be missing."""
    web = [running(f"p{i}", "n0", labels={"app": "web"}, **more) for i in range(pods)]
    problem = case_of([*nodes, budget("guard", "web", minAvailable=pods - allowed), *web], [], ["n0"], Limits(allowEviction=True))
    assert problem.budgets[0].allowed == allowed
    assert len(problem.cluster.classes) == 1
    return problem


GO, MOVE = Step(0, 0, -1), Step(0, 0, 1)


def test_steps_that_respect_their_budgets_stay_as_they_are() -> None:
    problem = _case(2, 4, node("n0"), node("n1"))
    for steps in ([], [MOVE, MOVE, GO, GO], [GO, MOVE, GO], [Step(0, 0, 1, 3)]):
        assert respect_budgets(problem, steps) == steps


def test_moves_come_before_evictions_that_use_their_budget_up() -> None:
    problem = _case(2, 4, node("n0"), node("n1"))
    assert respect_budgets(problem, [GO, GO, MOVE, MOVE]) == [MOVE, MOVE, GO, GO]


def test_more_evictions_than_allowed_have_no_order() -> None:
    problem = _case(1, 4, node("n0"), node("n1"))
    assert respect_budgets(problem, [GO, GO]) is None
    assert respect_budgets(problem, [Step(0, 0, -1, 2)]) is None


def test_a_changed_order_has_to_be_accepted() -> None:
    """The pod that moves needs the place of one that goes: they keep apart by the zone."""
    apart_in_zone = apart("web", "zone")
    nodes = [node("n0", labels={"zone": "z"}), node("n1", labels={"zone": "z"}), node("n2", labels={"zone": "y"})]
    problem = _case(1, 2, *nodes, affinity=apart_in_zone)
    assert respect_budgets(problem, [GO, Step(0, 0, 1)]) is None
    assert respect_budgets(problem, [GO, Step(0, 0, 2)]) == [Step(0, 0, 2), GO]


def test_pods_without_a_budget_and_those_that_wait_do_not_count() -> None:
    problem = case_of([node("n0"), node("n1"), running("p", "n0")], [], ["n0"], Limits(allowEviction=True))
    assert respect_budgets(problem, [GO, MOVE]) == [GO, MOVE]
