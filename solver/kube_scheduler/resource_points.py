"""Points of NodeResourcesFit and NodeResourcesBalancedAllocation: the use of a node's resources with one more pod.

Source: https://github.com/kubernetes/kubernetes/tree/v1.36.2/pkg/scheduler/framework/plugins/noderesources, least_allocated.go,
most_allocated.go, requested_to_capacity_ratio.go, balanced_allocation.go and resource_allocation.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube import pod_requests
from kubestow.models.scheduler.configuration import ResourceSpec, ScoringStrategy

MAX_POINTS: Final = 100
#: Points of a shape are from 0 to 10.
_SHAPE_SCALE: Final = 10
#: Resources that count even if a pod does not request them. All others are scalar in kube-scheduler's terms.
_ALWAYS: Final = ("cpu", "memory", "ephemeral-storage")


class ResourceUse:
    """Capacity and use of the resources that scores count.

    Args:
        names: The resources, S.

    Attributes:
        capacity: int64[N, S], allocatable amounts.
        used: int64[N, S], requests of the pods on each node.
        supposed: int64[N, S], the same with an assumed request for containers without one (CPU and memory).
        request: int64[G, S], the request of a pod of each class.
        assumed: int64[G, S], the same with assumed requests.
    """

    def __init__(self, cluster: Cluster, names: Sequence[str]) -> None:
        self.names = list(names)
        self._cluster = cluster
        column = {name: r for r, name in enumerate(cluster.resources)}
        shape = cluster.n_nodes, len(names)
        self.capacity = np.zeros(shape, dtype=np.int64)
        self.used = np.zeros(shape, dtype=np.int64)
        self.request = np.zeros((cluster.n_classes, len(names)), dtype=np.int64)
        for n, node in enumerate(cluster.snapshot.nodes):
            status = node.status
            listed = (status.allocatable if status.allocatable is not None else status.capacity) if status else None
            amounts = pod_requests.allocatable(listed)
            self.capacity[n] = [amounts.get(name, 0) for name in names]
        for s, name in enumerate(names):
            if name in column:
                self.used[:, s] = cluster.allocatable[:, column[name]] - cluster.free[:, column[name]]
                self.request[:, s] = cluster.demand[:, column[name]]
        self.supposed, self.assumed = self.used.copy(), self.request.copy()
        for s, name in enumerate(names):
            if name in ("cpu", "memory"):
                r = ("cpu", "memory").index(name)
                self.supposed[:, s] += cluster.fixed_supposed[:, r]
                self.assumed[:, s] += cluster.supposed[:, r]

    def place(self, g: int, n: int, k: int = 1) -> None:
        """Add k pods of class g on node n."""
        self.used[n] += k * self.request[g]
        self.supposed[n] += k * self.assumed[g]

    def counted(self, g: int, amounts: Ints) -> Ints:
        """Return int64[N, S]: the capacity of the resources that count for a class, 0 for the others."""
        asked = [bool(amount) or name in _ALWAYS for name, amount in zip(self.names, amounts.tolist(), strict=True)]
        return np.where(asked, self.capacity, 0)


class AllocationPoints:
    """Points of NodeResourcesFit under a strategy."""

    def __init__(self, cluster: Cluster, strategy: ScoringStrategy) -> None:
        self.use = ResourceUse(cluster, [resource.name for resource in strategy.resources])
        self._strategy = strategy
        self._weights = np.array([resource.weight for resource in strategy.resources], dtype=np.int64)

    def points(self, g: int) -> Ints:
        """Return int64[N], the points of each node for one more pod of class g."""
        amounts = self.use.assumed[g]
        capacity = self.use.counted(g, amounts)
        there = capacity > 0
        requested = self.use.supposed + amounts
        divisor = np.where(there, capacity, 1)
        least = np.where(requested > capacity, 0, (capacity - requested) * MAX_POINTS // divisor)
        if self._strategy.type == "LeastAllocated":
            single, counts = least, there
        elif self._strategy.type == "MostAllocated":
            single, counts = np.minimum(requested, capacity) * MAX_POINTS // divisor, there
        else:
            utilization = np.where(requested > capacity, MAX_POINTS, requested * MAX_POINTS // divisor)
            single = self._shaped(utilization)
            counts = there & (single > 0)
        weights = (counts * self._weights).sum(axis=1)
        total = (np.where(counts, single, 0) * self._weights).sum(axis=1)
        if self._strategy.type == "RequestedToCapacityRatio":  # rounded half up, as all are positive
            return np.where(weights, (2 * total + weights) // np.maximum(2 * weights, 1), 0)
        return np.where(weights, total // np.maximum(weights, 1), 0)

    def _shaped(self, utilization: Ints) -> Ints:
        """Return the points of the strategy's shape, which is linear between its points. Quotients are truncated towards zero."""
        assert self._strategy.requestedToCapacityRatio is not None
        shape = [(point.utilization, point.score * _SHAPE_SCALE) for point in self._strategy.requestedToCapacityRatio.shape]
        found = np.full(utilization.shape, shape[-1][1], dtype=np.int64)
        for (low, first), (high, last) in reversed(list(pairwise(shape))):
            rise = (last - first) * (utilization - low)
            between = first + np.sign(rise) * (np.abs(rise) // (high - low))
            found = np.where(utilization <= high, between, found)
        return np.where(utilization <= shape[0][0], shape[0][1], found)


class BalancePoints:
    """Points of NodeResourcesBalancedAllocation: how much a pod improves the balance between a node's resources."""

    def __init__(self, cluster: Cluster, resources: Sequence[ResourceSpec]) -> None:
        self.use = ResourceUse(cluster, [resource.name for resource in resources])

    def points(self, g: int) -> Ints | None:
        """Return int64[N], the points of each node for one more pod of class g, or None for a pod without requests."""
        amounts = self.use.request[g]
        if not amounts.any():
            return None
        capacity = self.use.counted(g, amounts)
        with_pod = _balance(np.where(capacity > 0, self.use.used + amounts, 0), capacity)
        without = _balance(np.where(capacity > 0, self.use.used, 0), capacity)
        half = MAX_POINTS // 2
        change = half + with_pod - without
        points: Ints = half + np.sign(change) * (np.abs(change) // 2)
        return points


def _balance(used: Ints, capacity: Ints) -> Ints:
    """Return int64[N]: 100 minus the standard deviation of the used shares in percent, truncated. In floating point, as kube-scheduler."""
    there = capacity > 0
    shares = np.where(there, np.minimum(used / np.where(there, capacity, 1), 1.0), 0.0)
    number = there.sum(axis=1)
    deviation = np.zeros(len(used))
    total = np.zeros(len(used))
    for s in range(shares.shape[1]):  # one after the other, since the order of a sum of floats matters
        total = total + shares[:, s]
    mean = total / np.maximum(number, 1)
    squares = np.zeros(len(used))
    for s in range(shares.shape[1]):
        squares = squares + np.where(there[:, s], (shares[:, s] - mean) * (shares[:, s] - mean), 0.0)
    many = number > 2
    deviation[many] = np.sqrt(squares[many] / number[many])
    for n in np.flatnonzero(number == 2).tolist() if shares.shape[1] > 2 else ():
        first, second = shares[n][there[n]].tolist()
        deviation[n] = abs((first - second) / 2)
    if shares.shape[1] == 2:
        deviation = np.where(number == 2, np.abs((shares[:, 0] - shares[:, 1]) / 2), deviation)
    return ((1 - deviation) * float(MAX_POINTS)).astype(np.int64)
