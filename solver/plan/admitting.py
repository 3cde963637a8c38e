"""Give pending pods a place, by moving others away and, where that is allowed, by evicting pods of lower priority."""

from __future__ import annotations

import numpy as np

from solver.gang_units import Binder
from solver.plan.case import Step
from solver.plan.emptying import LOOKED, make_room
from solver.plan.walk import Walk


def admit(walk: Walk) -> None:
    """Bind pending pods, highest priority first, gangs whole: as they are, then after moves of others, then after evictions."""
    case = walk.case
    waiting = np.flatnonzero(case.pending)
    classes = sorted(waiting.tolist(), key=lambda g: (-int(case.cluster.priority[g]), -float(walk.size(g)), g))
    done: set[int] = set()
    for g in classes:
        if walk.over():
            return
        gang = case.cluster.classes[g].gang
        if gang is None:
            for _ in range(case.cluster.classes[g].count):
                if not (_bind(walk, g) or make_room(walk, g, -1) or _evict(walk, g)):
                    break
        elif gang not in done:
            done.add(gang)
            _admit_gang(walk, gang)


def _bind(walk: Walk, g: int) -> bool:
    mask = walk.state.landing(g, -1)
    if not mask.any():
        return False
    walk.take(Step(g, -1, walk.tightest(g, mask)))
    return True


def _admit_gang(walk: Walk, k: int) -> None:
    """All members that the gang needs, or none: one by one where they are accepted so, else as a unit."""
    case = walk.case
    gang = case.cluster.gangs[k]
    before = len(walk.steps)
    placed = 0
    for g in sorted(gang.classes, key=lambda g: -float(walk.size(g))):
        for _ in range(case.cluster.classes[g].count):
            if walk.over():
                break
            if not (_bind(walk, g) or make_room(walk, g, -1) or _evict(walk, g)):
                break
            placed += 1
    if placed < gang.needed:
        walk.back_to(before)
        _as_unit(walk, k)


def _as_unit(walk: Walk, k: int) -> None:
    """Members that need each other: those of one node's domain at a time are tried together by the Binder."""
    case, state = walk.case, walk.state
    gang = case.cluster.gangs[k]
    binder = Binder(case.cluster, state.rules)
    keys = [key for g in gang.classes if (a := case.cluster.classes[g].affinity) for key in a.keys]
    for key in dict.fromkeys([*([gang.key] if gang.key else []), *keys]):
        for nodes in case.cluster.members(key):
            if walk.over():
                return
            cells = _pack(walk, gang.classes, nodes.tolist())
            if sum(c[2] for c in cells) < gang.needed or not cells:
                continue
            if binder.bind(cells):
                for g, n, count in reversed(cells):  # the walk puts them in by itself
                    for rule in state.rules:
                        rule.remove(g, n, count)
                for g, n, count in cells:
                    walk.take(Step(g, -1, n, count))
                return


def _pack(walk: Walk, classes: tuple[int, ...], nodes: list[int]) -> list[tuple[int, int, int]]:
    """Pods of a gang by (class, node), first-fit by size over some nodes, looking at resources only."""
    case, state = walk.case, walk.state
    free = {n: (state.fit.free[n].copy(), int(state.fit.slots[n])) for n in nodes}
    cells: dict[tuple[int, int], int] = {}
    for g in sorted(classes, key=lambda g: -float(walk.size(g))):
        never, demand = state.never(g), case.cluster.demand[g]
        for _ in range(case.cluster.classes[g].count):
            for n in nodes:
                left, slots = free[n]
                if not never[n] and slots > 0 and bool((left >= demand)[demand > 0].all()):
                    free[n] = (left - demand, slots - 1)
                    cells[g, n] = cells.get((g, n), 0) + 1
                    break
    return [(g, n, k) for (g, n), k in cells.items()]


def _evict(walk: Walk, g: int) -> bool:
    """Evict few pods of lower priority from one node, so that a pod of class g can have it."""
    case, state = walk.case, walk.state
    if not case.limits.allowEviction:
        return False
    priority = case.cluster.priority
    lower = case.evictable & (priority < int(priority[g]))
    nodes = np.flatnonzero((lower @ state.counts > 0) & ~case.closed & ~state.never(g))
    best: list[Step] | None = None
    for n in nodes.tolist()[: 4 * LOOKED]:
        before = len(walk.steps)
        here = np.flatnonzero(lower & (state.counts[:, n] > 0))
        victims = [h for h in here[np.argsort(priority[here], kind="stable")].tolist() for _ in range(int(state.counts[h, n]))]
        for h in victims:
            if state.landing(g, -1)[n] or walk.over():
                break
            if walk.within(h, eviction=True) and state.may_go(h, n):
                walk.take(Step(h, n, -1))
        if state.landing(g, -1)[n]:
            walk.take(Step(g, -1, n))
            taken = walk.steps[before:]
            if best is None or len(taken) < len(best):
                best = list(taken)
        walk.back_to(before)
        if best is not None and len(best) == 2:
            break
    for step in best or ():
        walk.take(step)
    return best is not None
