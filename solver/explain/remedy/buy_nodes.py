"""Remedies that buy nodes: the cheapest nodes of one offer of a catalogue (a shape in a zone) that make a placement possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kubestow.models.catalogue import money
from kubestow.models.catalogue.catalogue import Catalogue, Offer
from kubestow.models.catalogue.nodes import Newcomers
from kubestow.models.documents.placement import Edits, Remedy
from kubestow.models.kube.objects import controller_of
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.add_nodes import takers
from kubestow.solver.explain.remedy.apply import with_edits
from kubestow.solver.explain.remedy.smallest_working import least
from kubestow.solver.explain.remedy.time_slices import TimeSlices

#: Fraction of its time that one query may take.
_QUERY_TIME_FRACTION: Final = 0.25


@dataclass(frozen=True)
class _Candidate:
    """An offer that could take some pod of the question.

    Attributes:
        max_nodes: Maximum number of nodes that is useful and available.
        guess: Number of nodes that hold all requests of the scarcest resource.
    """

    offer: Offer
    max_nodes: int
    guess: int


def cheapest(question: PlacementQuestion, catalogue: Catalogue, clock: TimeSlices, share: float) -> Remedy | None:
    """Return the remedy that buys nodes of one offer at the least cost. Equal costs: the fewest nodes.

    Never more nodes than pods are bought. Argument ``least`` of the remedy is ``unproved`` if a cheaper purchase of one
    offer might suffice.

    Args:
        share: Fraction of the whole time for all queries together.

    Returns:
        None if no purchase works, if none was found in time, or if a pod of the question belongs to a DaemonSet.
    """
    if any((owner := controller_of(question.snapshot.pods[i])) is not None and owner.kind == "DaemonSet" for i in question.pods):
        return None  # each new node would add a pod
    section = clock.section(share)
    best: tuple[int, int, Offer] | None = None
    sure = True
    for candidate in sorted(_candidates(question, catalogue), key=lambda each: (each.guess * each.offer.cost, each.guess)):
        offer, max_nodes = candidate.offer, candidate.max_nodes
        if best is not None:  # cheaper, or equally cheap with fewer nodes
            max_nodes = min(max_nodes, max((k for k in range(1, max_nodes + 1) if (k * offer.cost, k) < best[:2]), default=0))
        if not max_nodes:
            continue
        answers: list[bool | None] = []

        def works(count: int, offer: Offer = offer, answers: list[bool | None] = answers) -> bool | None:
            answers.append(_works(question, offer, count, section))
            return answers[-1]

        number = least(works, 1, max_nodes, candidate.guess)
        sure &= None not in answers
        if number is not None:
            best = (number[0] * offer.cost, number[0], offer)
    return None if best is None else remedy_of(best[2], best[1], catalogue, sure=sure)


def _works(question: PlacementQuestion, offer: Offer, count: int, section: TimeSlices) -> bool | None:
    edits = Edits(buy=[f"{count}:{offer.shape.name}@{offer.zone}"], shapes=[offer.shape])
    return section.ask(with_edits(question, edits), _QUERY_TIME_FRACTION)


def remedy_of(offer: Offer, count: int, catalogue: Catalogue, *, sure: bool = True) -> Remedy:
    """Return the remedy that buys ``count`` nodes of an offer.

    Args:
        sure: True if no cheaper purchase of one offer suffices.
    """
    name, zone, cost = offer.shape.name, offer.zone, money.text(count * offer.cost)
    message = f"add {count} node{'s' if count != 1 else ''} of shape {name} in zone {zone}, {cost} per hour"
    arguments = {"count": str(count), "shape": name, "zone": zone, "price": cost, **({} if sure else {"least": "unproved"})}
    return Remedy("buyNodes", message, arguments, ["--catalogue", catalogue.path, "--buy", f"{count}:{name}@{zone}"])


def _candidates(question: PlacementQuestion, catalogue: Catalogue) -> list[_Candidate]:
    """Return the offers whose empty nodes can take some pod of the question, without dominated offers."""
    snapshot = question.snapshot.copy()
    newcomers = Newcomers(snapshot, question.snapshot)
    quotas = catalogue.most
    offers: dict[str, Offer] = {}
    for offer in catalogue.offers:
        if catalogue.excess[offer.shape.name] <= 0:  # all purchased nodes are of one shape
            offers |= dict.fromkeys(newcomers.buy(offer.shape, offer.zone, 1), offer)
    probe = replace(question, snapshot=snapshot)
    cluster = probe.cluster()
    residents: dict[str, list[str]] = {}
    for pod in snapshot.pods[len(question.snapshot.pods) :]:
        owner = controller_of(pod)
        residents.setdefault(pod.spec.nodeName or "", []).append(f"{pod.metadata.namespace}/{owner.name if owner else ''}")
    total: list[int] = (cluster.demand * cluster.count[:, None]).sum(axis=0).tolist()
    sized: dict[object, list[tuple[tuple[int, ...], _Candidate]]] = {}
    for n, signature, _ in takers(probe, cluster):
        name = cluster.nodes.names[n]
        if name not in offers:
            continue
        offer = offers[name]
        free: list[int] = cluster.free[n].tolist()
        guess = max([1, *(-(-requested // have) for requested, have in zip(total, free, strict=True) if requested and have > 0)])
        max_nodes = min(question.needed, quotas.get(offer.shape.name, question.needed))
        if max_nodes:
            size = (*free, int(cluster.slots[n]), max_nodes, -offer.cost)
            key = (signature, tuple(sorted(offer.shape.volumes.items())), tuple(residents.get(name, ())))
            sized.setdefault(key, []).append((size, _Candidate(offer, max_nodes, min(guess, max_nodes))))
    return [candidate for members in sized.values() for candidate in _best(members)]


def _best(members: Sequence[tuple[tuple[int, ...], _Candidate]]) -> list[_Candidate]:
    """Return the candidates that no other one dominates in size and cost.

    Args:
        members: Candidates with equal labels, taints and drivers, each with its sizes; larger is better in each.
    """
    kept: list[tuple[tuple[int, ...], _Candidate]] = []
    for size, candidate in sorted(members, key=lambda member: member[0], reverse=True):
        if not any(all(theirs >= own for theirs, own in zip(other, size, strict=True)) for other, _ in kept):
            kept.append((size, candidate))
    return [candidate for _, candidate in kept]
