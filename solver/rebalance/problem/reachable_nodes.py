"""Upper bounds on the pods of each class that steps can bring to each node, wherever the other pods go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rules import plan_face
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.eligibility import possible


def reach(problem: RebalanceProblem, rules: Sequence[Rule]) -> Ints:
    """Return the most pods of each class that a node can hold after a step brought one of the class, int64[G, N].

    0 means that no step can ever bring a pod of the class to the node.

    Args:
        rules: All rules, in the state of the fixed pods.
    """
    adapted = [plan_face(rule).while_running(problem) for rule in rules if not rule.arrivals_only]
    room = possible(problem.cluster, adapted)
    for rule in rules:
        if rule.arrivals_only:
            for g in range(problem.cluster.n_classes):
                room[g] = np.where(rule.never(g), 0, room[g])
    room[:, problem.closed] = 0
    room[~(problem.movable | problem.pending)] = 0
    return room
