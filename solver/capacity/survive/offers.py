"""The kinds of nodes that a remedy may add, and the room they provide: clones of existing nodes, or offers of a catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.catalogue import Shape
from kubestow.models.documents.placement import Edits
from kubestow.models.documents.survival import Survival
from kubestow.models.edits.edits import apply
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.survive.options import ZONE_KEY, SurviveOptions
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.add_nodes import HOSTNAME, shapes
from kubestow.solver.rules import PLAN_FACES
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of node kinds that are tried.
_MAX_KINDS: Final = 24
#: Name of the resource that counts pods per node.
_SLOTS: Final = "pods"
#: Number of nodes that no purchase exceeds.
_MAX_NODES: Final = 100_000


@dataclass(frozen=True)
class NodeOffer:
    """A kind of node.

    Attributes:
        text: Name of the node it is a clone of, or SHAPE@ZONE.
        cost: 1 for a clone, otherwise millionths per hour.
        domain: The failing domain that such a node belongs to; None without one.
        shape: The catalogue's shape; None for a clone.
        max_nodes: Maximum number of nodes of the shape, over all zones.
    """

    text: str
    cost: int = 1
    domain: str | None = None
    shape: Shape | None = None
    max_nodes: int = _MAX_NODES


@dataclass(frozen=True)
class MissingRoom:
    """The resources that pods lack after a failure.

    Attributes:
        lacking: Missing amount of each resource.
        provides: For each offer, the amounts that one node provides.
    """

    lacking: tuple[int, ...]
    provides: tuple[tuple[int, ...], ...]

    def suffices(self, counts: Sequence[int]) -> bool:
        """Return True if a purchase covers the missing capacity. A False is final: no placement can use this purchase."""
        return all(need <= sum(n * g[r] for n, g in zip(counts, self.provides, strict=True)) for r, need in enumerate(self.lacking))

    def needed(self, counts: Sequence[int], c: int) -> int:
        """Return the number of additional nodes of an offer that covers the missing capacity; 1 if no number does."""
        number = 1
        for r, need in enumerate(self.lacking):
            missing = need - sum(n * g[r] for n, g in zip(counts, self.provides, strict=True))
            if missing > 0 and self.provides[c][r] > 0:
                number = max(number, -(-missing // self.provides[c][r]))
        return number


def edits_of(offers: Sequence[NodeOffer], counts: Sequence[int]) -> Edits:
    """Return the given numbers of nodes of each offer as what-if edits."""
    bought = [(n, offer) for n, offer in zip(counts, offers, strict=True) if n]
    shapes: dict[str, Shape] = {offer.shape.name: offer.shape for _, offer in bought if offer.shape is not None}
    return Edits(
        addNodes=[f"{n}:{offer.text}" for n, offer in bought if offer.shape is None],
        buy=[f"{n}:{offer.text}" for n, offer in bought if offer.shape is not None],
        shapes=list(shapes.values()),
    )


def offers(
    snapshot: Snapshot, request: SurviveOptions, survival: Survival, context: RunContext, catalogue: Catalogue | None
) -> list[NodeOffer]:
    """Return the kinds of nodes that can hold some pod that stays pending, the cheapest first, then the smallest."""
    if catalogue is not None:
        listed = [
            NodeOffer(
                f"{o.shape.name}@{o.zone}",
                o.cost,
                _domain(request, o.shape, o.zone),
                o.shape,
                _MAX_NODES if o.shape.most is None else o.shape.most,
            )
            for o in catalogue.offers
        ]
        return sorted((offer for offer in listed if offer.max_nodes), key=lambda offer: offer.cost)
    wanted = {pod for each in survival.counterexamples for pod in each.pending}
    pods = tuple(i for i, pod in enumerate(snapshot.pods) if pod_key(pod) in wanted)
    question = PlacementQuestion(snapshot, pods, len(pods), context.options.exempt, context.options.policy)
    also = sorted({ZONE_KEY, *_volume_keys(snapshot)} | ({request.key} if request.key is not None else set()))
    nodes = {node.metadata.name or "": node.metadata.labels or {} for node in snapshot.nodes}
    kinds = [shape.like for shape in shapes(question, question.cluster(), also)]
    return [NodeOffer(like, domain=None if request.key is None else nodes[like].get(request.key)) for like in kinds][:_MAX_KINDS]


def _volume_keys(snapshot: Snapshot) -> set[str]:
    """Return the label keys that restrict volumes to places, except those of single nodes, which no new node has."""
    keys: set[str] = set()
    for volume in snapshot.persistent_volumes.values():
        affinity = volume.spec.nodeAffinity if volume.spec is not None else None
        terms = (affinity.required.nodeSelectorTerms if affinity is not None and affinity.required is not None else None) or ()
        keys.update(each.key for term in terms for each in term.matchExpressions or ())
    return keys - {HOSTNAME}


def _domain(request: SurviveOptions, shape: Shape, zone: str) -> str | None:
    if request.key is None:
        return None
    return shape.labels.get(request.key, zone if request.key == ZONE_KEY else None)


def one_of_each(snapshot: Snapshot, kinds: Sequence[NodeOffer]) -> tuple[Snapshot, list[str]]:
    """Return the snapshot with one node of each kind, ignoring the catalogue's limits, and the names of these nodes in order."""
    edits = edits_of(kinds, [1] * len(kinds))
    edits.shapes = [msgspec.structs.replace(shape, most=None) for shape in edits.shapes]
    edited = apply(snapshot, None, edits).snapshot
    return edited, [node.metadata.name or "" for node in edited.nodes[len(snapshot.nodes) :]]


def room(before: Cluster, after: Cluster, fresh: Sequence[str]) -> MissingRoom:
    """Return the room that returning pods lack after a failure: their requests minus the free room of nodes open to any pod.

    It is a lower bound, because other rules only exclude pods from more nodes.

    Args:
        before: The cluster after the failure.
        after: The same cluster with one node of each kind.
        fresh: The names of these nodes.
    """
    free = np.maximum(before.free, 0)
    closed = [rule(before) for rule, face in PLAN_FACES.items() if face.selects_nodes]
    takes = np.zeros(before.n_nodes, dtype=bool)
    for g in range(before.n_classes):
        takes |= ~np.logical_or.reduce([rule.never(g) for rule in closed]) & (free >= before.demand[g]).all(axis=1) & (before.slots > 0)
    asks = np.append((before.demand * before.count[:, None]).sum(axis=0), before.count.sum())
    have = np.append(free[takes].sum(axis=0), np.maximum(before.slots, 0)[takes].sum())
    lacking = dict(zip([*before.resources, _SLOTS], (asks - have).tolist(), strict=True))
    row = {name: n for n, name in enumerate(after.nodes.names)}
    provides: list[tuple[int, ...]] = []
    for name in fresh:
        n = row.get(name)  # missing if it fails as well
        given = {} if n is None else {resource: max(0, int(after.free[n, r])) for r, resource in enumerate(after.resources)}
        given[_SLOTS] = 0 if n is None else max(0, int(after.slots[n]))
        provides.append(tuple(given.get(resource, 0) for resource in lacking))
    return MissingRoom(tuple(lacking.values()), tuple(provides))
