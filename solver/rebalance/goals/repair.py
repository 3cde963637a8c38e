"""Mend rules that running pods break, by few moves.

A pod breaks nothing where an accepted step puts it, and nobody else breaks more than before: every step of a pod that breaks rules is one
to the better.
"""

from __future__ import annotations

import numpy as np

from solver.rebalance.goals.drain_and_consolidate import HOPELESS, make_room, move_off
from solver.rebalance.goals.move_builder import Walk
from solver.rebalance.problem.problem import Step


def repair(walk: Walk) -> None:
    """Move pods that break rules, those first that break most; a pod that finds no place gets room made for it. Of what is left the pod of
    lowest priority goes, if it may be evicted and its rule asks for that; then moves may do for the rest."""
    _mend(walk)
    while _evict(walk):
        if not walk.over():
            _mend(walk)


def _mend(walk: Walk) -> None:
    """Moves only."""
    case, state = walk.case, walk.state
    progress = True
    while progress and not walk.over():
        progress = False
        failed: dict[int, int] = {}
        for g, n in _worst(walk):
            if walk.over():
                return
            if not case.movable[g] or not state.counts[g, n] or failed.get(g, 0) >= HOPELESS or state.never(g).all():
                continue
            while state.counts[g, n] and state.breaks(g, np.array([n])):
                if not (move_off(walk, g, n) or make_room(walk, g, n)):
                    failed[g] = failed.get(g, 0) + 1
                    break
                progress, failed[g] = True, 0


def _evict(walk: Walk) -> bool:
    """Evict one pod; whether there was one to be evicted."""
    case, state = walk.case, walk.state
    priority = case.cluster.priority
    for g, n in sorted(_worst(walk), key=lambda entry: int(priority[entry[0]])):
        if case.evictable[g] and not case.closed[n] and walk.within(g, eviction=True) and state.may_go(g, n):
            walk.take(Step(g, n, -1))
            return True
    return False


def _worst(walk: Walk) -> list[tuple[int, int]]:
    """(class, node) of running pods that break rules, those that break most first, the cheapest to move among equals."""
    found = []
    for g in np.flatnonzero(walk.case.subjects).tolist():
        nodes = np.flatnonzero(walk.state.counts[g])
        masks = walk.state.breaks(g, nodes)
        if masks:
            total = np.sum([mask.astype(np.int64) for mask in masks.values()], axis=0)
            found += [(g, n, k) for n, k in zip(nodes.tolist(), total.tolist(), strict=True) if k]
    found.sort(key=lambda entry: (-entry[2], int(walk.case.cost[entry[0]]), entry[0], entry[1]))
    return [(g, n) for g, n, _ in found]
