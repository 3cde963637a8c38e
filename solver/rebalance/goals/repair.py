"""The goal repair: fix rules that running pods break, with few moves.

A pod breaks no rule where an accepted step puts it, and no other pod breaks more rules than before. So every
step of a pod that breaks rules is an improvement.
"""

from __future__ import annotations

import numpy as np

from kubestow.solver.rebalance.goals.drain_and_consolidate import MAX_FAILURES_PER_CLASS, make_room, move_off
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder
from kubestow.solver.rebalance.problem.problem import Step


def repair(builder: MoveBuilder) -> None:
    """Move pods that break rules, those that break most first, and make room for a pod that finds no place.

    Of the remaining pods, the one with the lowest priority is evicted, if it may be and its rule requires it.
    Then moves are tried again for the others.
    """
    _move(builder)
    while _evict(builder):
        if not builder.over():
            _move(builder)


def _move(builder: MoveBuilder) -> None:
    """Repair by moves only."""
    problem, state = builder.problem, builder.state
    progress = True
    while progress and not builder.over():
        progress = False
        failed: dict[int, int] = {}
        for g, n in _worst(builder):
            if builder.over():
                return
            if not problem.movable[g] or not state.counts[g, n] or failed.get(g, 0) >= MAX_FAILURES_PER_CLASS or state.never(g).all():
                continue
            while state.counts[g, n] and problem.counted_rules(g, state.breaks(g, np.array([n]))):
                if not (move_off(builder, g, n) or make_room(builder, g, n)):
                    failed[g] = failed.get(g, 0) + 1
                    break
                progress, failed[g] = True, 0


def _evict(builder: MoveBuilder) -> bool:
    """Evict one pod, preceded by those that must be near it; return True if there was one."""
    problem, counts = builder.problem, builder.state.counts

    def first(entry: tuple[int, int]) -> tuple[int, int]:
        return int(problem.cluster.priority[entry[0]]), problem.departure_rank(*entry, int(counts[entry]))

    for g, n in sorted(_worst(builder), key=first):
        if problem.evictable[g] and not problem.closed[n]:
            before = len(builder.steps)
            if _let_go(builder, g, n):
                return True
            builder.rewind_to(before)
    return False


def _let_go(builder: MoveBuilder, g: int, n: int) -> bool:
    """Evict a pod of class g from node n, preceded by pods that would miss it; return True if all may go."""
    problem, state = builder.problem, builder.state
    waiting = [(g, n)]
    while waiting:
        h, m = waiting[-1]
        if not state.counts[h, m] or not (problem.evictable[h] and builder.within(h, eviction=True)) or builder.over():
            return False
        if state.may_go(h, m):
            builder.take(Step(h, m, -1))
            waiting.pop()
            continue
        missing = next((entry for entry in state.missing(h, m) if problem.evictable[entry[0]] and entry not in waiting), None)
        if missing is None:
            return False
        waiting.append(missing)
    return True


def _worst(builder: MoveBuilder) -> list[tuple[int, int]]:
    """Return (class, node) of running pods that break rules.

    Those that break most come first; among equals, the cheapest to move.
    """
    found = []
    for g in np.flatnonzero(builder.problem.subjects).tolist():
        nodes = np.flatnonzero(builder.state.counts[g])
        masks = builder.problem.counted_rules(g, builder.state.breaks(g, nodes))
        if masks:
            total = np.sum([mask.astype(np.int64) for mask in masks.values()], axis=0)
            found += [(g, n, k) for n, k in zip(nodes.tolist(), total.tolist(), strict=True) if k]
    found.sort(key=lambda entry: (-entry[2], int(builder.problem.cost[entry[0]]), entry[0], entry[1]))
    return [(g, n) for g, n, _ in found]
