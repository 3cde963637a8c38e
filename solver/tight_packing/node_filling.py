"""Packing of pods onto nodes that all together may leave next to nothing over: node after node is filled, the last few all at once.

A node gets the open pod that is hardest to place, and of some others, drawn at random, a set that leaves hardly anything over
(:mod:`kubestow.solver.tight_packing.node_patterns`). What may be left over is kept for the last nodes, which take all that remains
(:mod:`kubestow.solver.tight_packing.last_nodes`). Where they cannot, some nodes are filled anew. Sets are listed of a few pods at a time:
where nodes have room for more, they begin with pods at random.

Source: Gupta and Ho, the minimum bin slack heuristic, doi:10.1080/095372899232894, which fills one bin at a time as well as can be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.tight_packing.demands import Demands, hardest, next_to_nothing
from kubestow.solver.tight_packing.last_nodes import LastNodes
from kubestow.solver.tight_packing.node_patterns import NodePatterns, NodeRoom


@dataclass(frozen=True)
class FillingParameters:
    """How much is looked at.

    Attributes:
        samples: Open pods of which sets are listed for one node: at first, and where these have none.
        squared: A larger sample that comes after these, times the square of the pods that a node takes.
        places: Pods that such a set has, about: where nodes take more than ``many``, they begin with others.
        many: See there.
        listed: Sets of pods of one node that are listed at most.
        seconds: As many are listed as some part of so much time allows.
        last: Nodes at the end that are filled at once, at most.
        again: Nodes that are opened where these cannot be filled, or no other can be.
        patience: Times in a row that no node can be filled before nodes are opened.
    """

    samples: tuple[int, ...] = (24, 32)
    squared: int = 2_000
    places: int = 8
    many: int = 16
    listed: int = 20_000
    seconds: float = 2.0
    last: int = 6
    again: int = 2
    patience: int = 12


PARAMETERS = FillingParameters()


class NodeFilling:
    """``chosen``: int64[K], the pods of each class of the demands to be packed. Shapes: K classes, N nodes, R resources."""

    def __init__(self, demands: Demands, chosen: Ints, *, seed: int) -> None:
        self.demands = demands
        self.rng = np.random.default_rng(seed)
        self.open = list(range(len(demands.room)))
        self.left = chosen.copy()
        self.spare: Ints = demands.room.sum(axis=0) - chosen @ demands.demand
        self.sizes = demands.sizes
        self.room = (demands.room / np.maximum(demands.room.max(axis=0, initial=1), 1)).sum(axis=1)
        self._found = np.zeros(demands.allowed.shape, dtype=np.int64)

    @property
    def promising(self) -> bool:
        """Return whether so little may be left over that this is the way."""
        return bool((self.spare >= 0).all() and next_to_nothing(self.spare, self.demands.room))

    def counts(self) -> Ints:
        """Return int64[K, N]: pods of each class on each node, as far as it got."""
        return self._found.copy()

    def run(self, over: Callable[[], bool]) -> bool:
        """Fill all nodes, or go on until ``over``, which is asked before every step; whether every pod has room."""
        failed = 0
        while not over():
            nothing = False
            if len(self.open) <= PARAMETERS.last and not failed:
                found, nothing = self._share_out(over)
                if found:
                    return True
            if not nothing and failed < PARAMETERS.patience and len(self.open) > 2:
                failed = 0 if self._fill() else failed + 1
                continue
            filled = self.rng.permutation([n for n in range(len(self.demands.room)) if n not in self.open])
            if not len(filled):
                return False
            for n in filled[: PARAMETERS.again].tolist():
                self._empty(n)
            failed = 0
        return False

    def _fill(self) -> bool:
        """Fill an open node with the open pod that is hardest to place and others; whether there was a set that leaves hardly anything."""
        demands = self.demands
        g = hardest(self.left, demands.allowed[:, self.open].sum(axis=1), self.sizes)
        nodes = [n for n in self.open if demands.allowed[g, n] and (demands.demand[g] <= demands.room[n]).all()]
        if not nodes or not self.left[g]:
            return False
        n = min(self.rng.permutation(nodes).tolist(), key=lambda n: self.room[n])  # the smaller it is, the fewer sets there are
        begun = (np.arange(len(self.left)) == g).astype(np.int64)
        begun += self._begun([n], self.left - begun, demands.room[[n]] - demands.demand[g])[:, 0]
        room, others = demands.room[n] - begun @ demands.demand, np.where(demands.allowed[:, n], self.left - begun, 0)
        pods = self._shuffled(others)
        # half of a node's share may be left over, so that most is kept for the last ones; more of what is plenty
        waste = np.where(self.spare >= demands.room[n], self.spare, self.spare // (2 * len(self.open)))
        for size in self._samples(n):
            some = np.bincount(pods[:size], minlength=len(others))
            sets = NodePatterns(NodeRoom(room, demands.demand, some, waste)).all(PARAMETERS.seconds, PARAMETERS.listed)
            if sets is not None and len(sets):
                lack = sets @ (len(self.open) - demands.allowed[:, self.open].sum(axis=1))  # pods that have few other places go first
                self._put(n, begun + sets[self.rng.choice(np.flatnonzero(lack == lack.max()))])
                return True
        return False

    def _samples(self, n: int) -> list[int]:
        """How many pods are looked at for a node, one sample after the other: more where it takes few, as sets of few are few."""
        takes = float((self.demands.room[n] * self.left.sum() / np.maximum(self.left @ self.demands.demand, 1)).min())
        more = int(PARAMETERS.squared / max(takes, 1.0) ** 2)
        return [*PARAMETERS.samples, *([more] if more > PARAMETERS.samples[-1] else [])]

    def _shuffled(self, pods: Ints) -> Ints:
        """The class of each of some pods (int64[K], of each class), in random order; those that have few other places rather earlier."""
        of = np.repeat(np.arange(len(pods)), pods)
        places = self.demands.allowed[:, self.open].sum(axis=1)
        return of[np.argsort(self.rng.exponential(size=len(of)) * places[of] ** 2, kind="stable")]

    def _begun(self, nodes: Sequence[int], left: Ints, room: Ints) -> Ints:
        """int64[K, n]: what some nodes, that have ``room`` int64[n, R], begin with of the pods ``left`` int64[K]: so many that each has
        places left for some; nothing where they take few."""
        found = np.zeros((len(left), len(nodes)), dtype=np.int64)
        if left.sum() <= PARAMETERS.many * len(self.open):
            return found
        kept = PARAMETERS.places * -(-(left @ self.demands.demand) // left.sum())
        for i, n in enumerate(nodes):
            here = np.where(self.demands.allowed[:, n], left - found.sum(axis=1), 0)
            pods = self._shuffled(here)
            load = np.cumsum(self.demands.demand[pods], axis=0)
            taken = int((load <= room[i] - kept).all(axis=1).sum())
            found[:, i] = np.bincount(pods[:taken], minlength=len(left))
        return found

    def _share_out(self, over: Callable[[], bool]) -> tuple[bool, bool]:
        """Deal all open pods out to the open nodes; whether that was done, and whether it is known that it cannot be."""
        demands = self.demands
        begun = self._begun(self.open, self.left, demands.room[self.open])
        rest = Demands(
            demands.classes, self.left - begun.sum(axis=1), demands.demand, demands.priority,
            demands.room[self.open] - begun.T @ demands.demand, demands.allowed[:, self.open],
        )  # fmt: skip
        last = LastNodes(rest, rng=self.rng, over=over)
        found = last.run()
        if found is None:
            return False, last.complete and not begun.any()  # other pods may begin
        for i, n in enumerate(list(self.open)):
            self._put(n, begun[:, i] + found[:, i])
        return True, False

    def _put(self, n: int, pods: Ints) -> None:
        """Fill an open node."""
        self.open.remove(n)
        self.spare = self.spare - (self.demands.room[n] - pods @ self.demands.demand)
        self.left = self.left - pods
        self._found[:, n] = pods

    def _empty(self, n: int) -> None:
        """Open a node that is filled."""
        pods = self._found[:, n].copy()
        self.open.append(n)
        self.spare = self.spare + (self.demands.room[n] - pods @ self.demands.demand)
        self.left = self.left + pods
        self._found[:, n] = 0
