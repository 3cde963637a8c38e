"""A few nodes that are to take all of some pods, though they may leave next to nothing over: found, or shown not to be possible.

Of each kind of node all sets of pods are listed that leave no more than may be left over in all
(:mod:`kubestow.solver.tight_packing.node_patterns`). The pod that is hardest to place has to be in one of these, on some node; what remains
is dealt out to the other nodes in the same way.

Source: Knuth, Dancing links, arXiv:cs/0011047, on exact covers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.tight_packing.demands import Demands, hardest
from kubestow.solver.tight_packing.node_patterns import NodePatterns, NodeRoom


@dataclass(frozen=True)
class LastNodesParameters:
    """How much is looked at.

    Attributes:
        listed: Sets of pods of one kind of node that are listed at most.
        seconds: As many are listed as some part of so much time allows.
        looks: Sets that are tried.
    """

    listed: int = 20_000
    seconds: float = 2.0
    looks: int = 2_000


PARAMETERS = LastNodesParameters()


class LastNodes:
    """``demands``: of the pods and the nodes, all pods counted. Shapes: K classes, N nodes, R resources.

    Attributes:
        complete: Whether everything was looked at: where nothing was found there is nothing.
    """

    def __init__(self, demands: Demands, *, rng: np.random.Generator, over: Callable[[], bool]) -> None:
        self.demands, self.rng, self.over = demands, rng, over
        self.complete = True
        self._sizes = demands.sizes
        self._kind = np.zeros(len(demands.room), dtype=np.int64)
        for number, nodes in enumerate(demands.node_kinds()):
            self._kind[nodes] = number
        self._looks = PARAMETERS.looks

    def run(self) -> Ints | None:
        """Return int64[K, N], all pods on nodes; None where that was not found."""
        demands = self.demands
        spare = demands.room.sum(axis=0) - demands.count @ demands.demand
        if (spare < 0).any():
            return None
        sets: dict[int, tuple[Ints, Ints]] = {}
        for n, kind in enumerate(self._kind.tolist()):
            if kind not in sets:
                pods = np.where(demands.allowed[:, n], demands.count, 0)
                node = NodeRoom(demands.room[n], demands.demand, pods, spare)
                some = NodePatterns(node).all(PARAMETERS.seconds, PARAMETERS.listed)
                if some is None:
                    self.complete = False
                    return None
                some = self.rng.permutation(some)
                sets[kind] = some, demands.room[n] - some @ demands.demand
        shares = self._shares(list(range(len(demands.room))), demands.count, spare, sets)
        return None if shares is None else np.stack(shares, axis=1)

    def _shares(self, nodes: Sequence[int], left: Ints, spare: Ints, sets: dict[int, tuple[Ints, Ints]]) -> list[Ints] | None:
        """What each of some nodes gets of the pods ``left`` int64[K], together all of them; None where that was not found. ``spare``:
        int64[R], what they leave over in all; ``sets``: int64[P, K] with what they leave over int64[P, R], of each kind of node."""
        demands = self.demands
        if len(nodes) == 1:
            fits = (left @ demands.demand <= demands.room[nodes[0]]).all() and demands.allowed[left > 0, nodes[0]].all()
            return [left] if fits else None
        first = {int(self._kind[n]): i for i, n in reversed(list(enumerate(nodes)))}
        fine = {}
        for kind in first:
            pods, waste = sets[kind]
            good = (pods <= left).all(axis=1) & (waste <= spare).all(axis=1)
            fine[kind] = pods[good], waste[good]
        g = hardest(left, demands.allowed[:, nodes].sum(axis=1), self._sizes)
        for kind, i in first.items():
            pods, waste = fine[kind]
            for k in np.flatnonzero(pods[:, g] if left[g] else np.ones(len(pods))).tolist():
                self._looks -= 1
                if self._looks < 0 or self.over():
                    self.complete = False
                    return None
                rest = self._shares([*nodes[:i], *nodes[i + 1 :]], left - pods[k], spare - waste[k], fine)
                if rest is not None:
                    return [*rest[:i], pods[k], *rest[i:]]
        return None
