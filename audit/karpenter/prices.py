"""Prices of the nodes of pools, and offers that could replace them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import msgspec

from kubestow.audit.karpenter.pools import CAPACITY_TYPE, INITIALIZED, POOL, NodePool
from kubestow.models.catalogue.catalogue import Catalogue, Offer, offers
from kubestow.models.documents.catalogue import Shape, ShapeTaint
from kubestow.models.kube import quantity
from kubestow.models.kube.objects import Node

TYPE: Final = "node.kubernetes.io/instance-type"
ZONE: Final = "topology.kubernetes.io/zone"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass
class Prices:
    """Node prices from a catalogue. Without one (None), every node costs 1."""

    catalogue: Catalogue | None

    def __post_init__(self) -> None:
        self._known: dict[tuple[str, str, bool], int] = {}
        for offer in self.catalogue.offers if self.catalogue is not None else ():
            key = type_of(offer.shape), offer.zone, offer.shape.spot
            self._known[key] = min(offer.cost, self._known.get(key, offer.cost))
        self._types = {name for name, _, _ in self._known}

    def knows(self, labels: Mapping[str, str]) -> bool:
        """Return True if the catalogue has the instance type of a node."""
        return self.catalogue is None or labels.get(TYPE) in self._types

    def of(self, labels: Mapping[str, str]) -> int:
        """Return the price of a node in millionths per hour. As in Karpenter, it is 0 if the catalogue has no offer in its zone."""
        if self.catalogue is None:
            return 1
        return self._known.get((labels.get(TYPE, ""), labels.get(ZONE, ""), labels.get(CAPACITY_TYPE) == "spot"), 0)


def type_of(shape: Shape) -> str:
    """Return the instance type of a shape."""
    return shape.labels.get(TYPE, shape.name)


def offered(pool: NodePool, catalogue: Catalogue) -> Iterator[Offer]:
    """Yield the offers that a pool's requirements allow, with the labels and taints of the pool."""
    for shape in catalogue.shapes.values():
        capacity = "spot" if shape.spot else "on-demand"
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", CAPACITY_TYPE: capacity, **shape.labels}
        labels |= {**pool.spec.template.metadata.labels, TYPE: type_of(shape), POOL: pool.name, INITIALIZED: "true"}
        # the effect is a plain str, and _EFFECTS holds the literals that ShapeTaint takes
        taints = tuple(ShapeTaint(t.key, t.effect, t.value or "") for t in pool.spec.template.spec.taints if t.effect in _EFFECTS)  # type: ignore[arg-type]
        own = msgspec.structs.replace(shape, labels=labels, taints=(*shape.taints, *taints))
        requirements = pool.spec.template.spec.requirements
        for offer in offers(own):
            there = {**labels, ZONE: offer.zone}
            # A requirement on a label that is absent from the catalogue cannot exclude a shape.
            if all(each.allows(there.get(each.key)) for each in requirements if each.key in there):
                yield offer


def unknown_requirements(pool: NodePool, catalogue: Catalogue) -> list[str]:
    """Return the labels in a pool's requirements that no shape of the catalogue has."""
    known = {TYPE, ZONE, CAPACITY_TYPE, POOL, "kubernetes.io/os", "kubernetes.io/arch", *pool.spec.template.metadata.labels}
    known |= {key for shape in catalogue.shapes.values() for key in shape.labels}
    return sorted({each.key for each in pool.spec.template.spec.requirements} - known)


def within_limits(pool: NodePool, nodes: Iterable[Node], shape: Shape) -> bool:
    """Return True if the limits of a pool with these nodes allow one more node of a shape."""
    if not pool.spec.limits:
        return True
    totals: dict[str, Fraction] = {"nodes": Fraction(1)}
    parts = [{**shape.allocatable, **shape.capacity}]
    for node in nodes:
        totals["nodes"] += 1
        parts.append((node.status.capacity or node.status.allocatable or {}) if node.status is not None else {})
    for part in parts:
        for name, raw in part.items():
            totals[name] = totals.get(name, Fraction(0)) + quantity.parse(raw)
    return all(totals.get(name, Fraction(0)) <= quantity.parse(limit) for name, limit in pool.spec.limits.items())
