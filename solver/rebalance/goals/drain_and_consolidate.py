"""Empty nodes, pod by pod, by steps that are accepted one after the other: those to be drained, and as many others as can be freed."""

from __future__ import annotations

import numpy as np

from models.cluster.cluster import Ints
from models.kube.selectors import Bools
from solver.rebalance.goals.move_builder import Walk
from solver.rebalance.problem.problem import Step

#: Times that consolidation begins anew, knowing which nodes were freed.
PASSES = 3
#: Percent of what the others have left that nodes may hold which are taken for freed at first; nodes in a row that cannot be freed even
#: with others giving way before that ends.
FULL, PATIENCE = 92, 30
#: Times in a row that no room was found for pods of a class, after which it is not tried again.
HOPELESS = 3
#: Nodes on which room is made for one pod by moving others away, at most.
LOOKED = 12


def drain(walk: Walk) -> None:
    """Move pods off the nodes to be drained; where one finds no place, others make room for it, and at last it is evicted if it may be.
    Then the places are for those of high priority first."""
    case = walk.case
    leaving = [(g, n) for n in sorted(case.drain, key=lambda n: len(walk.running(n))) for g in walk.running(n)]
    if case.evictable.any():
        leaving.sort(key=lambda entry: -int(case.cluster.priority[entry[0]]))
    left: list[tuple[int, int]] = []
    for g, n in leaving:
        if walk.over():
            return
        if not move_off(walk, g, n):
            left.append((g, n))
    failed: dict[int, int] = {}  # by class, how often in a row no room was found
    for g, n in left:
        if walk.over():
            return
        if move_off(walk, g, n) or (failed.get(g, 0) < HOPELESS and make_room(walk, g, n)):
            failed[g] = 0
            continue
        failed[g] = failed.get(g, 0) + 1
        if case.evictable[g] and walk.within(g, eviction=True) and walk.state.may_go(g, n):
            walk.take(Step(g, n, -1))


def move_off(walk: Walk, g: int, n: int, allowed: Bools | None = None) -> bool:
    """Move one pod of class g from node n to the fullest node that takes it."""
    mask = walk.places(g, n)
    if allowed is not None:
        mask &= allowed
    if not mask.any():
        return False
    walk.take(Step(g, n, walk.tightest(g, mask)))
    return True


def make_room(walk: Walk, g: int, a: int, allowed: Bools | None = None) -> bool:
    """Give one pod of class g, which runs on node a (-1: is pending), a place by moving pods away from it first; a move each."""
    case, state = walk.case, walk.state
    lack = np.maximum(case.cluster.demand[g] - state.fit.free, 0) / np.maximum(case.cluster.allocatable.max(axis=0, initial=1), 1)
    could = case.movable @ state.counts > 0
    could &= ~case.closed & ~state.never(g)
    if allowed is not None:
        could &= allowed
    if a >= 0:
        could[a] = False
    nodes = np.flatnonzero(could)
    for n in nodes[np.argsort(lack[nodes].sum(axis=1), kind="stable")][:LOOKED].tolist():
        before = len(walk.steps)
        for h in reversed(walk.running(n)):  # the smallest first
            if walk.over():
                break
            if walk.places(g, a)[n]:
                break
            move_off(walk, h, n, allowed)
        if walk.places(g, a)[n]:
            _spare_needless(walk, before, g, a, n)
            walk.take(Step(g, a, n))
            return True
        walk.back_to(before)
    return False


def _spare_needless(walk: Walk, before: int, g: int, a: int, n: int) -> None:
    """Take the moves of :func:`make_room` back that turned out not to be needed, where the rest stands without them."""
    made = walk.steps[before:]
    for skipped in list(made):
        rest = [step for step in made if step is not skipped]
        walk.back_to(before)
        if walk.replay(rest) and walk.places(g, a)[n]:
            made = rest
        else:
            walk.back_to(before)
            walk.replay(made)


def consolidate(walk: Walk, price: Ints, most: int | None = None) -> None:
    """Free nodes one after the other, those first that cost least moves for their price; ``price``: int64[N], what a freed node is worth;
    ``most``: how many at most.

    Pods that went to a node which was freed later moved twice. So once it is known which nodes can be freed, all is done again with those
    closed from the beginning, as long as that frees as many.
    """
    case = walk.case
    begin = len(walk.steps)
    load = (case.movable | case.pending) @ walk.state.counts
    used = case.freeable & (load > 0) & ~(case.pending @ walk.state.counts > 0)
    open_ = ~(case.freeable & (load == 0)) & ~case.closed  # empty nodes stay empty
    worth = (case.movable * case.cost) @ walk.state.counts
    order = np.flatnonzero(used)
    order = order[np.lexsort((order, (worth[order] * 1000) // np.maximum(price[order], 1)))]
    best = _pass(walk, order, open_, _guess(walk, order, open_, most), most)
    steps = walk.steps[begin:]
    for _ in range(PASSES):
        if walk.over() or not best.any():
            return
        walk.back_to(begin)
        found = _pass(walk, order, open_, best, most)
        gained = int(price[found].sum()) - int(price[best].sum())
        if gained < 0 or (not gained and _moves(walk.steps[begin:]) >= _moves(steps)):
            walk.back_to(begin)
            for step in steps:
                walk.take(step)
            break
        best, steps = found, walk.steps[begin:]
    _push(walk, order, open_ & ~best, best, most)


def _guess(walk: Walk, order: Ints, open_: Bools, most: int | None) -> Bools:
    """bool[N]: the first nodes in order whose pods, by their sums, nearly fill what the others have left."""
    cluster, state = walk.case.cluster, walk.state
    counts = state.counts * walk.case.movable[:, None]
    load = np.concatenate([counts.T @ cluster.demand, counts.sum(axis=0)[:, None]], axis=1)[order]
    room = np.concatenate([np.maximum(state.fit.free, 0), np.maximum(state.fit.slots, 0)[:, None]], axis=1)
    wanted = np.cumsum(load, axis=0)
    left = room[open_].sum(axis=0) - np.cumsum(room[order], axis=0)
    fine = (wanted * 100 <= left * FULL).all(axis=1)
    size = int(np.argmin(fine)) if not fine.all() else len(order)
    found = np.zeros(len(open_), dtype=bool)
    found[order[: size if most is None else min(size, most)]] = True
    return found


def _push(walk: Walk, order: Ints, target: Bools, freed: Bools, most: int | None) -> None:
    """Try the nodes that are left once more, with pods of others giving way; bool[N] ``target`` takes pods, ``freed`` are free."""
    count, failed = int(np.count_nonzero(freed)), 0
    for n in order[~freed[order]].tolist():
        if walk.over() or failed > PATIENCE or (most is not None and count >= most):
            return
        failed += 1
        if _empty(walk, n, target, push=True):
            target[n] = False
            count, failed = count + 1, 0


def _moves(steps: list[Step]) -> int:
    return sum(step.k for step in steps if step.b >= 0)


def _pass(walk: Walk, order: Ints, open_: Bools, wanted: Bools, most: int | None) -> Bools:
    """Empty nodes in order, those that are ``wanted`` (bool[N]) first, and none of these takes pods; gives which were freed."""
    freed = np.zeros(len(open_), dtype=bool)
    target = open_ & ~wanted
    for n in [*order[wanted[order]].tolist(), *order[~wanted[order]].tolist()]:
        if walk.over() or (most is not None and np.count_nonzero(freed) >= most):
            break
        if not walk.state.counts[walk.case.movable, n].any():
            continue
        freed[n] = _empty(walk, n, target)
        target[n] = not freed[n]
    return freed


def _empty(walk: Walk, n: int, target: Bools, *, push: bool = False) -> bool:
    """Move all movable pods off a node onto others in use, or leave it as it was; ``push``: pods there may give way."""
    before = len(walk.steps)
    others = target.copy()
    others[n] = False
    for g in walk.running(n):
        if not move_off(walk, g, n, others) and not (push and make_room(walk, g, n, others)):
            walk.back_to(before)
            return False
    return True
