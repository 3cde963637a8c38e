"""Large-neighbourhood search over end states: some nodes at a time, solved tier after tier by CP-SAT.

A neighbourhood contains all movable pods of its nodes. It uses the same model as the whole problem
(kubestow.solver.rebalance.target.model), with the other nodes fixed. A better end state counts only once an
order of accepted steps leads to it; that order is sought at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver import rules
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.cpsat.run import CpSat, add_hint
from kubestow.solver.ortools import cp_model
from kubestow.solver.rebalance.result import PlanSearchResult
from kubestow.solver.rebalance.sequencing.sequence import order
from kubestow.solver.rebalance.target.model import TargetModel
from kubestow.solver.rebalance.target.rules import TargetRules, broken_at_start
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.rebalance.waves.wave_limit import within_waves
from kubestow.solver.runtime.run_context import RunContext

#: Model variables of the first neighbourhood.
INITIAL_VARIABLES = 800.0
#: Fewest model variables of a neighbourhood.
MIN_VARIABLES = 60.0
#: Most model variables of a neighbourhood.
MAX_VARIABLES = 4_000.0
#: Seconds for one tier of a neighbourhood.
TIER_SECONDS = 2.0
#: Fraction of the time reserved for finding an order of steps.
ORDER_TIME_FRACTION = 0.3
#: The same if preferences and balance are searched afterwards.
LATER_TIME_FRACTION = 0.65
#: Consecutive neighbourhoods without gain after which the search ends.
MAX_IDLE_NEIGHBOURHOODS = 400
#: Deterministic seconds charged for building one variable.
BUILD_SECONDS = 2e-4


class PlanLns:
    """The search by neighbourhoods. It covers only the tiers before preferences and balance."""

    def __init__(self, values: PlanObjective, goals: Sequence[str], context: RunContext) -> None:
        problem = values.problem
        self.problem, self.values, self.context, self.remaining_seconds = problem, values, context, context.deadline.remaining
        self.cpsat = CpSat(context)
        self.rng = np.random.default_rng(context.options.seed)
        self._active = rules.build(problem.cluster)
        self._known = broken_at_start(problem)
        self._mobile = problem.movable | problem.pending
        searched = goals[: goals.index("improve")] if "improve" in goals else goals
        self._searched = PlanObjective(problem, searched)
        self._later = len(searched) < len(goals)
        if self._later:  # preferences may need any number of moves
            self._searched.tiers = self._searched.tiers[:-1]
        self.size = INITIAL_VARIABLES

    def run(self, result: PlanSearchResult) -> PlanSearchResult:
        """Improve an accepted sequence of steps."""
        if not self._mobile.any():
            return result
        result.engine = "lns"
        kept = self.remaining_seconds() * (LATER_TIME_FRACTION if self._later else ORDER_TIME_FRACTION)
        counts = self.problem.end(result.steps)
        idle, changed = 0, False
        while not self.context.stop.is_set() and self.remaining_seconds() > kept and idle < MAX_IDLE_NEIGHBOURHOODS:
            if not self._step(counts):
                idle += 1
                continue
            idle, changed = 0, True
            for tier, value, bound in zip(self.values.tiers, self.values.of(counts), result.bounds, strict=True):
                self.context.report("lns", tier.name, value, max(value, bound), priority=tier.priority)
        if changed:
            self._take(result, counts)
        return result

    def _take(self, result: PlanSearchResult, counts: Ints) -> None:
        """Adopt an end state if an order of steps leads to it and its values are better."""
        ordered = order(self.problem, counts, self.context, seconds=max(1.0, self.remaining_seconds() / (2 if self._later else 1)))
        if ordered.steps is None:
            result.notes.append("a better end state was set aside because no order of steps was found in time")
            return
        steps = within_waves(self.values, ordered.steps)
        values = self.values.of_steps(steps)
        if values > result.values:
            result.steps, result.values = steps, values

    # --- neighbourhoods -----------------------------------------------------------------------------------------------------------

    def _step(self, counts: Ints) -> bool:
        """Solve one neighbourhood and apply its improvements to ``counts``; return True if there were any."""
        part = self._part(counts, self._nodes(counts))
        if part is None:
            return False
        model = TargetModel(self.problem, self._active, part, counts, room=self.values.room)
        self.cpsat.deadline.charge(BUILD_SECONDS * len(model.x))
        points = self._searched.encode(TargetRules(model, self._active, self._known))
        inside = {(g, n): int(counts[g, n]) for g, n in model.x if counts[g, n]}
        # With the pods fixed, the variables of the tiers are free to take their best values, all at once.
        every = [cp_model.LinearExpr.weighted_sum(tier.variables, tier.weights) for tier in points if tier.variables]
        model.model.maximize(cp_model.LinearExpr.sum(every))
        hint = self.cpsat.assignment(model, inside, objective=True)
        if hint is None:
            return False
        solution, better, solved = hint, False, True
        for tier in points:
            if not tier.variables:
                continue
            target = cp_model.LinearExpr.weighted_sum(tier.variables, tier.weights)
            now = tier.value(solution) - tier.constant
            if now < tier.most:
                model.model.maximize(target)
                model.model.clear_hints()  # type: ignore[no-untyped-call]  # ortools has no types for it
                add_hint(model.model, solution)
                answer = self.cpsat.run(model.model, TIER_SECONDS, quick=True)
                solved &= answer.status == cp_model.OPTIMAL
                if answer.solution is not None and tier.value(answer.solution) - tier.constant > now:
                    solution, better = answer.solution, True
                    now = tier.value(solution) - tier.constant
            model.model.add(target >= now)
        self.size = min(MAX_VARIABLES, self.size * 1.05) if solved else max(MIN_VARIABLES, self.size * 0.8)
        if better:
            for (g, n), variable in model.x.items():
                counts[g, n] = solution[variable.index]
        return better

    def _nodes(self, counts: Ints) -> Ints:
        """Return the nodes of the next neighbourhood.

        They are some that could be freed with few moves, some that received pods, some to be drained, and
        random others.
        """
        problem, rng = self.problem, self.rng
        size = problem.cluster.n_nodes
        load = problem.movable @ counts
        per_node = max(1.0, float((counts[self._mobile] > 0).sum()) / size)
        many = int(min(size, max(3, np.sqrt(self.size / per_node))))
        came = np.maximum(counts - problem.start, 0)[problem.movable].sum(axis=0)
        usable = np.flatnonzero(~problem.closed | (load > 0))
        nearly = np.flatnonzero(problem.freeable & (load > 0))
        chosen: set[int] = set()
        if len(nearly):
            weights = 1.0 / load[nearly] ** 2
            chosen.update(rng.choice(nearly, min(len(nearly), max(1, many // 4)), replace=False, p=weights / weights.sum()).tolist())
        fed = np.flatnonzero(came)
        if len(fed):
            chosen.update(rng.choice(fed, min(len(fed), max(1, many // 4)), replace=False).tolist())
        drained = np.flatnonzero(problem.closed & (load > 0))
        chosen.update(rng.permutation(drained)[: max(1, many // 4)].tolist())
        for n in rng.permutation(usable).tolist():
            if len(chosen) >= many:
                break
            chosen.add(n)
        return np.array(sorted(chosen), dtype=np.int64)

    def _part(self, counts: Ints, nodes: Ints) -> Cells | None:
        """Return the cells of these nodes for all pods that run there or wait, with the pods' origins."""
        problem = self.problem
        cells, pods = {}, {}
        here = counts[:, nodes]
        for g in np.flatnonzero(self._mobile & (here.any(axis=1) | problem.pending)).tolist():
            waiting = int(problem.cluster.classes[g].count - counts[g].sum()) if problem.pending[g] or problem.evictable[g] else 0
            number = int(here[g].sum()) + waiting
            limit = np.minimum(np.maximum(self.values.room[g, nodes], np.maximum(problem.start[g, nodes], here[g])), number)
            inside = limit > 0
            if number and inside.any():
                cells[g] = nodes[inside].astype(np.int32), limit[inside]
                pods[g] = number
        return Cells(cells, pods) if cells else None
