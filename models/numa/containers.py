"""What containers add to pod classes: hints between containers, and what a pod asks of the NUMA zones of its node.

A hint with a scope of its own is a predicate over the other container alone; hints of the default scope stay inside the pod. So a
class carries, per container, weighted predicates, the predicates it satisfies, and a matrix of what its own containers want of each
other (docs/sources.md#container-affinity).
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
    """One admission of the kubelet's Topology Manager: ``container`` is the index among the class's containers, -1 for an ordinary
    init container, -2 for the whole pod (pod scope)."""

    container: int
    amounts: Amounts


INIT, WHOLE = -1, -2


@dataclass(frozen=True, slots=True)
class ContainerClass:
    """The containers that run (app containers, then sidecars) of equal pods. ``entries``: per container (predicate, weight);
    ``hits``: per container the predicates it satisfies; ``inner``: (i, j, A(i, j)) from hints of the default scope."""

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
    """Containers of fixed pods, whose zones are unknown. Per predicate, int64[N]: how many on each node satisfy it, and the weights of
    those that own it."""

    satisfying: dict[int, Ints] = field(default_factory=dict)
    owning: dict[int, Ints] = field(default_factory=dict)


def running(pod: Pod) -> list[Container]:
    """App containers, then sidecars: those that run side by side."""
    return [*(pod.spec.containers or ()), *(c for c in pod.spec.initContainers or () if c.restartPolicy == "Always")]


def request(container: Container) -> Amounts:
    """Return what one container requests, zero amounts left out."""
    found = {}
    for name, raw in ((container.resources.requests if container.resources else None) or {}).items():
        amount = quantity.milli(raw) if name == "cpu" else quantity.units(raw)
        if amount and counts_as_resource(name):
            found[name] = amount
    return tuple(sorted(found.items()))


class NoContainers:
    """The container classes of pods that no hint concerns and that ask nothing of zones: none."""

    def key(self, index: int) -> int:
        """Return an id that tells apart pods of different container classes; -1 for none."""
        return -1

    def of(self, index: int) -> ContainerClass | None:
        return None

    def fixed(self, placed: Iterable[tuple[ContainerClass | None, Ints]], size: int) -> FixedContainers:
        """Sums over fixed pods; ``placed``: a class and the nodes (int64) of its pods; ``size``: the number of nodes."""
        return FixedContainers()
