"""Exact packing of all given pods onto a few nodes with almost no slack, or a proof that it is impossible.

The pod that is hardest to place must be in one of the listed sets of some node. The remaining pods are dealt to the
other nodes in the same way. See docs/algorithms/tight-packing.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.tight_packing.demands import PackingDemands, hardest
from kubestow.solver.tight_packing.node_patterns import NodePatterns, NodeRoom


@dataclass(frozen=True)
class FillingParameters:
    """Limits on the sets of pods that fill nodes to the last unit.

    Attributes:
        max_sets: Sets listed for one node.
        listing_seconds: Time budget that limits the number of listed sets.
        max_trials: Sets tried for the last nodes together.
    """

    max_sets: int = 20_000
    listing_seconds: float = 2.0
    max_trials: int = 2_000


PARAMETERS = FillingParameters()


class LastNodes:
    """Search for a packing of all ``demands``. Shapes: K classes, N nodes, R resources.

    Attributes:
        complete: True if the search was exhaustive, so that finding no packing proves that there is none.
    """

    def __init__(self, demands: PackingDemands, *, rng: np.random.Generator, over: Callable[[], bool]) -> None:
        self.demands, self.rng, self.over = demands, rng, over
        self.complete = True
        self._sizes = demands.sizes
        self._kind = np.zeros(len(demands.room), dtype=np.int64)
        for number, nodes in enumerate(demands.node_kinds()):
            self._kind[nodes] = number
        self._trials_left = PARAMETERS.max_trials

    def run(self) -> Ints | None:
        """Return all pods on nodes, int64[K, N]. None if no packing was found."""
        demands = self.demands
        spare = demands.room.sum(axis=0) - demands.count @ demands.demand
        if (spare < 0).any():
            return None
        sets: dict[int, tuple[Ints, Ints]] = {}
        for n, kind in enumerate(self._kind.tolist()):
            if kind not in sets:
                pods = np.where(demands.allowed[:, n], demands.count, 0)
                node = NodeRoom(demands.room[n], demands.demand, pods, spare)
                some = NodePatterns(node).all(PARAMETERS.listing_seconds, PARAMETERS.max_sets)
                if some is None:
                    self.complete = False
                    return None
                some = self.rng.permutation(some)
                sets[kind] = some, demands.room[n] - some @ demands.demand
        shares = self._shares(list(range(len(demands.room))), demands.count, spare, sets)
        return None if shares is None else np.stack(shares, axis=1)

    def _shares(self, nodes: Sequence[int], unplaced: Ints, spare: Ints, sets: dict[int, tuple[Ints, Ints]]) -> list[Ints] | None:
        """Return the pods int64[K] of each node that together use up ``unplaced`` (int64[K]). None if not found.

        Args:
            spare: Total slack of these nodes, int64[R].
            sets: Per kind of node, its sets int64[P, K] and their waste int64[P, R].
        """
        demands = self.demands
        if len(nodes) == 1:
            fits = (unplaced @ demands.demand <= demands.room[nodes[0]]).all() and demands.allowed[unplaced > 0, nodes[0]].all()
            return [unplaced] if fits else None
        first = {int(self._kind[n]): i for i, n in reversed(list(enumerate(nodes)))}
        fine = {}
        for kind in first:
            pods, waste = sets[kind]
            good = (pods <= unplaced).all(axis=1) & (waste <= spare).all(axis=1)
            fine[kind] = pods[good], waste[good]
        g = hardest(unplaced, demands.allowed[:, nodes].sum(axis=1), self._sizes)
        for kind, i in first.items():
            pods, waste = fine[kind]
            for k in np.flatnonzero(pods[:, g] if unplaced[g] else np.ones(len(pods))).tolist():
                self._trials_left -= 1
                if self._trials_left < 0 or self.over():
                    self.complete = False
                    return None
                others = self._shares([*nodes[:i], *nodes[i + 1 :]], unplaced - pods[k], spare - waste[k], fine)
                if others is not None:
                    return [*others[:i], pods[k], *others[i:]]
        return None
