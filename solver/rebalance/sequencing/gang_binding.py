"""Binding of a gang's pending pods in a plan state: one after the other, or as a unit if they need each other."""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.solver.bind_order.gang_units import Binder
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.problem.state import PlanState

Cells = dict[tuple[int, int], int]  # (class, node) -> pods


def bind_gang(state: PlanState, cells: Cells) -> list[Step] | None:
    """Return accepted steps that bind these pods of one gang; the state then includes them.

    Single pods are tried first, then units of pods that need each other, then all pods as one unit.

    Returns:
        The steps. None if no way was found; the state is then unchanged.
    """
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
