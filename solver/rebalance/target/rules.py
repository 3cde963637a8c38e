"""The rules in the model of a plan's end state: arriving pods obey them, staying pods may go on breaking them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.target.model import TargetModel
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.end_states import EndStates


def broken_at_start(problem: RebalanceProblem) -> dict[str, dict[int, Bools]]:
    """Return per rule and class the nodes where its pods break the rule at the start, bool[N]."""
    found: dict[str, dict[int, Bools]] = {}
    state = PlanState(problem)
    for g in np.flatnonzero(problem.subjects).tolist():
        nodes = np.flatnonzero(problem.start[g])
        for name, mask in state.breaks(g, nodes).items():
            where = np.zeros(problem.cluster.n_nodes, dtype=bool)
            where[nodes[mask]] = True
            found.setdefault(name, {})[g] = where
    return found


class TargetRules(EndStates):
    """Adds the rules to a model.

    Args:
        active: The rules, in the state of the fixed pods.
        start: Result of :func:`broken_at_start`, if known.
    """

    model: TargetModel

    def __init__(self, model: TargetModel, active: Sequence[Rule], start: dict[str, dict[int, Bools]] | None = None) -> None:
        super().__init__(model, broken_at_start(model.problem) if start is None else start)
        for rule in active:
            rules.plan_face(rule).encode_end(self)
