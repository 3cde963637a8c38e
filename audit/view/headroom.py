"""CPU and memory of nodes: allocatable amounts and the free capacity next to running pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kubestow.audit.view.view import ClusterView
from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube import pod_requests
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.solver.rules.wording import amount

RESOURCES = ("cpu", "memory")


class Requests:
    """Resource requests of pods, computed once for pods with equal specs."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._gates = snapshot.gates
        self._known: dict[tuple[int, ...], dict[str, int]] = {}

    def of(self, pod: Pod) -> dict[str, int]:
        """Return the larger of the requests in spec and status, as
        :func:`kubestow.models.kube.pod_requests.pod_request` does.

        Raises:
            InputError: A quantity cannot be parsed.
        """
        spec = pod.spec  # equal pods share these parts, which their snapshot keeps alive
        key = tuple(id(part) for part in (spec.containers, spec.initContainers, spec.overhead, spec.resources, pod.status))
        found = self._known.get(key)
        if found is None:
            try:
                found = self._known[key] = pod_requests.pod_request(pod, self._gates)
            except ValueError as error:
                raise InputError([f"Pod {pod_key(pod)}: requests: {error}"]) from error
        return found


class NodeHeadroom:
    """Allocatable and free CPU and memory per node.

    Attributes:
        allocatable: object[N, 2], exact integers in mCPU and bytes.
        free: object[N, 2], in the same units: allocatable minus the requests of running pods.

    Raises:
        InputError: A quantity cannot be parsed.
    """

    def __init__(self, view: ClusterView) -> None:
        snapshot = view.snapshot
        self._requests = Requests(snapshot)
        rows = []
        for node in snapshot.nodes:
            given = pod_requests.allocatable((node.status.allocatable if node.status is not None else None) or {})
            rows.append([given.get(name, 0) for name in RESOURCES])
        self.allocatable: Ints = np.array(rows, dtype=object).reshape(len(rows), len(RESOURCES))
        self.free: Ints = self.allocatable.copy()
        for i in view.running:
            self.free[view.node_index[snapshot.pods[i].spec.nodeName or ""]] -= self.of(snapshot.pods[i])

    def of(self, pod: Pod) -> list[int]:
        """Return the CPU and memory that a pod requests or holds, in mCPU and bytes."""
        requests = self._requests.of(pod)
        return [requests.get(name, 0) for name in RESOURCES]

    def remaining(self, nodes: Bools) -> str:
        """Return the free CPU and memory of the given nodes, as text."""
        return words(np.maximum(self.free[nodes], 0).sum(axis=0) if nodes.any() else (0, 0))

    def largest(self, domains: Iterable[Bools], pod: Pod) -> str | None:
        """Return the capacity of the largest domain minus the requests of one pod, as text. None without domains."""
        totals = [self.allocatable[nodes].sum(axis=0).tolist() for nodes in domains]
        if not totals:
            return None
        mine = self.of(pod)
        return words([max(have - request, 0) for have, request in zip(max(totals), mine, strict=True)])


def words(values: Sequence[int]) -> str:
    """Format CPU (mCPU) and memory (bytes)."""
    return " and ".join(amount(name, int(value)) for name, value in zip(RESOURCES, values, strict=True))
