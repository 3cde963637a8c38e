"""Dead ends: moves that wait for each other, and stopovers through a spare place that let them go on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solver.rebalance.problem.problem import Step
from solver.rebalance.sequencing.greedy_pass import Walker

#: Stopovers that are weighed before one is taken, and what each is weighed by: moves that it may set free.
CHOICES = 12
WAITING = 8
#: Spare places that are tried for each pod, and pods that may leave one node to make room for another.
PLACES = 3
CLEARED = 6


def waiting_in_circle(moves: Sequence[Step]) -> list[Step]:
    """Return, of moves that are all refused, some that wait for each other in a circle, each for the node that the next leaves; all of them
    if there is no circle."""
    leaving: dict[int, list[int]] = {}
    for i, step in enumerate(moves):
        if step.a >= 0:
            leaving.setdefault(step.a, []).append(i)
    done: set[int] = set()
    for root in range(len(moves)):
        path: list[int] = []
        at: dict[int, int] = {}
        rest = [[root]]
        while rest:
            if not rest[-1]:
                rest.pop()
                if path:
                    gone = path.pop()
                    done.add(gone)
                    del at[gone]
                continue
            i = rest[-1].pop(0)
            if i in at:
                return [moves[j] for j in path[at[i] :]]
            if i in done:
                continue
            at[i] = len(path)
            path.append(i)
            rest.append(list(leaving.get(moves[i].b, ())))
    return list(moves)


def go_on(walker: Walker) -> bool:
    """Run the pass, and break each dead end by a stopover, until nothing is left (then True) or none is found."""
    tries = 2 * walker.gap.left + 20
    while not walker.run():
        if walker.over() or not tries or not walker.gap.allows_any() or not (_stopover(walker) or _clear(walker)):
            return False
        tries -= 1
    return True


def _places(walker: Walker, g: int, a: int) -> list[int]:
    """Return where a pod may make a stopover: nodes to which nobody is to come first, then those with most room."""
    gap, fit = walker.gap, walker.fit
    nodes = np.flatnonzero(walker.state.landing(g, a))
    if walker.rng is not None:
        return [int(n) for n in walker.rng.sample(nodes.tolist(), min(PLACES, len(nodes)))]
    demand, held = walker.problem.cluster.demand[g], walker.problem.cluster.allocatable.sum(axis=0)
    scarcest = int(np.argmax(demand * 1000 // np.maximum(held, 1))) if len(demand) else 0
    free = fit.free[nodes, scarcest] if len(demand) else fit.slots[nodes]
    order = np.lexsort((-free, gap.leaving[nodes], gap.coming[nodes]))
    return [int(nodes[i]) for i in order[:PLACES]]


def _freed(walker: Walker, g: int, a: int) -> list[Step]:
    """Moves that are accepted now that a pod of class g has left node a: of those that wait for the node, then of classes tied to g."""
    gap, state, found = walker.gap, walker.state, []
    here = sorted(gap.seekers.get(a, ()), key=lambda h: -int(walker.size[h]))
    near = sorted(h for h in walker.links.near(g) if gap.of[h] and h not in here)
    for h in [*here, *near][:WAITING]:
        if walker.problem.pending[h] and walker.problem.cluster.classes[h].gang is not None:
            continue  # bound whole, by the pass
        for source in gap.sources(h)[: WAITING if walker.links.tied[h] else 1]:
            mask = state.landing(h, source)
            found += [Step(h, source, b) for b in gap.sinks(h) if mask[b]][:1]
    return found


def _stopover(walker: Walker) -> bool:
    """Take one pod that has to move anyway to a spare place, such that most others can go on; whether there is one."""
    gap = walker.gap
    stuck = [(g, a) for g in gap.active() for a in gap.sources(g) if a >= 0 and gap.allows(g, 1)]
    cost = walker.problem.cost
    if walker.rng is not None:
        walker.rng.shuffle(stuck)
    else:
        stuck.sort(key=lambda ga: (-int(gap.coming[ga[1]] > 0), int(cost[ga[0]]), int(walker.size[ga[0]])))
    best: tuple[int, int, Step] | None = None
    tried = 0
    for g, a in stuck:
        if walker.over() or (tried >= CHOICES and best is not None):
            break
        for b in _places(walker, g, a):
            tried += 1
            step = Step(g, a, b)
            walker.state.apply(step)
            gap.note(step)
            freed = len(_freed(walker, g, a))
            gap.note(step, -1)
            walker.state.undo(step)
            if freed and (best is None or (-freed, int(cost[g])) < best[:2]):
                best = (-freed, int(cost[g]), step)
    if best is None:
        return False
    walker.take(best[2])
    freed_moves = _freed(walker, best[2].g, best[2].a)
    if freed_moves:
        walker.take(freed_moves[0])  # before somebody else takes the place
    return True


def _clear(walker: Walker) -> bool:
    """Take several pods, or ones that need not move at all, away from a node until a move that waits for it is accepted; whether
    one was."""
    gap, state, problem = walker.gap, walker.state, walker.problem
    stuck = sorted(gap.moves(), key=lambda s: (int(walker.size[s.g]), s.g, s.a, s.b))
    if walker.rng is not None:
        walker.rng.shuffle(stuck)
    for move in stuck[: 2 * CHOICES]:
        if move.b < 0 or (problem.pending[move.g] and problem.cluster.classes[move.g].gang is not None):
            continue
        length = len(walker.steps)
        here = [h for h in np.flatnonzero((state.counts[:, move.b] > 0) & problem.movable).tolist() if h != move.g]
        here.sort(key=lambda h: (gap.extra(h, move.b, -1), int(problem.cost[h]), -int(walker.size[h]), h))
        if walker.rng is not None:
            walker.rng.shuffle(here)
        done = False
        for h in here:
            while not done and len(walker.steps) < length + CLEARED and state.counts[h, move.b] > 0 and not walker.over():
                places = [b for b in _places(walker, h, move.b) if gap.allows(h, gap.extra(h, move.b, b))]
                if not places:
                    break
                walker.take(Step(h, move.b, places[0]))
                done = bool(state.landing(move.g, move.a)[move.b])
        if done:
            walker.take(Step(move.g, move.a, move.b))
            return True
        walker.back_to(length, refused=True)
    return False
