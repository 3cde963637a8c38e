"""Ejection moves: a pod goes to a node without room for it, and a pod there leaves for another node.

Two pods that should change places cannot move one by one if both nodes are full.

Source: Glover, Ejection chains, reference structures and alternating path methods, doi:10.1016/0166-218X(94)00037-E;
chains of two here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.search.local_search import LocalSearch


@dataclass(frozen=True)
class EjectionParameters:
    """Frequency of ejection moves.

    Attributes:
        probability: Probability that a pod's turn is an ejection move.
        cost: Ordinary moves that such a turn counts as.
        max_sampled_classes: Classes of possible victims compared; the number is drawn up to this.
    """

    probability: float = 0.2
    cost: int = 5
    max_sampled_classes: int = 6


PARAMETERS = EjectionParameters()


class Ejections:
    """Ejection moves of one search.

    Pods that hard rules other than room tie to others do not take part.

    Args:
        search: The state. Its list of pods must not change while this is in use.
        only: Classes whose pods may move; None for all.
    """

    def __init__(self, search: LocalSearch, only: Collection[int] | None) -> None:
        self._search = search
        self._listed = search.pods_by_class()
        self._moves: Bools = np.zeros(search.cluster.n_classes, dtype=bool)
        self._moves[[g for g in self._listed if (only is None or g in only) and search.free_of_rules(g)]] = True

    def draw(self, pod: int, temperature: float) -> tuple[int, int]:
        """Make an ejection move if it is the pod's turn. Return (moves that it counts as, points gained).

        0 moves means that none was made and the pod may move alone."""
        search, rng = self._search, self._search.rng
        g, home = search.pairs[pod]
        if not self._moves[g] or rng.random() >= PARAMETERS.probability:
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
        victims = np.flatnonzero((search.counts[:, target] > 0) & self._moves)
        victims = victims[((search.cluster.demand[victims] >= lack) | (lack <= 0)).all(axis=1) & (victims != g)]
        if not len(victims):
            return 0
        gain = -search.take_out({(g, home): 1})
        h, n = self._victim(rng.permutation(victims)[: 1 + rng.integers(PARAMETERS.max_sampled_classes)], target, temperature)
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

    def _victim(self, classes: Ints, target: int, temperature: float) -> tuple[int, int]:
        """Draw a victim class on node ``target`` and its best other node. Return ``target`` as the node if none can leave."""
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
