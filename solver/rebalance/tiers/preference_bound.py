"""An upper bound on the preferences of running pods: the bound of a solve that places all movable pods again.

If no rule is broken at the start, none is at the end. So a solve under fewer rules can place every end state of
a plan. The solve leaves out rules that are weaker for a running pod than for a newly bound one: required
affinity (its provider may be gone), gangs, claims, devices and zones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.bounds.move_costs import MoveCosts
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.problem.state import PlanState


def components_of(problem: RebalanceProblem, preferences: Objective, room: Ints) -> Components | None:
    """Return the groups of classes that bound the preferences, with the bounds known without a search.

    None if pods break rules, or hold less than they request.

    Args:
        room: See :func:`kubestow.solver.rebalance.problem.reachable_nodes.reach`.
    """
    if (problem.extra < 0).any() or PlanState(problem).broken():
        return None
    could = np.maximum(room, problem.start)
    unplaced = problem.cluster.per_priority(np.where(problem.pending | problem.evictable, problem.cluster.count, 0))
    moves = MoveCosts(problem.start, problem.movable * problem.limits.minGain)
    return Components(_loosened(problem.cluster), preferences, could, unplaced, moves)


def _loosened(cluster: Cluster) -> Cluster:
    """Return the cluster without the rules that the bound leaves out."""
    classes = [
        replace(cls, affinity=None, gang=None, claims=(), devices=None, containers=None) for cls in cluster.classes
    ]  # fmt: skip
    return replace(cluster, classes=classes, gangs=[], devices=None, trees={}, _by_profile=None)
