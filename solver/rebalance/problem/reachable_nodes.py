"""Upper bounds on the pods of each class that steps can bring to each node, wherever the other pods go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit


def reach(problem: RebalanceProblem, rules: Sequence[Rule]) -> Ints:
    """Return the most pods of each class that a node can hold after a step brought one of the class, int64[G, N].

    0 means that no step can ever bring a pod of the class to the node.

    Args:
        rules: All rules, in the state of the fixed pods.
    """
    adapted = [_with_running(rule, problem) for rule in rules if not rule.arrivals_only]
    room = possible(problem.cluster, adapted)
    for rule in rules:
        if rule.arrivals_only:
            for g in range(problem.cluster.n_classes):
                room[g] = np.where(rule.never(g), 0, room[g])
    room[:, problem.closed] = 0
    room[~(problem.movable | problem.pending)] = 0
    return room


def _with_running(rule: Rule, problem: RebalanceProblem) -> Rule:
    if isinstance(rule, InterPodAffinity):
        return _WithRunning(problem)
    return _WithResized(problem) if isinstance(rule, NodeResourcesFit) else rule


class _WithResized(NodeResourcesFit):
    """NodeResourcesFit with the capacity next to pods whose resize waits.

    Pods that hold less than they request leave more capacity; reserves for pods outside all classes leave less.
    """

    def __init__(self, problem: RebalanceProblem) -> None:
        super().__init__(problem.cluster)
        self.free = problem.room.copy()


class _WithRunning(InterPodAffinity):
    """InterPodAffinity in which running pods may be on nodes that their class could not reach.

    Other pods of the class can be near these running pods.
    """

    def __init__(self, problem: RebalanceProblem) -> None:
        self._running: Bools = np.asarray(problem.start.any(axis=1))
        super().__init__(problem.cluster)

    def _unreachable(self, g: int) -> Bools:
        affinity = self.cluster.classes[g].affinity
        if affinity is None or not self._running[g]:
            return super()._unreachable(g)
        return ~self.cluster.nodes.with_keys(affinity.keys)
