"""The exact engine of plans: find the best end state by the model, look for an order of steps, cut it off, repeat.

This is branch and check (Thorsteinsson, doi:10.1007/3-540-45578-7_2). The model is a relaxation, and each tier
is proved before the next. The search ends when the model's best end state is no better than the best plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubestow.models.cluster.cluster import Ints
from kubestow.solver import rules
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.run import MAX_TIGHT_VARIABLES, CpSat, add_hint
from kubestow.solver.ortools import cp_model
from kubestow.solver.rebalance.problem.end_state import steps_to
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.result import PlanSearchResult
from kubestow.solver.rebalance.sequencing.confinement import arrivals
from kubestow.solver.rebalance.sequencing.sequence import OrderResult, count_pods, order
from kubestow.solver.rebalance.target.model import TargetModel
from kubestow.solver.rebalance.target.rules import TargetRules
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.rebalance.waves.wave_limit import within_waves
from kubestow.solver.runtime.run_context import RunContext

#: Fraction of the remaining time that the model may take for one end state.
MODEL_TIME_FRACTION = 0.6
#: Fraction of the remaining time for finding the order of one end state's steps.
ORDER_TIME_FRACTION = 0.5
#: Deterministic seconds charged for one search for an order.
CHECK_SECONDS = 0.02

Vector = tuple[int, ...]


@dataclass
class _Bound:
    """An upper bound on a tier.

    Among the end states that remained when it was found, none with at least ``earlier_values`` in the earlier tiers
    exceeds ``limit`` in this tier.

    Attributes:
        open: Number of end states set aside before.
    """

    tier: int
    earlier_values: Vector
    limit: int
    open: int


@dataclass
class _Relaxed:
    """An end state of the model.

    Attributes:
        counts: Running pods, int64[G, N].
        solution: Value of each variable.
        values: Value of each tier.
        proved: True if no end state is better, tier after tier.
    """

    counts: Ints
    solution: list[int]
    values: Vector
    proved: bool


class ExactPlanSearch:
    """The exact engine for one problem."""

    def __init__(self, values: PlanObjective, context: RunContext) -> None:
        self.problem, self.values, self.context, self.deadline = values.problem, values, context, context.deadline
        self.cpsat = CpSat(context)
        active = rules.build(self.problem.cluster)
        self.model = TargetModel(self.problem, active)
        self.points = self.values.encode(TargetRules(self.model, active))
        self._ceilings = [min(upper, p.constant + p.most) for upper, p in zip(self.values.bounds(), self.points, strict=True)]
        self._bounds: list[_Bound] = []
        self._open: list[Vector] = []  # possible values of end states without a known order that are not proved to have none
        self._detoured: set[int] = set()  # classes whose stopovers the model counts as moves
        self._detours: list[cp_model.IntVar] = []
        self._notes: list[str] = []
        self._stuck: tuple[Vector, list[Step]] | None = None  # of the best end state without an order

    def solve(self, steps: Sequence[Step] = ()) -> PlanSearchResult:
        """Improve a plan (accepted steps) until it is proved optimal, time is up, or ``stop`` is set."""
        best, best_values = list(steps), self.values.of_steps(steps)
        last: _Relaxed | None = None
        while not self.cpsat.done():
            relaxed = self._relax(best_values, self.problem.end(best), last)
            if relaxed is None or (relaxed.proved and relaxed.values <= best_values):
                break
            last = relaxed
            if relaxed.values <= best_values:
                continue  # not proved: try again in the remaining time
            ordered = self._order(relaxed.counts)
            if ordered.steps is not None:
                kept = within_waves(self.values, ordered.steps)
                values = self.values.of_steps(kept)
                if values > best_values:
                    best, best_values = kept, values
                if kept is not ordered.steps:  # another order might take fewer waves
                    ordered.steps = None
            if best_values < relaxed.values:
                self._cut_off(relaxed, ordered)
            elif relaxed.proved:
                break
        bounds = [self._bound(t, best_values) for t in range(len(best_values))]
        stuck = self._stuck[1] if self._stuck is not None and self._stuck[0] > best_values else []
        return PlanSearchResult(best, best_values, bounds, "exact", self._notes, stuck)

    # --- end states that have no order, or a longer one
    # -------------------------------------------------------------------------

    def _order(self, counts: Ints) -> OrderResult:
        problem = self.problem
        max_steps = None
        if problem.limits.maxMoves is not None:
            change = counts - problem.start
            bound = int(change[problem.pending].sum())
            gone = -int(change[~problem.pending].sum())
            max_steps = problem.limits.maxMoves + bound + gone
        self.deadline.charge(CHECK_SECONDS)
        return order(
            problem, counts, self.context, seconds=max(0.1, self.deadline.remaining() * ORDER_TIME_FRACTION), steps_at_most=max_steps
        )

    def _record_open(self, relaxed: _Relaxed, ordered: OrderResult) -> None:
        """Record the possible values of the end state unless they are known."""
        if ordered.steps is None:
            if ordered.stuck and self.problem.limits.maxMoves is None and (self._stuck is None or relaxed.values > self._stuck[0]):
                self._stuck = relaxed.values, ordered.stuck
            if ordered.exhausted:
                self._note("an end state that no order of steps reaches was excluded; proofs refer to plans that can be carried out")
            else:
                few = " within the wave limit" if self.problem.limits.maxWaves is not None else ""
                self._note(f"an end state was set aside because no order of steps{few} was found in time; bounds count it as possible")
                self._open.append(relaxed.values)
            return
        values = self.values.of_steps(ordered.steps)
        at_best = list(self.values.of(relaxed.counts))
        if ordered.fewest:  # in steps; the fewest steps need not be the cheapest
            extra = count_pods(ordered.steps) - count_pods(steps_to(self.problem, relaxed.counts))
            at_best = [value - extra * tier.per_move(self.problem) for value, tier in zip(at_best, self.values.tiers, strict=True)]
        if tuple(at_best) > values:
            self._note("an end state was set aside because no shortest order of steps was found in time; bounds count it as possible")
            self._open.append(tuple(at_best))

    def _cut_off(self, relaxed: _Relaxed, ordered: OrderResult) -> None:
        """Exclude an end state that is worth less than the model says, or correct its value in the model.

        If a few classes prove that it has no order, all end states with the same places of these classes are
        excluded.
        """
        problem = self.problem
        if self._confine(relaxed, ordered):
            if ordered.steps is None:
                self._record_open(relaxed, ordered)
            return
        self._record_open(relaxed, ordered)
        self.model.forbid(relaxed.counts, [g for g in sorted(self.model.unplaced) if problem.movable[g] or problem.pending[g]])

    def _confine(self, relaxed: _Relaxed, ordered: OrderResult) -> bool:
        """Confine classes to the states that they can reach.

        Returns:
            True if the model then excludes the end state or has its value.
        """
        problem, counts = self.problem, relaxed.counts
        excluded, extra, cost = False, 0, 0
        for each in ordered.confined:
            apart = self._detoured.isdisjoint(each.classes)
            moves = [limit - arrivals(problem, each.classes, there) for limit, there in zip(each.moves, each.reachable, strict=True)]
            detours = self.model.confine(each.classes, each.reachable, moves)
            mine = each.detours(problem, counts)
            excluded |= detours is not None and mine is None
            if detours is None or not apart:
                continue
            cheapest = min((int(problem.cost[g]) for g in each.classes if problem.movable[g]), default=0)
            self._detoured.update(each.classes)
            self._detours.append(detours)
            self.points[-1].add(detours, -cheapest, 0, max(moves))
            extra, cost = extra + (mine or 0), cost + (mine or 0) * cheapest
        if extra or excluded:
            self.model.limit_moves(self._detours)
        if ordered.steps is None:
            max_moves = problem.limits.maxMoves
            return excluded or (bool(extra) and max_moves is not None and problem.moves(counts) + extra > max_moves)
        return bool(cost) and self.values.of_steps(ordered.steps) == (*relaxed.values[:-1], relaxed.values[-1] - cost)

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    # --- the model ------------------------------------------------------------------------------------------------------------

    def _expression(self, model: cp_model.CpModel, points: Points) -> cp_model.LinearExprT:
        own = [model.get_int_var_from_proto_index(v.index) for v in points.variables]
        return cp_model.LinearExpr.weighted_sum(own, points.weights) + points.constant

    def _relax(self, least: Vector, counts: Ints, last: _Relaxed | None) -> _Relaxed | None:
        """Return the best remaining end state, tier after tier.

        Args:
            least: Values that the end state has to reach.
            counts: The end state of a plan to start from.
            last: The previous best end state, before it was cut off.

        Returns:
            The end state; None if none reaches ``least`` or none is found in time.
        """
        began = self.deadline.remaining()
        solution = self.cpsat.assignment(self.model, counts)
        reached: list[int] = []
        proved, equal_so_far = True, True  # equal_so_far: equal to ``least`` in all tiers so far
        model = self.model.model.clone()
        size = len(self.points)
        for t, points in enumerate(self.points):
            floor = least[t] if equal_so_far else None
            ceiling = self._ceilings[t]
            if last is not None and last.proved and tuple(reached) == last.values[:t]:
                ceiling = min(ceiling, last.values[t])
            if proved and solution is not None and points.value(solution) >= ceiling:
                value = ceiling
                self._bounds.append(_Bound(t, tuple(reached), value, len(self._open)))
            else:
                attempt = model.clone()
                target = self._expression(attempt, points)
                if floor is not None:
                    attempt.add(target >= floor)
                if ceiling < self._ceilings[t]:  # a bound that is known anyway would mislead the search
                    attempt.add(target <= ceiling)
                attempt.maximize(target)
                if solution is not None:
                    add_hint(attempt, solution)
                share = max(0.0, self.deadline.remaining() - began * (1 - MODEL_TIME_FRACTION)) / (size - t)
                answer = self.cpsat.run(attempt, max(share, 0.05), self._reporter(t), tight=len(self.model.x) <= MAX_TIGHT_VARIABLES)
                if answer.status == cp_model.INFEASIBLE and floor is not None:
                    # no remaining end state is as good as the plan, so the plan's values bound the remaining
                    # tiers
                    for later in range(t, size):
                        self._bounds.append(_Bound(later, (*reached, *least[t:later]), least[later], len(self._open)))
                    return None
                if answer.status == cp_model.INFEASIBLE:
                    return None
                if answer.bound is not None:
                    self._bounds.append(_Bound(t, tuple(reached), min(answer.bound, ceiling), len(self._open)))
                proved &= answer.status == cp_model.OPTIMAL
                if answer.solution is not None:
                    solution = answer.solution
                if solution is None:
                    return None
                value = points.value(solution)
            if equal_so_far and value < least[t]:
                return None
            equal_so_far = equal_so_far and value == least[t]
            reached.append(value)
            model.add(self._expression(model, points) >= value)
        assert solution is not None
        return _Relaxed(self.model.counts(solution), solution, tuple(reached), proved)

    def _reporter(self, t: int) -> Callable[[int, int], None]:
        return lambda value, bound: self.context.report("exact", self.values.tiers[t].name, value, bound)

    def _bound(self, t: int, best: Vector) -> int:
        """Return an upper bound on tier t for plans with at least the values ``best`` in the earlier tiers."""
        upper = self._ceilings[t]
        for bound in self._bounds:
            if bound.tier == t and all(h <= b for h, b in zip(bound.earlier_values, best, strict=False)):
                aside = [v[t] for v in self._open[: bound.open] if all(a >= b for a, b in zip(v[:t], best, strict=False))]
                upper = min(upper, max([bound.limit, *aside]))
        return max(upper, best[t])
