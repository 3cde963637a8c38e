"""The greedy pass: direct steps from sources to sinks of each class while one is accepted.

A class is checked again only after a relevant change: a pod left one of the nodes that the class waits for, or
a rule over several nodes links it to the class of a step. So the work grows with the number of steps, not with
steps times nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.sequencing.dependencies import Dependencies
from kubestow.solver.rebalance.sequencing.gang_binding import bind_gang
from kubestow.solver.rebalance.sequencing.remaining_moves import RemainingMoves


class GreedyPass:
    """A sequence of accepted steps under construction.

    Attributes:
        steps: Steps so far.
        over: Returns True if the pass has to stop.
    """

    def __init__(
        self,
        problem: RebalanceProblem,
        state: PlanState,
        remaining: RemainingMoves,
        links: Dependencies,
        over: Callable[[], bool],
    ) -> None:
        self.problem, self.state, self.remaining, self.links, self.over = problem, state, remaining, links, over
        self.steps: list[Step] = []
        self._dirty = set(remaining.active())
        largest = np.maximum(problem.cluster.allocatable.max(axis=0, initial=1), 1)
        self.size: Ints = (problem.cluster.demand * 1000 // largest).max(axis=1, initial=0)  # thousandths of the largest node

    # --- steps -----------------------------------------------------------------------------------------------------------------

    def take(self, step: Step) -> None:
        """Take an accepted step, and mark the classes that it may have unblocked."""
        self.state.apply(step)
        self.remaining.note(step)
        self.steps.append(step)
        self._wake(step)

    def _wake(self, step: Step) -> None:
        self._dirty.update(h for h in self.links.near(step.g) if self.remaining.of[h])
        if step.a >= 0:
            self._dirty |= self.remaining.seekers.get(step.a, set())
        if self.remaining.of[step.g]:
            self._dirty.add(step.g)

    def undo(self) -> None:
        """Take back all steps."""
        for step in reversed(self.steps):
            self.state.undo(step)
            self.remaining.note(step, -1)

    def run(self) -> bool:
        """Take direct steps until none remain (return True) or none is accepted (return False)."""
        gangs = self._gangs()
        while not self.over():
            while self._dirty and not self.over():
                for g in self._by_urgency(self._dirty):
                    self._dirty.discard(g)
                    if not self._in_gang(g):
                        self._cross_node(g) if self.links.cross_node[g] else self._local(g)
                    if self.over():
                        return not self.remaining.required_steps
            if not sum(self._bind(members) for members in gangs):
                break
        return not self.remaining.required_steps

    def _in_gang(self, g: int) -> bool:
        return bool(self.problem.pending[g]) and self.problem.cluster.classes[g].gang is not None

    def _gangs(self) -> list[list[int]]:
        """Return the pending classes of each gang, gangs of higher priority first."""
        found: dict[int, list[int]] = {}
        for g in self.remaining.active():
            gang = self.problem.cluster.classes[g].gang
            if gang is not None and self.problem.pending[g]:
                found.setdefault(gang, []).append(g)
        priority = self.problem.cluster.priority
        return sorted(found.values(), key=lambda members: (-int(priority[members].min()), members))

    def _bind(self, members: list[int]) -> bool:
        """Bind the remaining pods of a gang; return True if any were bound."""
        cells = {(g, n): k for g in members for n, k in self.remaining.of[g].items()}
        steps = bind_gang(self.state, cells) if cells else None
        for step in steps or ():
            self.remaining.note(step)
            self.steps.append(step)
            self._wake(step)
        return bool(steps)

    def _by_urgency(self, classes: Iterable[int]) -> list[int]:
        """Return classes in the order to move them: those whose sources others wait for, then the largest."""
        ordered = sorted(classes)
        wanted = {g: sum(int(self.remaining.coming[a]) for a in self.remaining.sources(g) if a >= 0) for g in ordered}
        ordered.sort(key=lambda g: (-int(wanted[g] > 0), -int(self.size[g]), -wanted[g]))
        return ordered

    def _sources(self, g: int) -> list[int]:
        """Return the nodes to leave, first those that others wait for."""
        return sorted(self.remaining.sources(g), key=lambda a: -int(self.remaining.coming[a]) if a >= 0 else 0)

    def _open_sinks(self, g: int, mask: Bools) -> list[int]:
        """Return the sinks that a mask allows.

        The emptiest domains of constraints come first, then nodes that no pod is to leave.
        """
        sinks = [b for b in self.remaining.sinks(g) if mask[b]]
        levels = [level for face in self.state.faces if (level := face.level(g)) is not None] if len(sinks) > 1 else []
        sinks.sort(key=lambda b: (*(int(level[b]) for level in levels), int(self.remaining.leaving[b])))
        return sinks

    def _local(self, g: int) -> None:
        """Take steps of a class that judges each node on its own: one query for all its pods."""
        remaining = self.remaining
        while True:
            sources = self._sources(g)
            if not sources or not remaining.sinks(g):
                break
            sinks = self._open_sinks(g, self.state.landing(g, sources[0]))
            room = self.state.fit.room(g) if self.links.simple[g] and sinks and not self.state.waits else None
            for b in sinks:
                space = 1 if room is None else int(room[b])
                while space and sources and remaining.of[g].get(b, 0) > 0:
                    a = sources[0]
                    k = min(space, remaining.of[g][b], remaining.to_leave(g, a))
                    self.take(Step(g, a, b, k))
                    space -= k
                    if not remaining.to_leave(g, a):
                        sources.pop(0)
            if room is not None or not sinks:
                break
        self._evict(g)
        self._dirty.discard(g)

    def _cross_node(self, g: int) -> None:
        """Take steps of a class that rules over several nodes concern, one pod at a time, as long as some node accepts one.

        Then evict pods of the class as :meth:`_evict` does.
        """
        for a in self._sources(g):
            while self.remaining.to_leave(g, a) and not self.over():
                sinks = self._open_sinks(g, self._near(g, a, self.state.landing(g, a))) if self.remaining.sinks(g) else []
                if not sinks:
                    break
                self.take(Step(g, a, sinks[0]))
        self._evict(g)

    def _near(self, g: int, a: int, mask: Bools) -> Bools:
        """Return the sinks of ``mask``; if waves are limited, only those in the pod's own domains where there are any."""
        if self.problem.limits.maxWaves is None or a < 0:
            return mask
        sinks = np.zeros_like(mask)
        sinks[self.remaining.sinks(g)] = True
        return self.state.prefer_own_domain(g, a, mask & sinks)

    def _evict(self, g: int) -> None:
        """Evict pods that no sink accepts now."""
        for a in self._sources(g) if self.remaining.going.get(g, 0) > 0 else ():
            while self.remaining.going[g] and self.remaining.to_leave(g, a) and self.state.may_go(g, a):
                self.take(Step(g, a, -1))
