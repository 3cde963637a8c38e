"""NodeResourcesFit in plans."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit
from kubestow.solver.rules.plan_state import PlanProblem, PlanStep
from kubestow.solver.rules.plans import IndependentFace
from kubestow.solver.rules.waves import SymmetricGuard

if TYPE_CHECKING:
    from kubestow.solver.rules.end_states import EndStates


class _CapacityOfWave(SymmetricGuard[NodeResourcesFit]):
    def accepts(self, step: PlanStep, reserved: Sequence[int]) -> bool:
        demand = self.cluster.demand
        asks = demand[step.g] > 0
        free = self.rule.free[step.b] - (demand[list(reserved)].sum(axis=0) if reserved else 0)
        return int(self.rule.slots[step.b]) - len(reserved) >= 1 and not (free[asks] < demand[step.g, asks]).any()


class _WithResized(NodeResourcesFit):
    """NodeResourcesFit with the capacity next to pods whose resize waits.

    Pods that hold less than they request leave more capacity; reserves for pods outside all classes leave less.
    """

    def __init__(self, problem: PlanProblem) -> None:
        super().__init__(problem.cluster)
        self.free = problem.room.copy()


class CapacityInPlans(IndependentFace[NodeResourcesFit]):
    """Capacity is only used up by accepted steps."""

    guard = _CapacityOfWave
    monotone = True
    never_is_final = False

    def while_running(self, problem: PlanProblem) -> Rule:
        return _WithResized(problem)

    def encode_end(self, states: EndStates) -> None:
        """Add the literals of overcommitted nodes. The model itself limits what they hold."""
        model, problem, name = states.model, states.problem, self.rule.name
        for g, n in states.cells(name):
            states.broken[g, n, name] = model.fits_on(n, g)
            if problem.extra[g].any():  # arriving pods hold exactly their requests
                states.never_arriving.add((g, n, name))
        for g in np.flatnonzero((problem.extra < 0).any(axis=1)).tolist():  # staying pods must not be crowded out of a waiting resize
            for n in np.flatnonzero(problem.start[g]).tolist():
                if not states.was_broken(name, g, n):
                    for literal, clear in product(model.present([g], np.array([n])), model.fits_on(n, g)):
                        model.model.add_implication(literal, clear)
