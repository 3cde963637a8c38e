"""Binding of a gang's pending pods in a plan state: one after the other, or as a unit if they need each other."""

from __future__ import annotations

from collections.abc import Container, Sequence

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
        steps = _attempt(state, binder, dict(cells), binder.units(classes, level))
        if steps is not None:
            return steps
    return None


def _attempt(state: PlanState, binder: Binder, remaining: Cells, units: Sequence[Sequence[int]]) -> list[Step] | None:
    steps: list[Step] = []
    united = {g for unit in units for g in unit}
    waiting = [sorted(unit) for unit in units]
    moved = True
    while moved and remaining:
        moved = False
        for unit in list(waiting):
            part = [(g, n, k) for (g, n), k in sorted(remaining.items()) if g in unit]
            bound = state.bind_unit(binder, part) if part else []
            if bound is not None:
                moved |= bool(part)
                steps += bound
                waiting.remove(unit)
                for g, n, _ in part:
                    del remaining[g, n]
        alone = _one_by_one(state, remaining, united)
        moved |= bool(alone)
        steps += alone
    if not remaining:
        return steps
    for step in reversed(steps):
        state.undo(step)
    return None


def _one_by_one(state: PlanState, remaining: Cells, united: Container[int]) -> list[Step]:
    """Bind pods of the classes outside units while they are accepted; return the steps. ``remaining`` loses these pods."""
    steps: list[Step] = []
    for g, n in sorted(remaining):
        while g not in united and (g, n) in remaining and state.landing(g, -1)[n]:
            steps.append(Step(g, -1, n))
            state.apply(steps[-1])
            remaining[g, n] -= 1
            if not remaining[g, n]:
                del remaining[g, n]
    return steps
