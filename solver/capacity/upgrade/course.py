"""The waves of an upgrade: each drains as many nodes as possible, with pods moving to new nodes first. Nodes
that resist are retried later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.capacity.upgrade.pool import UpgradePool
from kubestow.solver.capacity.upgrade.state import PoolState
from kubestow.solver.rebalance.problem.problem import Step

#: Return steps that empty a node for which the greedy moves failed; None if there are none.
Packer = Callable[[PoolState, int], list[Step] | None]


@dataclass
class WaveDraft:
    """A wave with nodes as indices.

    Attributes:
        drain: Nodes to drain.
        surge: Old nodes whose replacements join before the drain.
        joined: Old nodes whose replacements join after the drain.
        steps: Moves pod by pod, each accepted in its turn.
    """

    drain: list[int]
    surge: list[int]
    joined: list[int]
    steps: list[Step] = field(default_factory=list)


@dataclass
class UpgradeCourse:
    """A sequence of waves.

    Attributes:
        undrained: Nodes of the pool that no wave drains.
        proved: True if it is proved that no course drains more of the drainable nodes.
    """

    waves: list[WaveDraft] = field(default_factory=list)
    undrained: list[int] = field(default_factory=list)
    proved: bool = False

    @property
    def drained(self) -> int:
        """The number of nodes that all waves drain."""
        return sum(len(wave.drain) for wave in self.waves)

    @property
    def moves(self) -> int:
        """The number of moves in all waves."""
        return sum(len(wave.steps) for wave in self.waves)


class Walk:
    """The construction of waves for one order of nodes.

    Attributes:
        surge: Number of nodes that may exist beyond the pool's size.
        packer: Search for nodes that resist.
        over: Returns True when the walk must end.
        done: Called with the number of drained nodes.
    """

    def __init__(
        self, state: PoolState, surge: int, packer: Packer | None, over: Callable[[], bool], done: Callable[[int], None] = lambda n: None
    ) -> None:
        self.state, self.pool, self.surge, self.packer, self.over, self._done = state, state.pool, surge, packer, over, done
        cluster = self.pool.problem.cluster
        self._size = np.maximum(cluster.allocatable.max(axis=0, initial=1), 1)
        self.roomy = False  # True if, of equally preferred nodes, pods go to the emptiest instead of the fullest
        self._share = (cluster.demand / self._size).max(axis=1, initial=0.0)
        self._level = preference(self.pool)

    def run(self, order: Sequence[int]) -> UpgradeCourse:
        """Return the course that drains nodes in an order, domain by domain, until no single node of a domain can be drained.

        Args:
            order: The nodes to drain.
        """
        course = UpgradeCourse()
        for domain in dict.fromkeys(self.pool.domain[n] for n in order):
            course.undrained += self._domain(course, [n for n in order if self.pool.domain[n] == domain])
        return course

    def _domain(self, course: UpgradeCourse, queue: list[int]) -> list[int]:
        """Drain the nodes of one domain. Return those that remain."""
        while queue and not self.over():
            wave = self._several(queue) or self._single(queue)
            if wave is None:
                break
            course.waves.append(wave)
            tried = queue[: self._limit(queue)]
            queue = [n for n in queue if n not in wave.drain]
            behind = [n for n in tried if n in queue]
            queue = [n for n in queue if n not in behind] + behind
            self._done(course.drained)
        return queue

    # --- one wave -------------------------------------------------------------------------------------------------------------------

    def _limit(self, queue: Sequence[int]) -> int:
        """Return the number of nodes that may be drained at once."""
        return self.state.extra + len(surging(self.state, self.surge, queue)) + self.pool.unavailable

    def _several(self, queue: Sequence[int]) -> WaveDraft | None:
        """Drain as many nodes as allowed at once, or the drainable ones among the first. Return the wave.

        Return None if none can be drained or only one is allowed. No pod has moved then.
        """
        limit = self._limit(queue)
        return self._wave(queue[:limit], queue) if limit > 1 < len(queue) else None

    def _single(self, queue: Sequence[int]) -> WaveDraft | None:
        """Drain the first node that can be drained alone. Return its wave. If there is none, return None; no pod has moved then."""
        for n in queue:
            if self.over():
                return None
            wave = self._wave([n], [n, *(m for m in queue if m != n)])
            if wave is not None:
                return wave
        return None

    def _wave(self, nodes: Sequence[int], queue: Sequence[int]) -> WaveDraft | None:
        state, new = self.state, self.pool.new
        before = state.present
        surge = surging(state, self.surge, queue)
        state.begin(open_(before, [new[n] for n in surge]))
        state.cordoned[list(nodes)] = True
        steps: list[Step] = []
        drained = [n for n in nodes if self._empty(n, steps)]
        if not drained:
            state.present = before
            return None
        joined = [n for n in drained if not state.present[new[n]]]
        state.present = open_(state.present, [new[n] for n in joined], gone=drained)
        return WaveDraft(drained, surge, joined, steps)

    def _empty(self, n: int, steps: list[Step]) -> bool:
        """Move all pods off a cordoned node, and add the moves to ``steps``.

        Return False, with nothing changed, if that fails.
        """
        before = len(steps)
        for g in self.running(n):
            mask = self.state.places(g, n)
            if not mask.any():
                break
            self.take(Step(g, n, self.best(n, mask)), steps)
        else:
            return True
        self.state.undo_all(steps, before)
        packing = self.packer(self.state, n) if self.packer is not None else None
        for step in packing or ():
            self.take(step, steps)
        return packing is not None

    def take(self, step: Step, steps: list[Step]) -> None:
        self.state.apply(step)
        steps.append(step)

    def running(self, n: int) -> list[int]:
        """Return movable classes with pods on a node, one entry per pod, the largest first."""
        counts = self.state.counts[:, n]
        here = np.flatnonzero((counts > 0) & self.pool.problem.movable).tolist()
        return [g for g in sorted(here, key=lambda g: (-self._share[g], g)) for _ in range(int(counts[g]))]

    def best(self, a: int, mask: Bools) -> int:
        """Return the best eligible node: the replacement of the pod's own, or the tightest of the preferred nodes."""
        own = self.pool.new.get(a, -1)
        if own >= 0 and mask[own]:
            return own
        nodes = np.flatnonzero(mask)
        nodes = nodes[self._level[nodes] == self._level[nodes].max()]
        residual = (self.state.fit.free[nodes] / self._size).sum(axis=1)
        return int(nodes[np.argmax(residual) if self.roomy else np.argmin(residual)])


def surging(state: PoolState, surge: int, nodes: Sequence[int]) -> list[int]:
    """Return the given nodes whose replacements may join now, in order."""
    room = surge - state.extra
    return list(islice((n for n in nodes if not state.present[state.pool.new[n]]), max(0, room)))


def preference(pool: UpgradePool) -> Ints:
    """Return int64[N], the preference for nodes as destinations: new nodes, then nodes outside the pool, then
    old nodes, which pods leave again."""
    level = np.ones(pool.problem.cluster.n_nodes, dtype=np.int64)
    level[pool.old] = 0
    level[list(pool.new.values())] = 2
    return level


def open_(present: Bools, new: Sequence[int], gone: Sequence[int] = ()) -> Bools:
    """Return bool[N], the existing nodes after some joined and others left."""
    nodes = present.copy()
    nodes[list(new)] = True
    nodes[list(gone)] = False
    return nodes


def orders(pool: UpgradePool, state: PoolState, nodes: Sequence[int]) -> list[list[int]]:
    """Return promising orders of nodes, domain after domain: as listed, emptiest first, fullest first, fewest
    pods first, grouped by size."""
    share = pool.problem.cluster.demand / np.maximum(pool.problem.cluster.allocatable.max(axis=0, initial=1), 1)
    load = (state.counts.T @ (share.sum(axis=1) * pool.problem.movable)).tolist()
    pods = (pool.problem.movable @ state.counts).tolist()
    domains = {domain: k for k, domain in enumerate(sorted({pool.domain[n] for n in pool.old}))}
    size = pool.problem.cluster.allocatable.tolist()
    keys: list[Callable[[int], object]] = [
        lambda n: 0.0, lambda n: load[n], lambda n: -load[n], lambda n: pods[n], lambda n: (size[n], -load[n]),
    ]  # fmt: skip
    found = [sorted(nodes, key=lambda n, key=key: (domains[pool.domain[n]], key(n))) for key in keys]  # type: ignore[misc]
    return [order for i, order in enumerate(found) if order not in found[:i]]
