"""Packing of pods that are known to have room in all, onto nodes that have hardly more: a few nodes are repacked at a time, exactly.

All pods are on nodes from the start, too many on some. Then again and again the node that is worst off and a few others give their pods
back, and of all ways to deal these out again the one is taken whose worst node is best off. Sums of all subsets of up to
:attr:`RepackingParameters.most_pods` pods say what a node with any of them has left, so that each step is exact; what is over on one node
spreads over all, until it fits. Two nodes of eight pods leave 2^16 ways, so that the rest is far smaller than any pod.

The same for one resource: Fleszar and Hindi, new heuristics for one-dimensional bin-packing, doi:10.1016/S0305-0548(00)00082-4, whose
minimum bin slack fills one bin exactly; and differencing of numbers, Karmarkar and Karp, for even shares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.tight_packing.demands import Demands

Floats = NDArray[np.float64]
#: Of a set of pods that may not be on a node.
_NEVER = -1e18


@dataclass(frozen=True)
class RepackingParameters:
    """How much is dealt out anew at a time.

    Attributes:
        pods: Pods at most, all of whose subsets are listed, ...
        most_pods: ... and at most where fewer lead no further.
        patience: Steps without gain after which one more is taken.
        nodes: Nodes at most.
        sets: Sets of pods for one node that are looked at, before the last two nodes share what is left.
        worst: Share of the steps that the node which is worst off takes part in.
    """

    pods: int = 12
    most_pods: int = 16
    patience: int = 40
    nodes: int = 4
    sets: int = 400
    worst: float = 0.7


PARAMETERS = RepackingParameters()


@dataclass
class _Best:
    """The best way so far to deal out pods: a set for each node, and what the worst of these has left."""

    slack: float
    sets: list[int] = field(default_factory=list)


class Repacking:
    """``chosen``: int64[K], the pods of each class of the demands to be packed. Shapes: P pods to be packed, N nodes, R resources.

    ``of``: int64[P], the class of each pod; ``node``: int64[P], where it is. What a node has left is measured in parts of the largest
    node, by its scarcest resource; only the sign of it is ever relied on, and that is exact."""

    def __init__(self, demands: Demands, chosen: Ints, *, seed: int) -> None:
        self.demands = demands
        self.of = np.repeat(np.arange(len(chosen)), chosen)
        self.demand, self.allowed = demands.demand[self.of], demands.allowed[self.of]
        self.rng = np.random.default_rng(seed)
        self.scale: Floats = 1.0 / np.maximum(demands.room.max(axis=0, initial=1), 1)
        self.node = np.full(len(self.of), -1, dtype=np.int64)
        self.left = demands.room.copy()
        self.most = PARAMETERS.pods
        self.usable = np.flatnonzero(self.allowed.any(axis=0))
        self._deal()

    def counts(self) -> Ints:
        """Return int64[K, N]: pods of each class on each node."""
        found = np.zeros(self.demands.allowed.shape, dtype=np.int64)
        np.add.at(found, (self.of, self.node), 1)
        return found

    def worst(self) -> float:
        """Return what the node that is worst off has left: less than 0 where it has too many pods."""
        return float(self._slack().min(initial=0.0))

    def run(self, over: Callable[[], bool]) -> bool:
        """Repack until every pod has room, or ``over``, which is asked before every step; whether all pods have room."""
        best, since = -np.inf, 0
        while True:
            slack = self._slack()
            worst = float(slack.min(initial=0.0))
            if worst >= 0:
                return True
            if len(self.usable) < 2 or over():
                return False
            best, since = (worst, 0) if worst > best else (best, since + 1)
            self.most = min(PARAMETERS.most_pods, PARAMETERS.pods + since // PARAMETERS.patience)
            first = int(slack.argmin()) if self.rng.random() < PARAMETERS.worst else int(self.rng.choice(self.usable))
            self._repack(self._neighbours(first, slack[self.usable]))

    def _slack(self) -> Floats:
        """float64[N]."""
        return np.asarray((self.left * self.scale).min(axis=1))

    def _deal(self) -> None:
        """Large pods first, each where most is left."""
        size = (self.demand * self.scale).sum(axis=1)
        for i in np.argsort(-size, kind="stable").tolist():
            after = ((self.left - self.demand[i]) * self.scale).min(axis=1)
            n = int(np.where(self.allowed[i], after, _NEVER).argmax())
            self.node[i] = n
            self.left[n] -= self.demand[i]

    def _neighbours(self, first: int, slack: Floats) -> list[int]:
        """A node and random others, rather those that have much left (``slack``: of the usable nodes), as many as have few enough pods."""
        pods = np.bincount(self.node, minlength=len(self.left))
        chosen, most = [first], int(self.rng.integers(2, PARAMETERS.nodes + 1))
        weight = slack - slack.min() + 1e-6
        for n in self.usable[np.argsort(self.rng.exponential(size=len(weight)) / weight, kind="stable")].tolist():
            if len(chosen) == most:
                break
            if n != first and (len(chosen) < 2 or pods[[*chosen, n]].sum() <= self.most):
                chosen.append(n)
        return chosen

    def _repack(self, nodes: list[int]) -> bool:
        """Deal the pods of some nodes out anew; whether the worst of these is better off."""
        pods = np.flatnonzero(np.isin(self.node, nodes))
        if len(pods) > self.most:
            pods = np.sort(self.rng.permutation(pods)[: self.most])
        demand = self.demand[pods]
        left = {n: self.left[n] + demand[self.node[pods] == n].sum(axis=0) for n in nodes}
        sums = _sums(demand)
        best = _Best(float(self._slack()[nodes].min()) + 1e-12)
        scale = self.scale[:, None]
        spare = (np.sum(list(left.values()), axis=0)[:, None] - sums[:, -1:]) * scale - (len(nodes) - 1) * best.slack
        tables, full = [], []
        for n in nodes:
            rest = (left[n][:, None] - sums) * scale
            slack = rest.min(axis=0)
            never = int(((~self.allowed[pods, n]).astype(np.int64) << np.arange(len(pods))).sum())
            if never:
                slack[np.arange(len(slack)) & never != 0] = _NEVER
            tables.append(slack)
            # sets that leave more than the others can spare would leave one of these worse off
            good = np.flatnonzero(slack > best.slack)
            full.append(good[(rest[:, good] <= spare).all(axis=0)])
        self._share(tables, full, sums.shape[1] - 1, [], best, np.inf)
        if not best.sets:
            return False
        for n, chosen in zip(nodes, best.sets, strict=True):
            self.left[n] = left[n] - sums[:, chosen]
            self.node[pods[(chosen >> np.arange(len(pods))) & 1 == 1]] = n
        return True

    def _share(self, tables: list[Floats], full: list[Ints], rest: int, taken: list[int], best: _Best, worst: float) -> None:
        """Deal the pods of the set ``rest`` to the nodes that have none; ``worst``: what the others have left."""
        k = len(taken)
        sets = full[k][full[k] & ~rest == 0]
        if not len(sets):
            return
        here = tables[k][sets]
        if k == len(tables) - 2:
            both = np.minimum(here, tables[k + 1][rest ^ sets])
            i = int(both.argmax())
            if min(worst, float(both[i])) > best.slack:
                best.slack, best.sets = min(worst, float(both[i])), [*taken, int(sets[i]), rest ^ int(sets[i])]
            return
        for i in np.argsort(-here, kind="stable")[: PARAMETERS.sets].tolist():
            if here[i] <= best.slack:
                return
            self._share(tables, full, rest ^ int(sets[i]), [*taken, int(sets[i])], best, min(worst, float(here[i])))


def _sums(demand: Ints) -> Ints:
    """int64[R, 2^P] of int64[P, R]: the demand of every set of pods; bit i of the index says whether pod i is in it."""
    found = np.zeros((demand.shape[1], 1 << len(demand)), dtype=np.int64)
    for i, row in enumerate(demand):
        found[:, 1 << i : 2 << i] = found[:, : 1 << i] + row[:, None]
    return found
