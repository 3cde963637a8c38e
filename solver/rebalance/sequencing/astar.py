"""The fewest steps to a placement, by A* over the states that accepted steps reach.

The steps that the counts still require are a lower bound on the remaining steps. Stopovers of any movable pod
are included. See docs/algorithms/plans.md (Order of steps).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.sequencing.gang_binding import bind_gang
from kubestow.solver.rebalance.sequencing.remaining_moves import RemainingMoves

#: Limit on expanded states.
MAX_STATES = 30_000
#: Limit on (node, class) verdicts.
MAX_VERDICTS = 4_000_000
#: Fixed cost of a query of the state, in verdicts.
QUERY_VERDICTS = 40


@dataclass(slots=True)
class _SearchNode:
    """A path to a state: ``steps`` after those of ``parent``."""

    parent: _SearchNode | None
    steps: tuple[Step, ...]


@dataclass
class ShortestOrder:
    """The result of an order search.

    Attributes:
        steps: The fewest steps, or None.
        complete: True if it is proved that no sequence has fewer steps, or that there is none within the
            limits.
    """

    steps: list[Step] | None
    complete: bool


class OrderSearch:
    """One search. ``state`` and ``remaining`` are at the start before and after it.

    Args:
        verdicts: Limit on (node, class) verdicts.
    """

    def __init__(
        self, problem: RebalanceProblem, state: PlanState, remaining: RemainingMoves, over: Callable[[], bool], verdicts: int = MAX_VERDICTS
    ) -> None:
        self.problem, self.state, self.remaining, self.over, self.verdicts = problem, state, remaining, over, verdicts
        self._rows = np.flatnonzero(problem.movable | problem.pending)
        self._movers = np.flatnonzero(problem.movable).tolist()
        self._path: list[_SearchNode] = []
        self._work = 0
        self._cut = False  # the search ended early
        self._apart = True  # no gang was bound as a unit whose pods might be bound apart

    def run(self, most_detours: int | None) -> ShortestOrder:
        """Search for a sequence with no more than ``most_detours`` detours (None: any number)."""
        root = _SearchNode(None, ())
        # (detours of the next successors, -number, detours that these add, node)
        queue: list[tuple[int, int, int, _SearchNode]] = [(0, 0, 0, root)]
        number = 0
        seen: set[Hashable] = set()
        found: list[Step] | None = None
        while queue:
            detours, _, level, node = heapq.heappop(queue)
            self._go(node)
            if level == 0:
                key = self._key()
                if key in seen:
                    continue
                seen.add(key)
                if not self.remaining.required_steps:
                    found = [step for way in self._path for step in way.steps]
                    break
            if self._cut or len(seen) > MAX_STATES:
                self._cut = True
                break
            for steps in self._successors(level):
                number += 1
                heapq.heappush(queue, (detours, -number, 0, _SearchNode(node, steps)))
            if level < 2 and (most_detours is None or detours < most_detours):
                number += 1
                heapq.heappush(queue, (detours + 1, -number, level + 1, node))
        self._go(root)
        return ShortestOrder(found, not self._cut and self._apart)

    def _key(self) -> Hashable:
        """Return a key that determines how a state can continue."""
        paths = tuple(path for rule in self.state.rules if (path := rule.path()) is not None)
        return (self.state.counts[self._rows].tobytes(), self.state.arrived[self._rows].tobytes(), paths, self.remaining.spent())

    def _go(self, node: _SearchNode) -> None:
        """Bring the state to a node of the search, by way of the last common ancestor."""
        way: list[_SearchNode] = []
        at: _SearchNode | None = node
        while at is not None and at.parent is not None:
            way.append(at)
            at = at.parent
        way.reverse()
        same = 0
        while same < min(len(way), len(self._path)) and way[same] is self._path[same]:
            same += 1
        while len(self._path) > same:
            for step in reversed(self._path.pop().steps):
                self.state.undo(step)
                self.remaining.note(step, -1)
        for part in way[same:]:
            for step in part.steps:
                self.state.apply(step)
                self.remaining.note(step)
            self._path.append(part)

    def _landing(self, g: int, a: int) -> Ints:
        self._work += QUERY_VERDICTS + self.problem.cluster.n_nodes
        self._cut |= self._work > self.verdicts or self.over()
        return np.flatnonzero(self.state.landing(g, a))

    def _successors(self, level: int) -> Iterator[tuple[Step, ...]]:
        """Yield the accepted steps that make ``level`` detours."""
        remaining, counts = self.remaining, self.state.counts
        if level == 0:
            yield from self._bindings()
        for g in self._movers:
            if not remaining.allows(g, level) or (level == 0 and not remaining.of[g]):
                continue
            sources = np.flatnonzero(counts[g]).tolist() if level else remaining.sources(g)
            sinks = remaining.sinks(g)
            for a in sources:
                own = remaining.extra(g, a, -1)
                evict = own == level and remaining.going.get(g, 0) > 0 and bool(self.problem.evictable[g])
                if evict and self.state.may_go(g, a):
                    yield (Step(g, a, -1),)
                if self._cut:
                    return
                if 0 <= level - own <= 1 and (level > own or sinks):
                    yield from ((Step(g, a, b),) for b in self._landing(g, a).tolist() if remaining.extra(g, a, b) == level)

    def _bindings(self) -> Iterator[tuple[Step, ...]]:
        gangs: dict[int, dict[tuple[int, int], int]] = {}
        for g in self.remaining.active():
            if not self.problem.pending[g]:
                continue
            gang = self.problem.cluster.classes[g].gang
            if gang is not None:
                gangs.setdefault(gang, {}).update({(g, n): k for n, k in self.remaining.of[g].items()})
            else:
                yield from ((Step(g, -1, b),) for b in self._landing(g, -1).tolist() if self.remaining.of[g].get(b, 0) > 0)
        for cells in gangs.values():
            self._apart = False
            self._cut |= self.over()
            self._work += sum(cells.values()) * (QUERY_VERDICTS + self.problem.cluster.n_nodes)
            steps = bind_gang(self.state, cells)
            if steps is not None:
                for step in reversed(steps):
                    self.state.undo(step)
                yield tuple(steps)
