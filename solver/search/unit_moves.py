"""Moves of units: pods that depend on or attract each other, moved together out of one domain.

Single pods that provide for the affinity of others cannot leave a domain, and pods that attract each other lose points
until most have moved. All pods of a unit are taken out and put back one by one. The first is drawn as if it decided for
all; the others are drawn as single pods. The move is kept by Metropolis' rule (doi:10.1063/1.1699114)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.search.local_search import LocalSearch


@dataclass(frozen=True)
class UnitParameters:
    """Frequency and size of unit moves.

    Attributes:
        max_pods: Larger units do not move.
        probability: Probability that a draw of a tied pod is for its unit. A unit moves once per as many such draws as it
            has pods, so this is also roughly its time fraction. Also the probability that the first pod of a unit goes to a
            random domain, instead of the best node for all.
        max_classes: A preference that ties more classes forms units of single classes only.
    """

    max_pods: int = 400
    probability: float = 0.5
    max_classes: int = 10


PARAMETERS = UnitParameters()


@dataclass(frozen=True)
class Tie:
    """A reason for pods to form a unit.

    Attributes:
        codes: Domain of each node, int32[N]. The pods of a unit share a domain.
        classes: Classes of the unit, ascending.
    """

    codes: Ids
    classes: list[int]


class UnitMoves:
    """Unit moves of one search.

    Args:
        search: The state. Its list of pods must not change while this is in use.
        only: Classes whose pods may move; None for all.
    """

    def __init__(self, search: LocalSearch, only: Collection[int] | None) -> None:
        self._search, self._only = search, only
        self._known_ties: dict[int, list[Tie]] = {}
        self._listed = search.pods_by_class()

    def draw(self, pod: int, temperature: float) -> tuple[int, int]:
        """Move the unit of a pod if it is its turn. Return (pods of the unit, points gained).

        0 pods means that none moved and the pod may move alone."""
        search, rng = self._search, self._search.rng
        g, home = search.pairs[pod]
        ties = self._ties(g)
        if not ties or rng.random() >= PARAMETERS.probability:
            return 0, 0
        tie = ties[int(rng.integers(len(ties)))]
        inside = np.flatnonzero(tie.codes == tie.codes[home]) if tie.codes[home] >= 0 else np.array([home])
        table = search.counts[np.ix_(np.array(tie.classes), inside)]
        pods = int(table.sum())
        if not 2 <= pods <= PARAMETERS.max_pods or rng.random() * pods >= 1:
            return 0, 0
        cells = {(tie.classes[i], int(inside[j])): int(table[i, j]) for i, j in zip(*np.nonzero(table), strict=True)}
        return pods, self._move(g, tie.codes, cells, temperature)

    def _ties(self, g: int) -> list[Tie]:
        """Return the ties of a class to others, required affinity first."""
        if g not in self._known_ties:
            o = self._search.objective
            terms = [(codes, {g}) for codes in self._search.gathers(g)]
            for term in (o.terms[t] for t in sorted({*o.owned[g], *o.matching[g]})):
                others = term.attracted(g)
                terms += [(term.codes, {g})] if others else []
                terms += [(term.codes, others | {g})] if others - {g} and len(others) <= PARAMETERS.max_classes else []
            ties = [Tie(codes, sorted({k for h in classes for k in self._search.standing(h)})) for codes, classes in terms]
            self._known_ties[g] = [tie for tie in ties if all(self._moves(h) for h in tie.classes)]
        return self._known_ties[g]

    def _moves(self, g: int) -> bool:
        return g in self._listed and (self._only is None or g in self._only)

    def _move(self, g: int, codes: Ids, cells: Mapping[tuple[int, int], int], temperature: float) -> int:
        """Move pods together, those of class g first, and accept a loss with a probability that depends on the temperature.

        Args:
            codes: Domain of each node under the key by which the pods attract each other.
            cells: Number of pods by (class, node).
            temperature: In points.

        Returns:
            The points gained, or 0 if the pods stay.
        """
        search = self._search
        gain, put = -search.take_out(cells), dict[tuple[int, int], int]()
        waiting = [h for (h, _), k in sorted(cells.items(), key=lambda cell: (cell[0][0] != g, cell[0])) for _ in range(k)]
        moved = all(np.all(search.keeping(h, n)) for h, n in cells)
        while waiting and moved:  # some pods may be admitted only after others
            remaining = []
            for h in waiting:
                mask = search.allowed(h, None)
                if not mask.any():
                    remaining.append(h)
                    continue
                points = search.soft.gain(h)
                n = self._follow(points, mask, temperature) if put else self._lead(points, mask, codes, len(waiting), temperature)
                gain += int(points[n])
                search.put(h, n, 1)
                put[h, n] = put.get((h, n), 0) + 1
            moved, waiting = len(remaining) < len(waiting), remaining
        if waiting or (gain < 0 and search.rng.random() >= np.exp(gain / temperature)):
            search.take_out(put)
            search.put_back(cells)
            return 0
        self._note(cells, put)
        return gain

    def _lead(self, points: Ints, mask: Bools, codes: Ids, pods: int, temperature: float) -> int:
        """Return a random good node for the first of ``pods`` pods that follow each other.

        With some probability only the nodes of one random domain count. Otherwise the points count for all pods.
        """
        rng = self._search.rng
        if rng.random() < PARAMETERS.probability:
            return self._follow(points, mask & (codes == codes[rng.choice(np.flatnonzero(mask))]), temperature)
        return self._follow(points * pods, mask, temperature)

    def _follow(self, points: Ints, mask: Bools, temperature: float) -> int:
        """Return the node with most points plus noise, among the nodes of ``mask``."""
        return int(np.argmax(np.where(mask, points + self._search.noise(temperature), -np.inf)))

    def _note(self, cells: Mapping[tuple[int, int], int], put: Mapping[tuple[int, int], int]) -> None:
        arrivals: dict[int, list[int]] = {}
        for (g, n), k in put.items():
            arrivals.setdefault(g, []).extend([n] * k)
        departures = dict(cells)
        for g, nodes in arrivals.items():
            for pod in self._listed[g]:
                n = self._search.pairs[pod][1]
                if departures.get((g, n), 0):
                    departures[g, n] -= 1
                    self._search.note(pod, nodes.pop())
