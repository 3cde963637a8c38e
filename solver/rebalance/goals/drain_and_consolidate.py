"""The drain and the goal consolidate: empty nodes pod by pod, by accepted steps.

A drain empties the named nodes; consolidation frees as many other nodes as it can.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.tiers.packing import FreedNodesProgram

#: Repetitions of consolidation with the nodes freed last time closed from the start.
MAX_REPEATED_PASSES = 3
#: Percent of the other nodes' residual capacity that the nodes of the first guess may use.
MAX_GUESSED_FILL_PERCENT = 92
#: Consecutive nodes that cannot be freed, even by moving other pods away, before consolidation ends.
MAX_FAILED_NODES = 30
#: Consecutive failures to make room for pods of a class, after which the class is skipped.
MAX_FAILURES_PER_CLASS = 3
#: Nodes on which room is made for one pod by moving others away.
MAX_NODES_PER_POD = 12


def drain(builder: MoveBuilder) -> None:
    """Move pods off the nodes to be drained.

    If a pod finds no place, others make room for it. If that fails, it is evicted if allowed; then pods of high
    priority get places first.
    """
    problem = builder.problem
    leaving = [(g, n) for n in sorted(problem.drain, key=lambda n: len(builder.running(n))) for g in builder.running(n)]
    if problem.evictable.any():
        leaving.sort(key=lambda entry: -int(problem.cluster.priority[entry[0]]))
    remaining: list[tuple[int, int]] = []
    for g, n in leaving:
        if builder.over():
            return
        if not move_off(builder, g, n):
            remaining.append((g, n))
    failed: dict[int, int] = {}  # by class: consecutive failures to make room
    for g, n in remaining:
        if builder.over():
            return
        if move_off(builder, g, n) or (failed.get(g, 0) < MAX_FAILURES_PER_CLASS and make_room(builder, g, n)):
            failed[g] = 0
            continue
        failed[g] = failed.get(g, 0) + 1
        if problem.evictable[g] and builder.within(g, eviction=True) and builder.state.may_go(g, n):
            builder.take(Step(g, n, -1))


def move_off(builder: MoveBuilder, g: int, n: int, allowed: Bools | None = None) -> bool:
    """Move one pod of class g from node n to the fullest node that accepts it; return True if there is one."""
    mask = builder.places(g, n)
    if allowed is not None:
        mask &= allowed
    if not mask.any():
        return False
    if builder.problem.limits.maxWaves is not None:
        mask = builder.state.prefer_own_domain(g, n, mask)
    builder.take(Step(g, n, builder.tightest(g, mask)))
    return True


def make_room(builder: MoveBuilder, g: int, a: int, allowed: Bools | None = None) -> bool:
    """Move pods away from a node so that one pod of class g gets a place there; each pod moves once.

    Args:
        a: Node of the pod; -1 if it is pending.
        allowed: Nodes that may receive pods, bool[N]; None: all.

    Returns:
        True if the pod got a place.
    """
    problem, state = builder.problem, builder.state
    lack = np.maximum(problem.cluster.demand[g] - state.fit.free, 0) / np.maximum(problem.cluster.allocatable.max(axis=0, initial=1), 1)
    could = problem.movable @ state.counts > 0
    could &= ~problem.closed & ~state.never(g)
    if allowed is not None:
        could &= allowed
    if a >= 0:
        could[a] = False
    nodes = np.flatnonzero(could)
    for n in nodes[np.argsort(lack[nodes].sum(axis=1), kind="stable")][:MAX_NODES_PER_POD].tolist():
        before = len(builder.steps)
        for h in reversed(builder.running(n)):  # the smallest first
            if builder.over():
                break
            if builder.places(g, a)[n]:
                break
            move_off(builder, h, n, allowed)
        if builder.places(g, a)[n]:
            builder.drop_needless(before, lambda n=n: bool(builder.places(g, a)[n]))  # type: ignore[misc]
            builder.take(Step(g, a, n))
            return True
        builder.rewind_to(before)
    return False


def consolidate(builder: MoveBuilder, price: Ints, max_freed: int | None = None, packing: FreedNodesProgram | None = None) -> None:
    """Free nodes one by one, those with the lowest cost of moves relative to their price first.

    Pods that went to a node which was freed later moved twice. So the nodes that can be freed are closed from
    the beginning in a second pass. This is repeated
    as long as it frees no fewer nodes.

    Args:
        price: Value of a freed node, int64[N].
        max_freed: Largest number of nodes to free.
        packing: Proposes the nodes of the first guess if ``max_freed`` is None.
    """
    problem = builder.problem
    begin = len(builder.steps)
    load = (problem.movable | problem.pending) @ builder.state.counts
    used = problem.freeable & (load > 0) & ~(problem.pending @ builder.state.counts > 0)
    open_ = ~(problem.freeable & (load == 0)) & ~problem.closed  # empty nodes stay empty
    move_cost = (problem.movable * problem.cost) @ builder.state.counts
    order = np.flatnonzero(used)
    order = order[np.lexsort((order, (move_cost[order] * 1000) // np.maximum(price[order], 1)))]
    firsts = [_guess(builder, order, open_, max_freed)]
    if packing is not None and max_freed is None and len(order):
        chosen = packing.chosen(price, move_cost)
        firsts += [] if chosen is None else [chosen & used]
    empty = partial(_pass, builder, order, open_, max_freed)
    best, steps = _freed_from(builder, empty, firsts[0], price)
    for first in firsts[1:]:
        if builder.over():
            break
        builder.rewind_to(begin)
        freed, made = _freed_from(builder, empty, first, price)
        if (int(price[freed].sum()), -_moves(made)) > (int(price[best].sum()), -_moves(steps)):
            best, steps = freed, made
    builder.rewind_to(begin)
    for step in steps:
        builder.take(step)
    if best.any():
        _push(builder, order, open_ & ~best, best, max_freed)


def _freed_from(builder: MoveBuilder, empty: Callable[[Bools], Bools], first: Bools, price: Ints) -> tuple[Bools, list[Step]]:
    """Empty nodes, assuming that ``first`` (bool[N]) can be freed; then repeat with the nodes that were freed.

    Args:
        empty: One pass over the nodes, the wanted ones first. Returns the freed nodes, bool[N].

    Returns:
        The freed nodes, bool[N], and the steps.
    """
    begin = len(builder.steps)
    best = empty(first)
    steps = builder.steps[begin:]
    for _ in range(MAX_REPEATED_PASSES):
        if builder.over() or not best.any():
            break
        builder.rewind_to(begin)
        freed = empty(best)
        gained = int(price[freed].sum()) - int(price[best].sum())
        if gained < 0 or (not gained and _moves(builder.steps[begin:]) >= _moves(steps)):
            break
        best, steps = freed, builder.steps[begin:]
    return best, steps


def _guess(builder: MoveBuilder, order: Ints, open_: Bools, max_freed: int | None) -> Bools:
    """Return the first nodes in order whose total load nearly fills the residual capacity of the others, bool[N]."""
    cluster, state = builder.problem.cluster, builder.state
    counts = state.counts * builder.problem.movable[:, None]
    load = np.concatenate([counts.T @ cluster.demand, counts.sum(axis=0)[:, None]], axis=1)[order]
    room = np.concatenate([np.maximum(state.fit.free, 0), np.maximum(state.fit.slots, 0)[:, None]], axis=1)
    wanted = np.cumsum(load, axis=0)
    residual = room[open_].sum(axis=0) - np.cumsum(room[order], axis=0)
    fine = (wanted * 100 <= residual * MAX_GUESSED_FILL_PERCENT).all(axis=1)
    size = int(np.argmin(fine)) if not fine.all() else len(order)
    found = np.zeros(len(open_), dtype=bool)
    found[order[: size if max_freed is None else min(size, max_freed)]] = True
    return found


def _push(builder: MoveBuilder, order: Ints, target: Bools, freed: Bools, max_freed: int | None) -> None:
    """Retry the remaining nodes, now also moving pods of other nodes.

    Args:
        target: Nodes that may receive pods, bool[N].
        freed: Nodes that are free, bool[N].
    """
    count, failed = int(np.count_nonzero(freed)), 0
    for n in order[~freed[order]].tolist():
        if builder.over() or failed > MAX_FAILED_NODES or (max_freed is not None and count >= max_freed):
            return
        failed += 1
        if _empty(builder, n, target, push=True):
            target[n] = False
            count, failed = count + 1, 0


def _moves(steps: list[Step]) -> int:
    return sum(step.k for step in steps if step.b >= 0)


def _pass(builder: MoveBuilder, order: Ints, open_: Bools, max_freed: int | None, wanted: Bools) -> Bools:
    """Empty nodes in order, those in ``wanted`` (bool[N]) first; these accept no pods. Return the freed nodes."""
    freed = np.zeros(len(open_), dtype=bool)
    target = open_ & ~wanted
    for n in [*order[wanted[order]].tolist(), *order[~wanted[order]].tolist()]:
        if builder.over() or (max_freed is not None and np.count_nonzero(freed) >= max_freed):
            break
        if not builder.state.counts[builder.problem.movable, n].any():
            continue
        freed[n] = _empty(builder, n, target)
        target[n] = not freed[n]
    return freed


def _empty(builder: MoveBuilder, n: int, target: Bools, *, push: bool = False) -> bool:
    """Move all movable pods off a node onto other nodes. Return False, with the node restored, if that fails.

    Args:
        target: Nodes that may take pods, bool[N].
        push: Pods on these nodes may be moved to make room.
    """
    before = len(builder.steps)
    others = target.copy()
    others[n] = False
    for g in builder.running(n):
        if not move_off(builder, g, n, others) and not (push and make_room(builder, g, n, others)):
            builder.rewind_to(before)
            return False
    return True
