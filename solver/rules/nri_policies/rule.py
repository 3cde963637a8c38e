"""BalloonsPolicy and TopologyAwarePolicy, for nodes whose policy cannot create the containers."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.models.numa.balloons import Balloons
from kubestow.models.numa.isolated_cpus import IsolatedCPUs
from kubestow.solver.rules.base import StaticRule


class _NodePolicy(StaticRule):
    """A pod goes only to nodes whose policy of nri-plugins creates its containers."""

    def _nodes(self, g: int) -> int | None:
        raise NotImplementedError

    def alike(self, g: int) -> Hashable:
        return self._nodes(g)

    def never(self, g: int) -> Bools:
        allowed = self._nodes(g)
        return np.zeros(self.cluster.n_nodes, dtype=bool) if allowed is None else ~self.cluster.node_sets[allowed]

    def broken_by(self, g: int, nodes: Ints) -> Bools:
        return np.zeros(len(nodes), dtype=bool)  # the containers exist


class BalloonsPolicy(_NodePolicy):
    """A pod goes only to nodes whose BalloonsPolicy creates its containers: :mod:`kubestow.models.numa.balloons`."""

    name = "BalloonsPolicy"
    reads = ("balloons",)
    drop_rank = 150

    def _nodes(self, g: int) -> int | None:
        return self.cluster.classes[g].balloons

    def message(self, g: int, rejected: Bools) -> str:
        snapshot = self.cluster.snapshot
        balloons = Balloons(snapshot.nodes, snapshot.balloons_policies, snapshot.node_topologies)
        return "; ".join(balloons.reasons(self.cluster.classes[g].pod, rejected)[:3])


class TopologyAwarePolicy(_NodePolicy):
    """A pod goes only to nodes with the isolated CPUs that its containers require: :mod:`kubestow.models.numa.isolated_cpus`."""

    name = "TopologyAwarePolicy"
    reads = ("isolated",)
    drop_rank = 160

    def _nodes(self, g: int) -> int | None:
        return self.cluster.classes[g].isolated

    def message(self, g: int, rejected: Bools) -> str:
        snapshot = self.cluster.snapshot
        isolated = IsolatedCPUs(snapshot.nodes, snapshot.topology_aware_policies, snapshot.node_topologies, snapshot.pods)
        return "; ".join(isolated.reasons(self.cluster.classes[g].pod, rejected)[:3])
