"""Packing with almost no slack: nodes are filled one by one, the last few together.

A node gets the unplaced pod that is hardest to place, and a set of sampled pods that leaves almost no room. See
docs/algorithms/tight-packing.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.tight_packing.demands import PackingDemands, hardest, next_to_nothing
from kubestow.solver.tight_packing.last_nodes import PARAMETERS as SETS
from kubestow.solver.tight_packing.last_nodes import LastNodes
from kubestow.solver.tight_packing.node_patterns import NodePatterns, NodeRoom


@dataclass(frozen=True)
class NodeFillingParameters:
    """Limits on the search.

    Attributes:
        samples: Sample sizes of unplaced pods for one node, in order.
        squared: Size of a further sample, before division by the squared number of pods that a node holds.
        set_pods: Approximate pods per listed set. Nodes that hold more than ``many_pods`` first get random pods.
        many_pods: See ``set_pods``.
        last_nodes: Nodes that are filled together at the end.
        reopened_nodes: Nodes emptied when filling fails.
        patience: Failures in a row before nodes are emptied.
    """

    samples: tuple[int, ...] = (24, 32)
    squared: int = 2_000
    set_pods: int = 8
    many_pods: int = 16
    last_nodes: int = 6
    reopened_nodes: int = 2
    patience: int = 12


PARAMETERS = NodeFillingParameters()


class NodeFilling:
    """Filling of the nodes with chosen pods. Shapes: K classes, N nodes, R resources.

    Args:
        chosen: Pods to pack of each class of the demands, int64[K].
    """

    def __init__(self, demands: PackingDemands, chosen: Ints, *, seed: int) -> None:
        self.demands = demands
        self.rng = np.random.default_rng(seed)
        self.open = list(range(len(demands.room)))
        self.unplaced = chosen.copy()
        self.spare: Ints = demands.room.sum(axis=0) - chosen @ demands.demand
        self.sizes = demands.sizes
        self.room = (demands.room / np.maximum(demands.room.max(axis=0, initial=1), 1)).sum(axis=1)
        self._counts = np.zeros(demands.allowed.shape, dtype=np.int64)

    @property
    def promising(self) -> bool:
        """True if the slack is so small that this method is worthwhile."""
        return bool((self.spare >= 0).all() and next_to_nothing(self.spare, self.demands.room))

    def counts(self) -> Ints:
        """Return int64[K, N]: pods of each class placed so far."""
        return self._counts.copy()

    def run(self, over: Callable[[], bool]) -> bool:
        """Fill all nodes. Return True if all pods are placed.

        Args:
            over: Checked before every step. The run ends with False when it returns True.
        """
        failed = 0
        while not over():
            nothing = False
            if len(self.open) <= PARAMETERS.last_nodes and not failed:
                success, nothing = self._share_out(over)
                if success:
                    return True
            if not nothing and failed < PARAMETERS.patience and len(self.open) > 2:
                failed = 0 if self._fill() else failed + 1
                continue
            filled = self.rng.permutation([n for n in range(len(self.demands.room)) if n not in self.open])
            if not len(filled):
                return False
            for n in filled[: PARAMETERS.reopened_nodes].tolist():
                self._empty(n)
            failed = 0
        return False

    def _fill(self) -> bool:
        """Fill and close one open node: with the hardest unplaced pod and a set of others that wastes almost nothing.

        Return False, with nothing changed, if no open node holds that pod or no such set was found.
        """
        demands = self.demands
        g = hardest(self.unplaced, demands.allowed[:, self.open].sum(axis=1), self.sizes)
        nodes = [n for n in self.open if demands.allowed[g, n] and (demands.demand[g] <= demands.room[n]).all()]
        if not nodes or not self.unplaced[g]:
            return False
        n = min(self.rng.permutation(nodes).tolist(), key=lambda n: self.room[n])  # a smaller node has fewer sets
        begun = (np.arange(len(self.unplaced)) == g).astype(np.int64)
        begun += self._begun([n], self.unplaced - begun, demands.room[[n]] - demands.demand[g])[:, 0]
        room, others = demands.room[n] - begun @ demands.demand, np.where(demands.allowed[:, n], self.unplaced - begun, 0)
        pods = self._shuffled(others)
        # waste at most half of a node's share, to keep slack for the last nodes; plentiful resources may be wasted freely
        waste = np.where(self.spare >= demands.room[n], self.spare, self.spare // (2 * len(self.open)))
        for size in self._samples(n):
            some = np.bincount(pods[:size], minlength=len(others))
            sets = NodePatterns(NodeRoom(room, demands.demand, some, waste)).all(SETS.listing_seconds, SETS.max_sets)
            if sets is not None and len(sets):
                lack = sets @ (len(self.open) - demands.allowed[:, self.open].sum(axis=1))  # prefer pods with few eligible nodes
                self._put(n, begun + sets[self.rng.choice(np.flatnonzero(lack == lack.max()))])
                return True
        return False

    def _samples(self, n: int) -> list[int]:
        """Return the sample sizes to try, in order. Nodes that hold few pods get a larger sample, because small sets are
        cheap to list."""
        takes = float((self.demands.room[n] * self.unplaced.sum() / np.maximum(self.unplaced @ self.demands.demand, 1)).min())
        more = int(PARAMETERS.squared / max(takes, 1.0) ** 2)
        return [*PARAMETERS.samples, *([more] if more > PARAMETERS.samples[-1] else [])]

    def _shuffled(self, pods: Ints) -> Ints:
        """Return the class of each given pod in random order. Pods with few eligible nodes tend to come first.

        Args:
            pods: Number of pods of each class, int64[K].
        """
        of = np.repeat(np.arange(len(pods)), pods)
        places = self.demands.allowed[:, self.open].sum(axis=1)
        return of[np.argsort(self.rng.exponential(size=len(of)) * places[of] ** 2, kind="stable")]

    def _begun(self, nodes: Sequence[int], unplaced: Ints, room: Ints) -> Ints:
        """Return int64[K, n]: random pods that the nodes get first, so that each has places for only a few more.

        Return zeros if nodes hold few pods.

        Args:
            nodes: Indices of n nodes.
            unplaced: Unplaced pods, int64[K].
            room: Room of the nodes, int64[n, R].
        """
        found = np.zeros((len(unplaced), len(nodes)), dtype=np.int64)
        if unplaced.sum() <= PARAMETERS.many_pods * len(self.open):
            return found
        kept = PARAMETERS.set_pods * -(-(unplaced @ self.demands.demand) // unplaced.sum())
        for i, n in enumerate(nodes):
            here = np.where(self.demands.allowed[:, n], unplaced - found.sum(axis=1), 0)
            pods = self._shuffled(here)
            load = np.cumsum(self.demands.demand[pods], axis=0)
            prefix = int((load <= room[i] - kept).all(axis=1).sum())
            found[:, i] = np.bincount(pods[:prefix], minlength=len(unplaced))
        return found

    def _share_out(self, over: Callable[[], bool]) -> tuple[bool, bool]:
        """Place all unplaced pods on the open nodes together and close these nodes. Nothing changes on failure.

        Returns:
            True if all pods were placed; and True if it is proved that they do not fit on these nodes.
        """
        demands = self.demands
        begun = self._begun(self.open, self.unplaced, demands.room[self.open])
        remaining = PackingDemands(
            demands.classes, self.unplaced - begun.sum(axis=1), demands.demand, demands.priority,
            demands.room[self.open] - begun.T @ demands.demand, demands.allowed[:, self.open],
        )  # fmt: skip
        last = LastNodes(remaining, rng=self.rng, over=over)
        shares = last.run()
        if shares is None:
            return False, last.complete and not begun.any()  # another random start may succeed
        for i, n in enumerate(list(self.open)):
            self._put(n, begun[:, i] + shares[:, i])
        return True, False

    def _put(self, n: int, pods: Ints) -> None:
        """Add pods, int64[K], to an open node and close it."""
        self.open.remove(n)
        self.spare = self.spare - (self.demands.room[n] - pods @ self.demands.demand)
        self.unplaced = self.unplaced - pods
        self._counts[:, n] = pods

    def _empty(self, n: int) -> None:
        """Remove all pods from a filled node and reopen it."""
        pods = self._counts[:, n].copy()
        self.open.append(n)
        self.spare = self.spare + (self.demands.room[n] - pods @ self.demands.demand)
        self.unplaced = self.unplaced + pods
        self._counts[:, n] = 0
