"""The search for a plan: construction goal by goal, then the exact model of end states or its neighbourhoods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from kubestow.solver import rules
from kubestow.solver.rebalance.exact import ExactPlanSearch
from kubestow.solver.rebalance.goals import admit, drain_and_consolidate, improve, repair
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder
from kubestow.solver.rebalance.improvement.search import ImprovementSearch
from kubestow.solver.rebalance.lns import PlanLns
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.result import PlanSearchResult
from kubestow.solver.rebalance.sequencing.sequence import order
from kubestow.solver.rebalance.tiers.improvement import ImprovementTier
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.rebalance.waves.wave_limit import within_waves
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.runtime.run_context import RunContext

#: (class, node) pairs above which `auto` does not use the exact model of the whole.
MAX_EXACT_CELLS = 15_000
#: Fraction of the time that construction may take.
CONSTRUCTION_TIME_FRACTION = 0.6
#: Cap on the seconds for finding fewer moves to construction's end state.
MAX_STRAIGHTEN_SECONDS = 60.0


def search(problem: RebalanceProblem, values: PlanObjective, goals: Sequence[str], context: RunContext) -> PlanSearchResult:
    """Return the best steps that the engine finds in time."""
    options, remaining_seconds = context.options, context.deadline.remaining
    if problem.limits.maxWaves == 0:
        nothing = values.of_steps([])
        return PlanSearchResult([], nothing, list(nothing))
    whole = remaining_seconds()

    def over() -> bool:  # construction ignores the clock in a deterministic run
        return context.stop.is_set() or context.deadline.by_clock(remaining_seconds(), otherwise=inf) < whole * (
            1 - CONSTRUCTION_TIME_FRACTION
        )

    context.report("greedy")
    builder = MoveBuilder(problem, over)
    best = within_waves(values, construct(builder, values, goals))
    result = PlanSearchResult(best, values.of_steps(best), values.bounds())
    if problem.limits.maxWaves is not None and result.values < (nothing := values.of_steps([])):
        result.steps, result.values = [], nothing  # the remaining steps may be worth less than no steps
    _straighten(values, result, context)
    _bound_moves(result, values)
    _report(result, values, context)
    if result.proved or not options.strategy.searches or context.over():
        return result
    pairs = int(np.count_nonzero((possible(problem.cluster, rules.build(problem.cluster)) > 0)[problem.movable | problem.pending]))
    if options.strategy.takes_whole(pairs, MAX_EXACT_CELLS):
        try:
            exact_result = ExactPlanSearch(values, context).solve(result.steps)
        except OverflowError:
            result.notes.append("skipped the exact engine: utilisation exceeds the numbers that CP-SAT can sum")
            return result
        return _better(result, exact_result, values, context)
    if options.strategy.chooses:
        result.notes.append(f"engine auto chose lns: an exact model would have {pairs:,} variables (limit {MAX_EXACT_CELLS})")
    first = next((t for t, tier in enumerate(values.tiers) if isinstance(tier, ImprovementTier)), len(values.tiers))
    if result.values[:first] < tuple(result.bounds[:first]):
        result = PlanLns(values, goals, context).run(result)
    if first < len(values.tiers) and not context.over():
        result = ImprovementSearch(values, result, context).run()
    _bound_moves(result, values)
    return result


def _bound_moves(result: PlanSearchResult, values: PlanObjective) -> None:
    """Lower the bound on moves to the fewest that reach the values of the other tiers."""
    result.bounds[-1] = min(result.bounds[-1], values.bound_of_moves(result.values))


def _straighten(values: PlanObjective, result: PlanSearchResult, context: RunContext) -> None:
    """Reach the same end state by fewer moves if construction moved pods more than once."""
    counts = values.problem.end(result.steps)
    moves = sum(step.k for step in result.steps if step.a >= 0 and step.b >= 0)
    if moves > values.problem.moves(counts):
        ordered = order(values.problem, counts, context, seconds=max(1.0, min(context.deadline.remaining() / 4, MAX_STRAIGHTEN_SECONDS)))
        steps = within_waves(values, ordered.steps) if ordered.steps is not None else result.steps
        if (reached := values.of_steps(steps)) > result.values:
            result.steps, result.values = steps, reached


def construct(builder: MoveBuilder, values: PlanObjective, goals: Sequence[str]) -> list[Step]:
    """Return the steps after work on one goal after the other. The steps of a goal that worsens an earlier one are dropped."""
    problem = builder.problem
    if problem.drain:
        drain_and_consolidate.drain(builder)
    work: dict[str, Callable[[MoveBuilder], object]] = {
        "repair": repair.repair,
        "admit": admit.admit,
        "consolidate": lambda builder: drain_and_consolidate.consolidate(
            builder, values.node_value, problem.limits.maxFreed if values.price is None else None, values.packing
        ),
        "improve": improve.improve,
    }
    reached = 1 if problem.drain else 0  # number of tiers covered by the goals so far
    for goal in goals:
        before, kept = len(builder.steps), values.of(builder.state.counts, builder.state) if reached else ()
        work[goal](builder)
        now = values.of(builder.state.counts, builder.state) if reached else ()
        if any(now[i] < kept[i] for i in range(reached)):
            builder.rewind_to(before)
        reached = max([reached, *(i + 1 for i, tier in enumerate(values.tiers) if tier.goal == goal)])
        if goal == "consolidate":
            builder.kept_empty |= values.freed(builder.state.counts)
    return list(builder.steps)


def _report(result: PlanSearchResult, values: PlanObjective, context: RunContext) -> None:
    for tier, value, bound in zip(values.tiers, result.values, result.bounds, strict=True):
        context.report("search", tier.name, value, max(value, bound), priority=tier.priority)


def _better(construction: PlanSearchResult, exact: PlanSearchResult, values: PlanObjective, context: RunContext) -> PlanSearchResult:
    """Return the better of two results. Bounds of the exact engine are used in any case.

    Args:
        construction: Result of the construction.
        exact: Result of the exact engine.
    """
    steps, reached = exact.steps, exact.values
    if reached < construction.values:
        steps, reached = construction.steps, construction.values
    lower = (
        [min(a, b) for a, b in zip(construction.bounds, exact.bounds, strict=True)]
        if reached[:-1] == construction.values[:-1]
        else exact.bounds
    )
    better = PlanSearchResult(steps, reached, lower, "exact", [*construction.notes, *exact.notes], exact.stuck)
    _bound_moves(better, values)
    _report(better, values, context)
    return better
