"""Fewer steps: a pod that goes on from a stopover goes there directly, where every step is still accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from solver.rebalance.problem.problem import Step
from solver.rebalance.problem.state import PlanState

#: Questions to the state, at most.
QUESTIONS = 20_000


def shorten(state: PlanState, steps: Sequence[Step], over: Callable[[], bool]) -> list[Step]:
    """Return accepted steps that lead where these lead, not more of them. ``state``: before the first, and so it is left."""
    problem = state.problem
    if any(problem.pending[s.g] and problem.cluster.classes[s.g].gang is not None for s in steps):
        return list(steps)  # what binds as a unit is not accepted pod by pod
    way = [Step(s.g, s.a, s.b) for s in steps for _ in range(s.k)]
    left = QUESTIONS
    i = 0
    while i < len(way):
        for rest in _ways_without(way, i) if left > 0 and not over() else ():
            taken = 0
            for step in rest:
                if (step.a >= 0 and not state.counts[step.g, step.a]) or not state.accepts(step):
                    break
                state.apply(step)
                taken += 1
            left -= taken + 1
            for step in reversed(rest[:taken]):
                state.undo(step)
            if taken == len(rest):
                way[i:] = rest
                break
        else:
            state.apply(way[i])
            i += 1
    for step in reversed(way):
        state.undo(step)
    return way


def _ways_without(way: Sequence[Step], i: int) -> list[list[Step]]:
    """Return what may come in place of the steps from ``i`` on: the pod that step i moves goes on directly, early or late, or stays."""
    first = way[i]
    if first.a < 0:
        return []
    for j in range(i + 1, len(way)):
        second = way[j]
        if second.g == first.g and second.a == first.b:
            between, after = list(way[i + 1 : j]), list(way[j + 1 :])
            if second.b == first.a:
                return [between + after]
            straight = Step(first.g, first.a, second.b)
            return [[*between, straight, *after], [straight, *between, *after]]
    return []
