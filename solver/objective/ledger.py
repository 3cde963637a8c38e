"""The points that a placement gains and loses, by workload and preference: families enter theirs for a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Protocol

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.documents import placement as doc
from kubestow.models.kube.objects import Pod, controller_of, pod_key
from kubestow.solver.objective.shapes import AssignedZones, SoftTally
from kubestow.solver.objective.sparse_placement import SparsePlacement

#: Pods on each node, per class and workload.
_Pods = list[dict[str, dict[int, int]]]


class WeightedFamily(Protocol):
    """The part of a family that entries need."""

    name: ClassVar[str]
    multiplier: int


class ReportedObjective(Protocol):
    """The part of the objective that the report needs."""

    cluster: Cluster
    tallies: list[SoftTally]

    def excesses(self, placed: SparsePlacement, tallies: Iterable[int]) -> dict[int, int]:
        """Return the pods above maxSkew of soft spread constraints, by constraint."""


def workload(pod: Pod) -> str:
    """Return ``Kind namespace/name`` of the controller, or of the pod itself."""
    owner = controller_of(pod)
    if owner is None:
        return f"Pod {pod_key(pod)}"
    return f"{owner.kind} {pod.metadata.namespace or 'default'}/{owner.name}"


class Ledger:
    """The placement reported on, and its entries.

    Attributes:
        counts: int64[G, N].
        sequence: Bind order.
        zones: NUMA zones.
        placed: The same placement, sparse.
        total: Placed pods of each class, int64[G].
        pods: Pods by class and workload.
        excesses: Pods above maxSkew of each soft spread constraint of the objective.
        gained: Weighted points by workload.
    """

    def __init__(self, objective: ReportedObjective, counts: Ints, sequence: Sequence[tuple[int, int, int]], zones: AssignedZones) -> None:
        self._tallies = objective.tallies
        self.counts, self.sequence, self.zones = counts, sequence, zones
        self.placed, self.total = SparsePlacement(counts), counts.sum(axis=1)
        self.pods = _pods_of(objective.cluster, sequence)
        self.excesses = objective.excesses(self.placed, range(len(objective.tallies)))
        self.gained: dict[str, int] = {}
        self._book: dict[tuple[str, str, str], tuple[int, int]] = {}

    def skewed(self, family: WeightedFamily) -> Iterator[tuple[SoftTally, int]]:
        """Yield the violated soft spread constraints of a family, with the number of pods above their maxSkew."""
        for i, above in self.excesses.items():
            if above and self._tallies[i].family == family.name:
                yield self._tallies[i], above

    def enter(self, family: WeightedFamily, owner: str, text: str, pods: int, lost: int) -> None:
        """Enter the raw points that some pods of a workload lost by one preference."""
        lost *= family.multiplier
        if lost > 0:
            before = self._book.get((owner, family.name, text), (0, 0))
            self._book[owner, family.name, text] = (before[0] + pods, before[1] + lost)

    def share(self, family: WeightedFamily, g: int, text: str, lost: Ints) -> None:
        """Share out the raw points that the class's pods lost on each of their nodes (``lost``), by number of pods."""
        if not lost.any():
            return
        nodes, here = self.placed.of(g)
        remaining = lost.copy()
        for owner, pods in self.pods[g].items():
            own = np.array([pods.get(n, 0) for n in nodes.tolist()], dtype=np.int64)
            share = lost * own // here
            remaining -= share
            self.enter(family, owner, text, int(own[lost > 0].sum()), int(share.sum()))
        if remaining.any() and self.pods[g]:
            self.enter(family, next(iter(self.pods[g])), text, 0, int(remaining.sum()))

    def unmet(self) -> list[doc.Unmet]:
        """Return the entries, the greatest losses first."""
        found = [doc.Unmet(owner, family, text, pods, lost) for (owner, family, text), (pods, lost) in self._book.items()]
        return sorted(found, key=lambda u: (-u.lost, u.workload, u.preference))


def _pods_of(cluster: Cluster, sequence: Sequence[tuple[int, int, int]]) -> _Pods:
    """Return the pods on each node, per class and workload."""
    found: _Pods = [{} for _ in cluster.classes]
    names: dict[tuple[str | None, int], str] = {}  # by owner references, which pods of a controller share
    dealt = [0] * cluster.n_classes
    for g, n, k in sequence:
        for i in cluster.classes[g].pods[dealt[g] : dealt[g] + k]:
            pod = cluster.snapshot.pods[i]
            key = pod.metadata.namespace, id(pod.metadata.ownerReferences)
            name = names.get(key)
            if name is None:
                name = workload(pod)
                if controller_of(pod) is not None:  # other pods are named individually
                    names[key] = name
            nodes = found[g].setdefault(name, {})
            nodes[n] = nodes.get(n, 0) + 1
        dealt[g] += k
    return found
