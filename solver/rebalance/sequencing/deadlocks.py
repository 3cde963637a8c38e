"""Deadlocks: moves that wait for each other in a cycle, and stopovers on a spare node that break it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.sequencing.greedy_pass import GreedyPass

#: Stopovers that are compared before one is taken.
MAX_STOPOVERS = 12
#: Moves that are checked to rate one stopover.
MAX_WAITING_MOVES = 8
#: Spare nodes that are tried for each pod.
MAX_SPARE_NODES = 3


def waiting_in_cycle(moves: Sequence[Step]) -> list[Step]:
    """Return refused moves that wait for each other in a cycle, each for the node that the next one leaves.

    If there is no cycle, return all moves.
    """
    leaving: dict[int, list[int]] = {}
    for i, step in enumerate(moves):
        if step.a >= 0:
            leaving.setdefault(step.a, []).append(i)
    done: set[int] = set()
    for root in range(len(moves)):
        path: list[int] = []
        at: dict[int, int] = {}
        stack = [[root]]
        while stack:
            if not stack[-1]:
                stack.pop()
                if path:
                    gone = path.pop()
                    done.add(gone)
                    del at[gone]
                continue
            i = stack[-1].pop(0)
            if i in at:
                return [moves[j] for j in path[at[i] :]]
            if i in done:
                continue
            at[i] = len(path)
            path.append(i)
            stack.append(list(leaving.get(moves[i].b, ())))
    return list(moves)


def break_deadlocks(greedy: GreedyPass) -> bool:
    """Run the pass and break each deadlock by a stopover; return True once no moves remain, False if stuck."""
    tries = 2 * greedy.remaining.required_steps + 20
    while not greedy.run():
        if greedy.over() or not tries or not greedy.remaining.allows_any() or not _stopover(greedy):
            return False
        tries -= 1
    return True


def _places(greedy: GreedyPass, g: int, a: int) -> list[int]:
    """Return nodes for a stopover: first those that no pod is to come to, then those with the most room."""
    remaining, fit = greedy.remaining, greedy.state.fit
    nodes = np.flatnonzero(greedy.state.landing(g, a))
    demand, total = greedy.problem.cluster.demand[g], greedy.problem.cluster.allocatable.sum(axis=0)
    scarcest = int(np.argmax(demand * 1000 // np.maximum(total, 1))) if len(demand) else 0
    free = fit.free[nodes, scarcest] if len(demand) else fit.slots[nodes]
    order = np.lexsort((-free, remaining.leaving[nodes], remaining.coming[nodes]))
    return [int(nodes[i]) for i in order[:MAX_SPARE_NODES]]


def _freed(greedy: GreedyPass, g: int, a: int) -> list[Step]:
    """Return moves that are accepted now that a pod of class g has left node a.

    Moves that wait for the node come first, then those of classes that depend on g.
    """
    remaining, state, found = greedy.remaining, greedy.state, []
    here = sorted(remaining.seekers.get(a, ()), key=lambda h: -int(greedy.size[h]))
    near = sorted(h for h in greedy.links.near(g) if remaining.of[h] and h not in here)
    for h in [*here, *near][:MAX_WAITING_MOVES]:
        if greedy.problem.pending[h] and greedy.problem.cluster.classes[h].gang is not None:
            continue  # bound as a unit, by the pass
        for source in remaining.sources(h)[: MAX_WAITING_MOVES if greedy.links.cross_node[h] else 1]:
            mask = state.landing(h, source)
            found += [Step(h, source, b) for b in remaining.sinks(h) if mask[b]][:1]
    return found


def _stopover(greedy: GreedyPass) -> bool:
    """Move one pod that has to move anyway to the spare node that lets the most other moves continue.

    Returns:
        True if there is such a stopover.
    """
    remaining = greedy.remaining
    stuck = [(g, a) for g in remaining.active() for a in remaining.sources(g) if a >= 0 and remaining.allows(g, 1)]
    cost = greedy.problem.cost
    stuck.sort(key=lambda ga: (-int(remaining.coming[ga[1]] > 0), int(cost[ga[0]]), int(greedy.size[ga[0]])))
    best: tuple[int, int, Step] | None = None
    tried = 0
    for g, a in stuck:
        if greedy.over() or (tried >= MAX_STOPOVERS and best is not None):
            break
        for b in _places(greedy, g, a):
            tried += 1
            step = Step(g, a, b)
            greedy.state.apply(step)
            remaining.note(step)
            freed = len(_freed(greedy, g, a))
            remaining.note(step, -1)
            greedy.state.undo(step)
            if freed and (best is None or (-freed, int(cost[g])) < best[:2]):
                best = (-freed, int(cost[g]), step)
    if best is None:
        return False
    greedy.take(best[2])
    freed_moves = _freed(greedy, best[2].g, best[2].a)
    if freed_moves:
        greedy.take(freed_moves[0])  # before another pod takes the place
    return True
