"""Binding the pending pods of a gang in a state of a plan: one after the other, or those that need each other as a unit."""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.solver.bind_order.gang_units import Binder
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.problem.state import PlanState

Cells = dict[tuple[int, int], int]  # (class, node) -> pods


def bind_gang(state: PlanState, cells: Cells) -> list[Step] | None:
    """Return accepted steps that bind these pods of one gang, taken one after the other; the state is then that after them. None (and the
    state as it was) if no way was found: tried are single pods, then units of those that need each other, then all as one unit."""
    binder = Binder(state.problem.cluster, state.rules)
    classes = sorted({g for g, _ in cells})
    for level in range(3):
        found = _attempt(state, binder, dict(cells), binder.units(classes, level))
        if found is not None:
            return found
    return None


def _attempt(state: PlanState, binder: Binder, left: Cells, units: Sequence[Sequence[int]]) -> list[Step] | None:
    steps: list[Step] = []
    united = {g for unit in units for g in unit}
    waiting = [sorted(unit) for unit in units]
    moved = True
    while moved and left:
        moved = False
        for unit in list(waiting):
            part = [(g, n, k) for (g, n), k in sorted(left.items()) if g in unit]
            bound = state.bind_unit(binder, part) if part else []
            if bound is not None:
                moved |= bool(part)
                steps += bound
                waiting.remove(unit)
                for g, n, _ in part:
                    del left[g, n]
        for g, n in sorted(left):
            while g not in united and (g, n) in left and state.landing(g, -1)[n]:
                step = Step(g, -1, n)
                state.apply(step)
                steps.append(step)
                moved = True
                left[g, n] -= 1
                if not left[g, n]:
                    del left[g, n]
    if not left:
        return steps
    for step in reversed(steps):
        state.undo(step)
    return None
