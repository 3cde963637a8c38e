"""The container data of pod classes: hints between containers, and requests from the NUMA zones of a node.

A hint with a scope is a predicate on the other container alone; hints of the default scope stay inside the pod.
So a class has three things: weighted predicates per container, the predicates that each satisfies, and a matrix
of affinities between its own containers (docs/sources.md#container-affinity).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kubestow.models.kube import quantity
from kubestow.models.kube.objects import Container, Pod
from kubestow.models.kube.pod_requests import counts_as_resource

Ints = NDArray[np.int64]
Amounts = tuple[tuple[str, int], ...]  # (resource, mCPU or units), sorted


@dataclass(frozen=True, slots=True)
class ZoneAsk:
    """One admission by the kubelet's Topology Manager.

    Attributes:
        container: Index of the class's container; -1: an ordinary init container; -2: the whole pod (pod
            scope).
    """

    container: int
    amounts: Amounts


INIT, WHOLE = -1, -2


@dataclass(frozen=True, slots=True)
class ContainerClass:
    """The concurrent containers (app containers, then sidecars) of equal pods.

    Attributes:
        entries: Per container, (predicate, weight).
        hits: Per container, the predicates that it satisfies.
        inner: (i, j, A(i, j)) from hints of the default scope.
    """

    requests: tuple[Amounts, ...]
    entries: tuple[tuple[tuple[int, int], ...], ...]
    hits: tuple[tuple[int, ...], ...]
    inner: tuple[tuple[int, int, int], ...]
    per_container: tuple[ZoneAsk, ...]
    per_pod: tuple[ZoneAsk, ...]

    def involved(self) -> list[int]:
        """Return the containers that some hint concerns."""
        inside = {k for i, j, _ in self.inner for k in (i, j)}
        return [i for i in range(len(self.requests)) if i in inside or self.entries[i] or self.hits[i]]


@dataclass
class FixedContainers:
    """Containers of fixed pods, whose zones are unknown.

    Attributes:
        satisfying: Per predicate, the number of containers on each node that satisfy it, int64[N].
        owning: Per predicate, the total weight of the containers on each node that own it, int64[N].
    """

    satisfying: dict[int, Ints] = field(default_factory=dict)
    owning: dict[int, Ints] = field(default_factory=dict)


def running(pod: Pod) -> list[Container]:
    """Return the concurrent containers: app containers, then sidecars."""
    return [*(pod.spec.containers or ()), *(c for c in pod.spec.initContainers or () if c.restartPolicy == "Always")]


def request(container: Container) -> Amounts:
    """Return the requests of one container, without zero amounts."""
    found = {}
    for name, raw in ((container.resources.requests if container.resources else None) or {}).items():
        amount = quantity.milli(raw) if name == "cpu" else quantity.units(raw)
        if amount and counts_as_resource(name):
            found[name] = amount
    return tuple(sorted(found.items()))


class NoContainers:
    """The table of an instance without hints and zone requests: no pod has a container class."""

    def key(self, index: int) -> int:
        """Return an id that distinguishes pods of different container classes; -1: no class."""
        return -1

    def of(self, index: int) -> ContainerClass | None:
        return None

    def fixed(self, placed: Iterable[tuple[ContainerClass | None, Ints]], size: int) -> FixedContainers:
        """Return, per predicate, sums over the containers of fixed pods on each node.

        Args:
            placed: Container class of the pods and node index of each pod, int64. None: no class.
            size: Number of nodes.
        """
        return FixedContainers()
