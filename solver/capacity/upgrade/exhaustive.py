"""The exhaustive search over courses of a small upgrade: all orders of nodes and all destinations of their pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from kubestow.solver.capacity.upgrade.course import UpgradeCourse, WaveDraft, open_, preference, surging
from kubestow.solver.capacity.upgrade.state import PoolState
from kubestow.solver.rebalance.problem.problem import Step

#: Maximum number of states to visit.
MAX_STATES = 10_000
_Key = tuple[object, ...]


class UpgradeExplorer:
    """A depth-first search that remembers dead ends.

    Each wave drains one node. Draining one after another reaches everything that draining at once does,
    because a node that is not yet drained can still receive pods.

    Attributes:
        surge: Number of nodes that may exist beyond the pool's size.
        charge: Called for every state.
        complete: True while no limit has ended the search.
    """

    def __init__(self, state: PoolState, surge: int, over: Callable[[], bool], charge: Callable[[], None]) -> None:
        self.state, self.pool, self.surge = state, state.pool, surge
        self._over, self._charge, self._left = over, charge, MAX_STATES
        self._dead: set[_Key] = set()
        self._level = preference(self.pool)
        self._all: list[int] = []
        self._sizes: Counter[str] = Counter()
        self.complete = True

    def run(self, nodes: Sequence[int]) -> UpgradeCourse | None:
        """Return a course that drains all of these nodes.

        None proves that there is none if ``complete`` is true; otherwise the search ended early.
        """
        waves: list[WaveDraft] = []
        self._all = list(nodes)
        self._sizes = Counter(self.pool.domain[n] for n in nodes)
        return UpgradeCourse(waves, [], proved=True) if self._waves(list(nodes), waves) else None

    def _stop(self) -> bool:
        self._left -= 1
        self._charge()
        if self._left < 0 or self._over():
            self.complete = False
        return not self.complete

    def _waves(self, undrained: list[int], waves: list[WaveDraft]) -> bool:
        if not undrained:
            return True
        state, new = self.state, self.pool.new
        key = ("waves", tuple(undrained), state.present.tobytes(), state.counts.tobytes())
        if key in self._dead or self._stop():
            return False
        mark = state.mark()
        for n in self._next_nodes(undrained):
            wave = WaveDraft([n], surging(state, self.surge, [n, *(m for m in undrained if m != n)]), [])
            state.begin(open_(mark.present, [new[m] for m in wave.surge]))
            state.cordoned[n] = True
            start = state.counts.tobytes() if state.holding else b""
            if self._drain(n, start, wave.steps, lambda n=n, wave=wave: self._next(n, wave, undrained, waves)):  # type: ignore[misc]
                return True
            state.back_to(mark)
            if not self.complete:
                return False
        self._dead.add(key)
        return False

    def _next_nodes(self, undrained: Sequence[int]) -> list[int]:
        """Return the nodes that may be next: those of domains already begun, or of all domains."""
        domain = self.pool.domain
        begun = {domain[n] for n in self._all} - {d for d, k in self._sizes.items() if sum(domain[n] == d for n in undrained) == k}
        open_domains = {domain[n] for n in undrained} & begun or {domain[n] for n in undrained}
        return [n for n in undrained if domain[n] in open_domains]

    def _next(self, n: int, wave: WaveDraft, undrained: list[int], waves: list[WaveDraft]) -> bool:
        """Add the wave of an emptied node, and continue with the other nodes. Return True if all can be drained.

        On failure, restore the state.
        """
        mark = self.state.mark()
        there, new = self.state.present, self.pool.new[n]
        wave.joined = [] if there[new] else [n]
        waves.append(wave)
        self.state.present = open_(there, [new], gone=[n])
        if self._waves([m for m in undrained if m != n], waves):
            return True
        waves.pop()
        self.state.back_to(mark)
        return False

    def _drain(self, n: int, start: bytes, steps: list[Step], then: Callable[[], bool]) -> bool:
        """Move the pods of node n, in every order and to every destination, until ``then`` returns True.

        Return False, with the state restored, if it never does.

        Args:
            start: Identifies the state before the drain.
            steps: The moves so far. Updated.
            then: Continues once the node is empty.
        """
        classes = np.flatnonzero((self.state.counts[:, n] > 0) & self.pool.problem.movable).tolist()
        if not classes:
            return then()
        key = ("drain", n, start, self.state.present.tobytes(), self.state.counts.tobytes())
        if key in self._dead or self._stop():
            return False
        for g in classes:
            nodes = np.flatnonzero(self.state.places(g, n))
            for b in nodes[np.argsort(-self._level[nodes], kind="stable")].tolist():
                step = Step(g, n, b)
                self.state.apply(step)
                steps.append(step)
                if self._drain(n, start, steps, then):
                    return True
                steps.pop()
                self.state.undo(step)
                if not self.complete:
                    return False
        self._dead.add(key)
        return False
