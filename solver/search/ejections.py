"""A pod goes to a node that has no room for it, and one that is there gives way: of two pods that should change places, neither can move
alone where the nodes that both want are full.

Source: Glover, Ejection chains, reference structures and alternating path methods, doi:10.1016/0166-218X(94)00037-E; chains of two here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.search.local_search import LocalSearch


@dataclass(frozen=True)
class EjectionParameters:
    """How often a pod is tried so.

    Attributes:
        share: Share of the turns of a pod.
        cost: Moves that such a turn counts as.
        asked: Classes at most that are asked what a pod of them loses by giving way; how many is drawn.
    """

    share: float = 0.2
    cost: int = 5
    asked: int = 6


PARAMETERS = EjectionParameters()


class Ejections:
    """``search``: the state, whose list of pods stays as long as this is used; ``only``: classes whose pods may move, None: all. Pods that
    hard rules beside room tie to others are left alone."""

    def __init__(self, search: LocalSearch, only: Collection[int] | None) -> None:
        self._search = search
        self._listed = search.pods_by_class()
        self._moves: Bools = np.zeros(search.cluster.n_classes, dtype=bool)
        self._moves[[g for g in self._listed if (only is None or g in only) and search.free_of_rules(g)]] = True

    def draw(self, pod: int, temperature: float) -> tuple[int, int]:
        """Move a pod so if it is its turn; (moves that it counts as, points gained). No moves: the pod may move alone."""
        search, rng = self._search, self._search.rng
        g, home = search.pairs[pod]
        if not self._moves[g] or rng.random() >= PARAMETERS.share:
            return 0, 0
        points = search.soft.away(g, home)
        draws = np.where(search.possible(g), points + search.noise(temperature), -np.inf)
        target = int(np.argmax(draws))
        if target == home or search.fit.admits(g, target):
            return 0, 0
        return PARAMETERS.cost, self._swap(pod, target, temperature)

    def _swap(self, pod: int, target: int, temperature: float) -> int:
        search, rng = self._search, self._search.rng
        g, home = search.pairs[pod]
        lack = search.cluster.demand[g] - search.fit.free[target]
        giving = np.flatnonzero((search.counts[:, target] > 0) & self._moves)
        giving = giving[((search.cluster.demand[giving] >= lack) | (lack <= 0)).all(axis=1) & (giving != g)]
        if not len(giving):
            return 0
        gain = -search.take_out({(g, home): 1})
        h, n = self._giving_way(rng.permutation(giving)[: 1 + rng.integers(PARAMETERS.asked)], target, temperature)
        if n != target:
            gain += search.put_back({(g, target): 1}) - search.take_out({(h, target): 1})
            gain += search.put_back({(h, n): 1})
            if gain >= 0 or rng.random() < np.exp(gain / temperature):
                search.note(pod, target)
                search.note(next(i for i in self._listed[h] if search.pairs[i][1] == target), n)
                return gain
            search.take_out({(g, target): 1, (h, n): 1})
            search.put_back({(h, target): 1})
        search.put_back({(g, home): 1})
        return 0

    def _giving_way(self, classes: Ints, target: int, temperature: float) -> tuple[int, int]:
        """Draw one of some classes, a pod of which leaves a node, and the node that it goes to, where it can gain
        most, or lose least. The node that it leaves: none can go anywhere."""
        search, drawn = self._search, (-np.inf, -1, target)
        for h in classes.tolist():
            points = search.soft.away(h, target)
            roomy = search.possible(h) & ~search.fit.rejects(h)
            roomy[target] = False
            draws = np.where(roomy, points + search.noise(temperature), -np.inf)
            n = int(np.argmax(draws))
            if roomy[n]:
                drawn = max(drawn, (float(draws[n]) - float(points[target]), h, n))
        return drawn[1:]
