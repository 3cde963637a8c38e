"""Pods that hold less than they ask for, as a resize waits, would be accepted again beside all that comes to their nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from solver.rebalance.problem.problem import Step
from solver.rebalance.sequencing.sequence import order
from solver.rebalance.waves.schedule import waves
from solver.runtime.options import Options
from solver.runtime.run_context import RunContext
from tests.objects import node
from tests.solver.rebalance.problem.test_problem import case_of, class_of, running

Object = dict[str, Any]


def resized(name: str, where: str) -> Object:
    """Asks for 3 CPUs and holds half a CPU."""
    found = running(name, where, cpu="3")
    found["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    found["status"]["containerStatuses"] = [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "128Mi"}}}]
    return found


def test_like_pods_do_not_arrive_together_where_only_one_of_them_may() -> None:
    problem = case_of([node("n0", cpu="7"), node("n1", cpu="7"), *(resized(f"p{i}", f"n{i // 2}") for i in range(4))], ["consolidate"])
    assert problem.start.tolist() == [[2, 2]]
    for arrive, accepted in ((1, True), (2, False)):
        counts = problem.start + np.array([[arrive, -arrive]], dtype=np.int64)
        found = order(problem, counts, RunContext.start(Options(deterministic=True)), seconds=20)
        assert (found.steps is not None) == accepted


def test_a_wave_brings_no_pod_for_which_another_one_has_to_leave_first() -> None:
    """Beside the 3 CPUs that the resized pod asks for there is room for two of the others, which held half a CPU leaves for three."""
    nodes = [node("n0", cpu="7"), node("n1", cpu="9")]
    others = [running("leaves", "n0", cpu="2", labels={"app": "leaves"}), *(running(f"p{i}", "n1", cpu="2") for i in range(2))]
    problem = case_of([*nodes, resized("waits", "n0"), *others], ["consolidate"])
    leaves, come = class_of(problem, "leaves"), class_of(problem, "p0")
    steps = [Step(come, 1, 0), Step(leaves, 0, 1), Step(come, 1, 0)]
    assert waves(problem, steps) == [steps[:2], steps[2:]]
