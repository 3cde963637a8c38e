"""Repair rules that running pods break, by few moves.

A pod breaks nothing where an accepted step puts it, and no other pod breaks more than before: every step of a pod that breaks rules is one
to the better.
"""

from __future__ import annotations

import numpy as np

from solver.rebalance.goals.drain_and_consolidate import HOPELESS, make_room, move_off
from solver.rebalance.goals.move_builder import MoveBuilder
from solver.rebalance.problem.problem import Step


def repair(builder: MoveBuilder) -> None:
    """Move pods that break rules, those first that break most; a pod that finds no place gets room made for it. Of what is left the pod of
    lowest priority goes, if it may be evicted and its rule asks for that; then moves may do for the rest."""
    _move(builder)
    while _evict(builder):
        if not builder.over():
            _move(builder)


def _move(builder: MoveBuilder) -> None:
    """Moves only."""
    problem, state = builder.problem, builder.state
    progress = True
    while progress and not builder.over():
        progress = False
        failed: dict[int, int] = {}
        for g, n in _worst(builder):
            if builder.over():
                return
            if not problem.movable[g] or not state.counts[g, n] or failed.get(g, 0) >= HOPELESS or state.never(g).all():
                continue
            while state.counts[g, n] and state.breaks(g, np.array([n])):
                if not (move_off(builder, g, n) or make_room(builder, g, n)):
                    failed[g] = failed.get(g, 0) + 1
                    break
                progress, failed[g] = True, 0


def _evict(builder: MoveBuilder) -> bool:
    """Evict one pod; whether there was one to be evicted."""
    problem, state = builder.problem, builder.state
    priority = problem.cluster.priority
    for g, n in sorted(_worst(builder), key=lambda entry: int(priority[entry[0]])):
        if problem.evictable[g] and not problem.closed[n] and builder.within(g, eviction=True) and state.may_go(g, n):
            builder.take(Step(g, n, -1))
            return True
    return False


def _worst(builder: MoveBuilder) -> list[tuple[int, int]]:
    """(class, node) of running pods that break rules, those that break most first, the cheapest to move among equals."""
    found = []
    for g in np.flatnonzero(builder.problem.subjects).tolist():
        nodes = np.flatnonzero(builder.state.counts[g])
        masks = builder.state.breaks(g, nodes)
        if masks:
            total = np.sum([mask.astype(np.int64) for mask in masks.values()], axis=0)
            found += [(g, n, k) for n, k in zip(nodes.tolist(), total.tolist(), strict=True) if k]
    found.sort(key=lambda entry: (-entry[2], int(builder.problem.cost[entry[0]]), entry[0], entry[1]))
    return [(g, n) for g, n, _ in found]
