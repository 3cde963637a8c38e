"""Pods with waiting resizes hold less than they request, and stay acceptable next to all arriving pods."""

from __future__ import annotations

from typing import Any

import numpy as np

from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.bind_order.gang_units import Binder
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.rebalance.sequencing.sequence import order
from kubestow.solver.rebalance.waves.schedule import waves
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from tests.objects import node, pod
from tests.solver.rebalance.problem.test_problem import case_of, class_of, gang, near, running

Object = dict[str, Any]


def resized(name: str, where: str) -> Object:
    """Asks for 3 CPUs and holds half a CPU."""
    found = running(name, where, cpu="3")
    found["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    found["status"]["containerStatuses"] = [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "128Mi"}}}]
    return found


def plan_of(objects: list[Object], *goals: str) -> RebalancePlan:
    return rebalance(from_objects(objects), PlanOptions(goals, options=Options(deterministic=True, workers=1)))


def test_no_room_is_taken_that_a_pod_waits_for_which_may_not_move() -> None:
    """A bare pod requests 3 of 4 CPUs and holds half a CPU: arriving pods leave the other 2.5 free."""
    bare = resized("waits", "n0")
    del bare["metadata"]["ownerReferences"]
    for cpu, bound in (("1", 1), ("1500m", 0)):
        found = plan_of([node("n0"), node("full", cpu="1"), bare, running("p", "full", cpu="1"), pod("comes", cpu=cpu)], "admit")
        assert (found.status, [move.to for move in found.moves]) == ("optimal", ["n0"] * bound)


def test_what_a_fixed_pod_waits_for_and_could_not_get_anyway_is_free() -> None:
    bare = resized("waits", "n0")
    del bare["metadata"]["ownerReferences"]
    others = [running("beside", "n0", cpu="1500m"), pod("comes", cpu="2")]
    assert [move.to for move in plan_of([node("n0"), bare, *others], "admit").moves] == ["n0"]


def test_members_of_a_gang_that_come_at_once_leave_what_a_pod_waits_for() -> None:
    """Neither is accepted without the other: each has to be near it."""
    members = [pod(f"m{i}", cpu="500m", labels={"app": f"m{i}"}, affinity=near(f"m{1 - i}")) for i in range(2)]
    for cpu, bound in (("4", True), ("3900m", False)):
        problem = case_of([node("n0", cpu=cpu), resized("waits", "n0"), *gang("g", *members)], ["admit"])
        state = PlanState(problem)
        part = [(class_of(problem, f"m{i}"), 0, 1) for i in range(2)]
        assert (state.bind_unit(Binder(problem.cluster, state.rules), part) is not None) == bound


def test_a_pod_that_moved_breaks_nothing_where_it_has_what_it_asks_for() -> None:
    """It fills its new node, next to which one that still waits would be refused."""
    problem = case_of([node("n0", cpu="3"), node("n1", cpu="3"), resized("p", "n0"), running("q", "n0", cpu="1")], ["repair"])
    state, p = PlanState(problem), class_of(problem, "p")
    assert state.broken() == {"NodeResourcesFit": 1}
    state.apply(Step(p, 0, 1))
    assert state.broken() == {}


def test_a_resize_is_given_room_by_another_pod_that_goes() -> None:
    """The pod that waits has nowhere to go, and breaks nothing once the other one has gone."""
    label = {"disk": "ssd"}
    waits = resized("waits", "n0")
    waits["spec"]["nodeSelector"] = label
    found = plan_of([node("n0", cpu="4", labels=label), node("n1", cpu="2"), waits, running("goes", "n0", cpu="2")], "repair")
    assert [(tier.tier, tier.value, tier.bound) for tier in found.objective] == [("rules", 0, 0), ("moves", -1, -1)]


def test_a_node_is_relieved_of_a_pod_that_holds_more_than_it_asks_for() -> None:
    """By their requests, both fit; by the resources they hold, the other one would be refused. Only the other one must stay."""
    greedy = running("greedy", "n0", cpu="1")
    greedy["status"]["containerStatuses"] = [{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "128Mi"}}}]
    other = running("other", "n0", cpu="2", node_selector={"disk": "ssd"})
    found = plan_of([node("n0", cpu="4", labels={"disk": "ssd"}), node("n1", cpu="2"), greedy, other], "repair")
    assert [(tier.tier, tier.value) for tier in found.objective] == [("rules", 0), ("moves", -1)]


def test_like_pods_do_not_arrive_together_where_only_one_of_them_may() -> None:
    problem = case_of([node("n0", cpu="7"), node("n1", cpu="7"), *(resized(f"p{i}", f"n{i // 2}") for i in range(4))], ["consolidate"])
    assert problem.start.tolist() == [[2, 2]]
    for arrive, accepted in ((1, True), (2, False)):
        counts = problem.start + np.array([[arrive, -arrive]], dtype=np.int64)
        found = order(problem, counts, RunContext.start(Options(deterministic=True)), seconds=20)
        assert (found.steps is not None) == accepted


def test_a_wave_brings_no_pod_for_which_another_one_has_to_leave_first() -> None:
    """Next to the 3 CPUs that the resized pod requests, two other pods fit; next to the half CPU it holds, three."""
    nodes = [node("n0", cpu="7"), node("n1", cpu="9")]
    others = [running("leaves", "n0", cpu="2", labels={"app": "leaves"}), *(running(f"p{i}", "n1", cpu="2") for i in range(2))]
    problem = case_of([*nodes, resized("waits", "n0"), *others], ["consolidate"])
    leaves, come = class_of(problem, "leaves"), class_of(problem, "p0")
    steps = [Step(come, 1, 0), Step(leaves, 0, 1), Step(come, 1, 0)]
    assert waves(problem, steps) == [steps[:2], steps[2:]]
