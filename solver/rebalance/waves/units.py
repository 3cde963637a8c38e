"""A sequence of steps as single pods, except for gang members that are accepted only together."""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.solver.bind_order.gang_units import Binder, gang_runs, part_by_depth
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState


def binding_units(problem: RebalanceProblem, steps: Sequence[Step]) -> list[list[Step]]:
    """Return the steps in order, pod by pod. An entry with several steps binds as a unit."""
    single = [Step(s.g, s.a, s.b) for s in steps for _ in range(s.k)]
    classes = problem.cluster.classes
    dependent = {c.gang for c in classes if c.affinity or c.spread} - {None}
    gangs = [classes[s.g].gang if s.a < 0 and classes[s.g].gang in dependent else None for s in single]
    if gangs == [None] * len(gangs):
        return [[step] for step in single]
    state = PlanState(problem)
    binder = Binder(problem.cluster, state.rules)
    found: list[list[Step]] = []
    for gang, run in gang_runs(single, gangs):
        if gang is None:
            state.apply(run[0])
            found.append(run)
        else:
            found += _parts(state, binder, run)
    return found


def _parts(state: PlanState, binder: Binder, run: list[Step]) -> list[list[Step]]:
    """Return the parts of consecutive bindings of one gang, and apply the bindings to the state.

    A binding is a part of its own if it is accepted. Otherwise the part includes the fewest following bindings
    that are accepted together.
    """

    def bind(part: list[Step]) -> bool:
        if len(part) > 1:
            return state.bind_unit(binder, [(step.g, step.b, 1) for step in part]) is not None
        if state.accepts(part[0]):
            state.apply(part[0])
            return True
        return False

    def undo(part: list[Step]) -> None:
        for step in reversed(part):
            state.undo(step)

    parts = part_by_depth(run, bind, undo)
    if parts is None:  # accepted in a way that this module does not know
        for step in run:
            state.apply(step)
        return [run]
    return parts
