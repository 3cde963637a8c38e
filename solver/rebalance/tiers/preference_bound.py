"""What the preferences of running pods can reach at most: the bound of a solve in which all pods that may move are placed anew.

A plan leads to no end state that a solve could not place under fewer rules: where nothing is broken at the start nothing is in the end.
Left out are the rules of which a running pod needs less than one that is bound: required affinity (whom it came to is gone), gangs, claims,
devices and zones.
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
    """Return the groups of classes that bound the preferences, their bounds known without any search; None where pods break rules, or
    where some hold less than they ask for. ``room``: as of :func:`kubestow.solver.rebalance.problem.reachable_nodes.reach`."""
    if (problem.extra < 0).any() or PlanState(problem).broken():
        return None
    could = np.maximum(room, problem.start)
    left = problem.cluster.per_priority(np.where(problem.pending | problem.evictable, problem.cluster.count, 0))
    moves = MoveCosts(problem.start, problem.movable * problem.limits.minGain)
    return Components(_loosened(problem.cluster), preferences, could, left, moves)


def _loosened(cluster: Cluster) -> Cluster:
    """The cluster without the rules that are left out."""
    classes = [
        replace(cls, affinity=None, gang=None, claims=(), devices=None, containers=None) for cls in cluster.classes
    ]  # fmt: skip
    return replace(cluster, classes=classes, gangs=[], devices=None, trees={}, _by_profile=None)
