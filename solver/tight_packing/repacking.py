"""Packing with almost no slack by exact repacking of a few nodes at a time.

All pods are on nodes from the start, too many on some. Each step deals out the pods of the worst node and a few others so
that the worst of these is as good as possible. See docs/algorithms/tight-packing.md."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.runtime.time_slice import TimeSlice
from kubestow.solver.tight_packing.demands import PackingDemands

Floats = NDArray[np.float64]
_INELIGIBLE_SLACK = -1e18  #: Slack of a pod set that the node cannot hold.


@dataclass(frozen=True)
class RepackingParameters:
    """Size of one repacking step.

    Attributes:
        pods: Pods of a step at first; all their subsets are listed.
        max_pods: Pods of a step after many steps without gain.
        patience: Steps without gain after which a step takes one pod more.
        max_nodes: Nodes of a step.
        max_sets: Sets tried for one node, before the last two nodes share the remainder.
        worst_fraction: Fraction of the steps that involve the worst node.
    """

    pods: int = 12
    max_pods: int = 16
    patience: int = 40
    max_nodes: int = 4
    max_sets: int = 400
    worst_fraction: float = 0.7


PARAMETERS = RepackingParameters()


@dataclass
class _Split:
    """The search for the best split of pods over nodes. Sets of pods are bits.

    Attributes:
        slack: Slack of the worst node in the best split so far.
        tables: Per node, its slack with each set of pods.
        full: Per node, the sets worth a trial.
        sets: Set of each node in the best split.
    """

    slack: float
    tables: list[Floats] = field(default_factory=list)
    full: list[Ints] = field(default_factory=list)
    sets: list[int] = field(default_factory=list)

    def search(self, remaining: int, chosen: list[int], worst: float) -> None:
        """Split a set of pods over the nodes without a set, and keep the split if its least slack is greater.

        Args:
            remaining: The pods to split.
            chosen: Sets of the first nodes.
            worst: Least slack of these nodes.
        """
        k = len(chosen)
        sets = self.full[k][self.full[k] & ~remaining == 0]
        if not len(sets):
            return
        here = self.tables[k][sets]
        if k == len(self.tables) - 2:
            both = np.minimum(here, self.tables[k + 1][remaining ^ sets])
            i = int(both.argmax())
            if min(worst, float(both[i])) > self.slack:
                self.slack, self.sets = min(worst, float(both[i])), [*chosen, int(sets[i]), remaining ^ int(sets[i])]
            return
        for i in np.argsort(-here, kind="stable")[: PARAMETERS.max_sets].tolist():
            if here[i] <= self.slack:
                return
            self.search(remaining ^ int(sets[i]), [*chosen, int(sets[i])], min(worst, float(here[i])))


class Repacking:
    """Repacking of chosen pods. Shapes: P pods, N nodes, R resources.

    A node's slack is the residual capacity of its scarcest resource, relative to the largest node. The search relies only
    on its sign, which is exact.

    Args:
        chosen: Pods to pack of each class of the demands, int64[K].

    Attributes:
        of: Class of each pod, int64[P].
        node: Node of each pod, int64[P].
    """

    def __init__(self, demands: PackingDemands, chosen: Ints, *, seed: int) -> None:
        self.demands = demands
        self.of = np.repeat(np.arange(len(chosen)), chosen)
        self.demand, self.allowed = demands.demand[self.of], demands.allowed[self.of]
        self.rng = np.random.default_rng(seed)
        self.scale: Floats = 1.0 / np.maximum(demands.room.max(axis=0, initial=1), 1)
        self.node = np.full(len(self.of), -1, dtype=np.int64)
        self.residual = demands.room.copy()
        self.max_pods = PARAMETERS.pods
        self.usable = np.flatnonzero(self.allowed.any(axis=0))
        self._deal()

    def counts(self) -> Ints:
        """Return int64[K, N]: pods of each class on each node."""
        found = np.zeros(self.demands.allowed.shape, dtype=np.int64)
        np.add.at(found, (self.of, self.node), 1)
        return found

    def worst(self) -> float:
        """Return the slack of the worst node; negative if it is overfull."""
        return float(self._slack().min(initial=0.0))

    def run(self, time: TimeSlice) -> bool:
        """Repack until all pods have room, or until ``time`` is over. A better worst node counts as an improvement. Return
        whether all pods have room."""
        best, since = -np.inf, 0
        while True:
            slack = self._slack()
            worst = float(slack.min(initial=0.0))
            if worst >= 0:
                return True
            if len(self.usable) < 2 or time.is_over():
                return False
            if worst > best:
                if np.isfinite(best):
                    time.improved()
                best, since = worst, 0
            else:
                since += 1
            self.max_pods = min(PARAMETERS.max_pods, PARAMETERS.pods + since // PARAMETERS.patience)
            first = int(slack.argmin()) if self.rng.random() < PARAMETERS.worst_fraction else int(self.rng.choice(self.usable))
            self._repack(self._neighbours(first, slack[self.usable]))

    def _slack(self) -> Floats:
        """Return the slack of each node, float64[N]."""
        return np.asarray((self.residual * self.scale).min(axis=1))

    def _deal(self) -> None:
        """Place the pods, large ones first, each on the node with most slack."""
        size = (self.demand * self.scale).sum(axis=1)
        for i in np.argsort(-size, kind="stable").tolist():
            after = ((self.residual - self.demand[i]) * self.scale).min(axis=1)
            n = int(np.where(self.allowed[i], after, _INELIGIBLE_SLACK).argmax())
            self.node[i] = n
            self.residual[n] -= self.demand[i]

    def _neighbours(self, first: int, slack: Floats) -> list[int]:
        """Return a node and random others, up to the pod limit. Nodes with more slack (``slack``: of usable nodes) are more
        likely."""
        pods = np.bincount(self.node, minlength=len(self.residual))
        chosen, size = [first], int(self.rng.integers(2, PARAMETERS.max_nodes + 1))
        weight = slack - slack.min() + 1e-6
        for n in self.usable[np.argsort(self.rng.exponential(size=len(weight)) / weight, kind="stable")].tolist():
            if len(chosen) == size:
                break
            if n != first and (len(chosen) < 2 or pods[[*chosen, n]].sum() <= self.max_pods):
                chosen.append(n)
        return chosen

    def _repack(self, nodes: list[int]) -> bool:
        """Repack at most ``max_pods`` pods of some nodes. Return True if the least slack of these nodes grew.

        Otherwise nothing changes.
        """
        pods = np.flatnonzero(np.isin(self.node, nodes))
        if len(pods) > self.max_pods:
            pods = np.sort(self.rng.permutation(pods)[: self.max_pods])
        demand = self.demand[pods]
        residual = {n: self.residual[n] + demand[self.node[pods] == n].sum(axis=0) for n in nodes}
        sums = _sums(demand)
        best = _Split(float(self._slack()[nodes].min()) + 1e-12)
        scale = self.scale[:, None]
        spare = (np.sum(list(residual.values()), axis=0)[:, None] - sums[:, -1:]) * scale - (len(nodes) - 1) * best.slack
        for n in nodes:
            unused = (residual[n][:, None] - sums) * scale
            slack = unused.min(axis=0)
            never = int(((~self.allowed[pods, n]).astype(np.int64) << np.arange(len(pods))).sum())
            if never:
                slack[np.arange(len(slack)) & never != 0] = _INELIGIBLE_SLACK
            best.tables.append(slack)
            # a set that wastes more than the others can spare would leave another node worse off
            good = np.flatnonzero(slack > best.slack)
            best.full.append(good[(unused[:, good] <= spare).all(axis=0)])
        best.search(sums.shape[1] - 1, [], np.inf)
        if not best.sets:
            return False
        for n, chosen in zip(nodes, best.sets, strict=True):
            self.residual[n] = residual[n] - sums[:, chosen]
            self.node[pods[(chosen >> np.arange(len(pods))) & 1 == 1]] = n
        return True


def _sums(demand: Ints) -> Ints:
    """Return int64[R, 2^P]: the demand of every subset of pods int64[P, R]; bit i of the index is set if pod i is in it."""
    found = np.zeros((demand.shape[1], 1 << len(demand)), dtype=np.int64)
    for i, row in enumerate(demand):
        found[:, 1 << i : 2 << i] = found[:, : 1 << i] + row[:, None]
    return found
