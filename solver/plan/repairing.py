"""Mend rules that running pods break, by few moves: greedy, each step one that leaves fewer broken rules than before."""

from __future__ import annotations

import numpy as np

from solver.plan.case import Step
from solver.plan.emptying import make_room
from solver.plan.walk import Walk

#: Places tried for one pod, those first that are fullest.
TRIED = 6


def repair(walk: Walk) -> None:
    """Move pods that break rules, those first that break most; a pod that finds no place gets room made for it. What is left and may be
    evicted goes, where its rule asks for that."""
    case, state = walk.case, walk.state
    progress = True
    while progress and not walk.over():
        progress = False
        for g, n, broken in _worst(walk):
            if walk.over():
                return
            now = state.counts[g, n]
            if not now or not case.movable[g] or not state.breaks(g, np.array([n])):
                continue
            if _move(walk, g, n) or _make_way(walk, g, n, broken):
                progress = True
    for g, n, _ in _worst(walk):
        while state.counts[g, n] and case.evictable[g] and not case.closed[n] and state.breaks(g, np.array([n])):
            if not (walk.within(g, eviction=True) and state.may_go(g, n)):
                break
            walk.take(Step(g, n, -1))


def _worst(walk: Walk) -> list[tuple[int, int, int]]:
    """(class, node, rules broken) of running pods that break some, the dearest to leave first, the cheapest to move among equals."""
    found = []
    for g in np.flatnonzero(walk.case.subjects).tolist():
        nodes = np.flatnonzero(walk.state.counts[g])
        masks = walk.state.breaks(g, nodes)
        if masks:
            total = np.sum([mask.astype(np.int64) for mask in masks.values()], axis=0)
            found += [(g, n, k) for n, k in zip(nodes.tolist(), total.tolist(), strict=True) if k]
    return sorted(found, key=lambda entry: (-entry[2], int(walk.case.cost[entry[0]]), entry[0], entry[1]))


def _total(walk: Walk) -> int:
    return sum(walk.state.broken().values())


def _move(walk: Walk, g: int, n: int) -> bool:
    """Move one pod of class g off node n, if fewer rules are broken then."""
    mask = walk.places(g, n)
    if not mask.any():
        return False
    before, length = _total(walk), len(walk.steps)
    for _ in range(TRIED):
        if not mask.any():
            break
        b = walk.tightest(g, mask)
        walk.take(Step(g, n, b))
        if _total(walk) < before:
            return True
        walk.back_to(length)
        mask[b] = False
    return False


def _make_way(walk: Walk, g: int, n: int, broken: int) -> bool:
    """The same with room made for it."""
    before, length = _total(walk), len(walk.steps)
    if make_room(walk, g, n) and _total(walk) < before:
        return True
    walk.back_to(length)
    return False
