"""The choice of nodes to be freed; bounds are tested in tests/solver/rebalance/tiers/test_bounds.py."""

from __future__ import annotations

import numpy as np

from kubestow.models.kube.selectors import Bools
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from tests.objects import node
from tests.solver.rebalance.problem.test_problem import budget, case_of, running


def _chosen(problem: RebalanceProblem) -> Bools:
    values = PlanObjective(problem, ["consolidate"])
    found = values.packing.chosen(values.node_value, (problem.cost * problem.movable) @ problem.start)
    assert found is not None
    return found


def test_nodes_of_little_room_are_freed_though_they_run_more_pods() -> None:
    small = [node(f"s{i}", cpu="2") for i in range(4)]
    pods = [running(f"s{i}-{j}", f"s{i}", cpu="500m") for i in range(4) for j in range(3)]
    problem = case_of([*small, node("large", cpu="16"), *pods, running("one", "large", cpu="8")], ["consolidate"])
    assert _chosen(problem).tolist() == [True, True, True, True, False]


def test_pods_of_a_tight_budget_stay_where_others_may_go() -> None:
    """Any four of the eight nodes can be freed by a move each; four hold pods that leave one after the other."""
    nodes = [node(f"n{i}", cpu="2100m") for i in range(8)]
    web = [running(f"web-{i}", f"n{i}", cpu="1", labels={"app": "web"}) for i in range(4)]
    others = [running(f"other-{i}", f"n{i}", cpu="1", labels={"app": "other"}) for i in range(4, 8)]
    problem = case_of([*nodes, *web, *others, budget("web", "web", minAvailable=3)], ["consolidate"])
    assert np.flatnonzero(_chosen(problem)).tolist() == [4, 5, 6, 7]
