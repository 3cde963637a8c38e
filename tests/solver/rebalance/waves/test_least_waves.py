"""Waves that PodDisruptionBudgets ask for; tests/solver/rebalance/waves/test_schedule.py compares them with those of plans."""

from __future__ import annotations

from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.waves.least_waves import LeastWaves, least_waves
from tests.objects import node
from tests.solver.rebalance.problem.test_problem import budget, case_of, running


def test_each_wave_takes_what_the_budget_allows() -> None:
    web = [running(f"web-{i}", "n0", labels={"app": "web"}) for i in range(5)]
    problem = case_of([node("n0"), node("n1"), *web, budget("web", "web", minAvailable=3)], ["consolidate"])
    assert least_waves(problem, [Step(0, 0, 1, 5)]) == LeastWaves(3, 0, 5)
    assert least_waves(problem, [Step(0, 0, 1), Step(0, 0, 1)]) == LeastWaves(1, 0, 2)


def test_pods_without_a_budget_ask_for_nothing() -> None:
    problem = case_of([node("n0"), node("n1"), running("web", "n0")], ["consolidate"])
    assert least_waves(problem, [Step(0, 0, 1)]) is None
