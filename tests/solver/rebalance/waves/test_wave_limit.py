"""Plans within a wave limit: late steps are dropped, and with them the steps that are useless without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.rebalance.waves.schedule import waves
from kubestow.solver.rebalance.waves.wave_limit import fits, within_waves
from tests.objects import node, pod
from tests.solver.rebalance.goals.test_move_builder import accepted
from tests.solver.rebalance.problem.test_problem import budget, case_of, class_of, gang, near, running, step_names

Object = dict[str, Any]
Named = tuple[str, int, int]


def _kept(
    objects: Sequence[Object], goals: Sequence[str], most: int | None, *steps: Named, drain: Sequence[str] = (), unit: bool = False
) -> list[Any]:
    """Return the kept steps as text, given by names of pods and numbers of nodes."""
    problem = case_of(objects, goals, drain, Limits(maxWaves=most))
    used = _steps(problem, steps)
    found = within_waves(PlanObjective(problem, goals), used)
    assert most is None or len(waves(problem, found)) <= most
    assert fits(problem, found)
    assert (found is used) == fits(problem, used)
    assert unit or accepted(problem, found)
    return step_names(problem, found)


def _steps(problem: RebalanceProblem, steps: Sequence[Named]) -> list[Step]:
    return [Step(class_of(problem, name), a, b) for name, a, b in steps]


def _chain() -> list[Object]:
    """q fits on n0 only once p is gone; r, which runs next to q, fits anywhere."""
    nodes = [node("n0", cpu="2"), node("n1", cpu="4"), node("n2", cpu="2")]
    return [*nodes, running("p", "n0", cpu="1500m"), running("q", "n1", cpu="1"), running("r", "n1", cpu="100m")]


CHAIN: tuple[Named, ...] = (("p", 0, 2), ("r", 1, 2), ("q", 1, 0))


def test_steps_that_fit_stay_as_they_are() -> None:
    for limit in (None, 2, 9):
        assert _kept(_chain(), [], limit, *CHAIN, drain=["n1"]) == [("p", "n0", "n2"), ("r", "n1", "n2"), ("q", "n1", "n0")]
    assert _kept(_chain(), [], 0, *CHAIN, drain=["n1"]) == []


def test_a_drain_keeps_what_leaves_in_time() -> None:
    assert _kept(_chain(), [], 1, *CHAIN, drain=["n1"]) == [("p", "n0", "n2"), ("r", "n1", "n2")]


def test_a_node_is_freed_whole_or_its_pods_stay() -> None:
    assert _kept(_chain(), ["consolidate"], 1, *CHAIN) == [("p", "n0", "n2")]


def test_who_needs_a_step_that_is_gone_stays_as_well() -> None:
    """In two waves n2 is not freed, so b, which needs a pod from there nearby, cannot come."""
    objects = [node("n0"), node("n1"), node("n2"), node("n3")]
    objects += [running(f"web-{i}", "n2", labels={"app": "web"}) for i in range(3)]
    objects += [running("lone", "n3", labels={"app": "lone"}, affinity=near("web")), budget("web", "web", minAvailable=2)]
    moves: tuple[Named, ...] = ("web-0", 2, 1), ("web-1", 2, 1), ("web-2", 2, 1), ("lone", 3, 1)
    assert len(_kept(objects, ["consolidate"], 4, *moves)) == 4
    assert _kept(objects, ["consolidate"], 2, *moves) == []


def test_a_gang_is_bound_whole_or_not_at_all() -> None:
    members = gang("pair", pod("g0", cpu="1"), pod("g1", cpu="1"))
    objects = [node("n0", cpu="1"), node("n1", cpu="1"), node("n2", cpu="1"), running("p", "n1", cpu="500m"), *members]
    moves = ("p", 1, 2), ("g0", -1, 0), ("g1", -1, 1)
    assert _kept(objects, ["admit"], 1, *moves) == [("p", "n1", "n2")]
    assert len(_kept(objects, ["admit"], 2, *moves)) == 3


def test_a_unit_of_a_gang_is_kept_as_one() -> None:
    a, b = (pod(name, labels={"app": name}, affinity=near(other)) for name, other in (("a", "b"), ("b", "a")))
    objects = [node("n0"), node("n1"), *gang("pair", a, b), running("p", "n0"), running("q", "n1", cpu="3900m"), node("n2")]
    unit: tuple[Named, ...] = ("a", -1, 0), ("b", -1, 0)
    assert len(_kept(objects, ["admit"], 1, *unit, unit=True)) == 2
    assert len(_kept(objects, ["admit"], 1, *unit, ("p", 0, 2), unit=True)) == 2  # a wave of its own
