"""The pods that a bind order places, one by one."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver.bind_order.order import Sequence_


def deal(cluster: Cluster, sequence: Sequence_) -> Iterator[tuple[int, str]]:
    """Yield (index of a pod, its node) for a sequence of (class, node, pods). The pods of a class follow their own order."""
    dealt = [0] * cluster.n_classes
    for g, n, k in sequence:
        for i in cluster.classes[g].pods[dealt[g] : dealt[g] + k]:
            yield i, cluster.nodes.names[n]
        dealt[g] += k
