"""The test that a step may join a wave: it and the other steps of the wave stay valid in every phase.

Rules that only get stricter with more pods are checked with all arriving pods present and no leaving pod gone.
A step accepted then is accepted in every phase. Because these rules are symmetric, the steps that joined before
stay accepted. Affinity and spread have modules of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.waves.affinity import Supports
from kubestow.solver.rebalance.waves.ordering import Order
from kubestow.solver.rebalance.waves.spread import SkewsOfWave
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread


class WaveRules:
    """One wave after the other.

    Attributes:
        state: The state with all pods that the wave brings, before any pod leaves.
        remaining_evictions: Per budget, the number of pods that the wave may still evict.
        wave_steps: Steps of the wave.

    Args:
        steps: All steps of the plan, pod by pod.
    """

    def __init__(self, problem: RebalanceProblem, steps: Sequence[Step]) -> None:
        self.problem, self.state = problem, PlanState(problem)
        self._fit = NodeResourcesFit.of(self.state.rules)
        self._supports, self._skews = Supports(self.state), SkewsOfWave(self.state)
        self._supports.loosen(steps)
        self._skews.loosen(steps)
        self.order = Order(self.state, self._supports, self._skews, steps)
        self._rules: dict[int, list[Rule]] = {}
        self._asks: dict[int, Ints] = {}
        self.remaining_evictions = [budget.allowed for budget in problem.budgets]
        self._clear()

    def _clear(self) -> None:
        self.wave_steps: list[Step] = []
        self._came: Counter[tuple[int, int]] = Counter()
        self._gone: Counter[tuple[int, int]] = Counter()
        self._into: set[Hashable] = set()
        self._from: set[Hashable] = set()
        self._in_place = False

    def budget(self, step: Step) -> int | None:
        """Return the budget that a step's eviction needs."""
        return self.problem.budget[step.g] if step.a >= 0 else None

    # --- joining --------------------------------------------------------------------------------------------------------------

    def join(self, step: Step, reserved: Sequence[int]) -> bool:
        """Add a step to the wave if that is safe; return True if added.

        Args:
            reserved: Classes of the pods that need capacity reserved on the target node.
        """
        budget = self.budget(step)
        if budget is not None and self.remaining_evictions[budget] < 1:
            return False
        if not self._present(step) or not self._apart(step) or not self._accepted(step, reserved) or not self._supports.join(step):
            return False
        if not self._skews.join(step):
            self._supports.back(step)
            return False
        self._supports.settle(step)
        self._take(step)
        return True

    def force(self, step: Step, *, in_place: bool = False) -> None:
        """Add the first step of a wave, or the steps of a unit one after the other, which are accepted as is.

        Args:
            in_place: The pod leaves first, in a wave of its own.
        """
        self._supports.force(step)
        self._skews.force(step)
        self._in_place = in_place
        self._take(step)

    def _take(self, step: Step) -> None:
        budget = self.budget(step)
        if budget is not None:
            self.remaining_evictions[budget] -= 1
        self.wave_steps.append(step)
        self._into.update(self.order.places(step.g, step.b))
        self._from.update(self.order.places(step.g, step.a))
        self._into.update(self.order.single(step.g))
        if self._in_place:
            self.state.apply(step)
            return
        if step.a >= 0:
            self._gone[step.g, step.a] += 1
        if step.b >= 0:
            self._came[step.g, step.b] += 1
            self.state.apply(Step(step.g, -1, step.b))

    def _present(self, step: Step) -> bool:
        """Return True if a pod for the step is present when the wave begins."""
        cell = step.g, step.a
        return step.a < 0 or int(self.state.counts[cell]) - self._came[cell] - self._gone[cell] >= 1

    def _apart(self, step: Step) -> bool:
        """Return True if the step shares no exclusive key with a step of the wave."""
        order = self.order
        if any(key in self._into for key in (*order.single(step.g), *order.places(step.g, step.a))):
            return False
        return not any(key in self._into or key in self._from for key in order.places(step.g, step.b))

    def _accepted(self, step: Step, reserved: Sequence[int]) -> bool:
        g, a, b = step.g, step.a, step.b
        if b < 0:
            return True
        asks = self._asks.get(g)
        if asks is None:
            asks = self._asks[g] = np.flatnonzero(self.problem.cluster.demand[g])
            self._rules[g] = [
                r for r in self.state.rules if r.concerned(g) and not (r.static or isinstance(r, NodeResourcesFit | PodTopologySpread))
            ]
        demand = self.problem.cluster.demand
        free = self._fit.free[b] - (demand[list(reserved)].sum(axis=0) if reserved else 0)
        if int(self._fit.slots[b]) - len(reserved) < 1 or (free[asks] < demand[g, asks]).any():
            return False
        if self.state.waits and self.state.blocks_waiting_resizes(g)[b]:
            return False
        for rule in self._rules[g]:
            out = a >= 0 and not rule.local and not rule.arrivals_only
            if out:
                rule.remove(g, a)
            refused = bool(rule.rejects(g)[b])
            if out:
                rule.place(g, a)
            if refused:
                return False
        return True

    # --- the end of a wave --------------------------------------------------------------------------------------------------------

    def commit(self) -> list[Step]:
        """End the wave: its leaving pods are gone. Return its steps in the order in which they joined."""
        for step in self.wave_steps:
            if step.a >= 0 and not self._in_place:
                self.state.apply(Step(step.g, step.a, -1))
            budget = self.budget(step)
            if budget is not None:
                self.remaining_evictions[budget] += step.b >= 0
        self._supports.commit(self.wave_steps)
        self._skews.commit(self.wave_steps)
        steps = self.wave_steps
        self._clear()
        return steps
