"""Plans within a wave limit: steps that come too late are dropped, with the steps that are useless without them.

A node that is to be freed is emptied completely or not at all, and a gang is bound completely or not at all.
The remaining steps are checked again one by one. A step that needed a dropped one is dropped as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kubestow.models.kube.selectors import Bools
from kubestow.solver.bind_order.gang_units import Binder
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.tiers.freed import FreedTier
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.rebalance.waves.schedule import waves
from kubestow.solver.rebalance.waves.units import binding_units

#: An all-or-nothing unit: a node that is emptied, or a gang that is bound.
_Whole = tuple[str, int]


def fits(problem: RebalanceProblem, steps: Sequence[Step]) -> bool:
    """Return True if the waves of an accepted sequence are within the plan's wave limit."""
    max_waves = problem.limits.maxWaves
    return max_waves is None or len(waves(problem, steps)) <= max_waves


def within_waves(values: PlanObjective, steps: list[Step]) -> list[Step]:
    """Return the steps if they are within the wave limit, otherwise fewer that are; both are accepted sequences."""
    problem, max_waves = values.problem, values.problem.limits.maxWaves
    if max_waves is None:
        return steps
    emptied = values.freed(problem.end(steps)) & ~values.freed(problem.start) & ~problem.closed
    if not any(isinstance(tier, FreedTier) for tier in values.tiers):
        emptied[:] = False
    grouped = waves(problem, steps)
    while len(grouped) > max_waves:
        late = [step for wave in grouped[max_waves:] for step in wave]
        steps = _without(problem, [step for wave in grouped[:max_waves] for step in wave], late, emptied)
        grouped = waves(problem, steps)
    return steps


def _without(problem: RebalanceProblem, steps: list[Step], late: Iterable[Step], emptied: Bools) -> list[Step]:
    """Return the steps that are accepted and useful without the late ones."""
    broken = {whole for step in late for whole in _wholes(problem, step, emptied)}
    while True:
        entries = binding_units(problem, [step for step in steps if broken.isdisjoint(_wholes(problem, step, emptied))])
        steps, refused = _accepted(problem, entries)
        more = {whole for step in refused for whole in _wholes(problem, step, emptied)} - broken
        if not more:
            return steps
        broken |= more


def _wholes(problem: RebalanceProblem, step: Step, emptied: Bools) -> list[_Whole]:
    gang = problem.cluster.classes[step.g].gang if step.a < 0 else None
    found: list[_Whole] = [("gang", gang)] if gang is not None else []
    return [*found, ("node", step.a)] if step.a >= 0 and emptied[step.a] else found


def _accepted(problem: RebalanceProblem, entries: Sequence[Sequence[Step]]) -> tuple[list[Step], list[Step]]:
    """Return the steps that are accepted one after the other, pod by pod, and those that are refused."""
    state, kept, refused = PlanState(problem), list[Step](), list[Step]()
    binder = Binder(problem.cluster, state.rules)
    gone: Counter[int] = Counter()
    for entry in entries:
        if len(entry) > 1:
            bound = state.bind_unit(binder, [(step.g, step.b, 1) for step in entry])
            (kept if bound is not None else refused).extend(entry)
            continue
        step, budget = entry[0], problem.budget[entry[0].g]
        fine = step.a < 0 or bool(state.counts[step.g, step.a])
        if budget is not None and step.a >= 0:
            fine &= gone[budget] < problem.budgets[budget].allowed
        if fine and state.accepts(step):
            state.apply(step)
            kept.append(step)
            gone[budget if budget is not None else -1] += step.b < 0
        else:
            refused.append(step)
    return kept, refused
