"""The additional nodes that a cluster needs to survive failures: size, certify, add what the certificate lacks, and repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

import msgspec

from kubestow.models.buffers.chunks import without_chunks
from kubestow.models.catalogue.catalogue import Catalogue, Offer
from kubestow.models.catalogue.nodes import node
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.survival import Survival
from kubestow.models.edits.binding import placed_as
from kubestow.models.kube.objects import Node
from kubestow.models.snapshot.snapshot import InputError
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.trial import PurchaseTrial
from kubestow.solver.capacity.survive.answer import Wishes, answer
from kubestow.solver.capacity.survive.failures import too_few
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of certificates.
MAX_CERTIFICATES = 4
#: Fraction of the remaining time for one certificate.
CERTIFICATE_TIME_FRACTION = 0.6

Bought = list[tuple[Offer, int]]


def check_label(there: Iterable[Node], catalogue: Catalogue, request: SurviveOptions) -> None:
    """Refuse failures of domains that cannot exist.

    Raises:
        InputError: Neither existing nodes nor offers have the topology key as a label.
    """
    nodes = chain(there, (node(offer.shape, offer.zone, "new") for offer in catalogue.offers))
    if request.key is not None and not any(request.key in (each.metadata.labels or {}) for each in nodes):
        raise InputError([too_few(request, 0, "--survive")])


def certificate(
    trial: PurchaseTrial, placement: Placement, catalogue: Catalogue, request: SizeOptions, context: RunContext
) -> tuple[Survival | None, Bought | None, str | None]:
    """Check that a placement survives the required failures.

    Returns:
        The certificate, or what to buy in addition, or the reason why there is neither; the other two are None.
    """
    assert request.survive is not None
    options = replace(
        context.options, time_limit=max(1.0, context.deadline.remaining() * CERTIFICATE_TIME_FRACTION), edits=placement.snapshot.edits
    )
    remaining_catalogue = _left(trial.bought, catalogue, request)
    try:
        survival = answer(
            without_chunks(placed_as(trial.expansion.snapshot, placement)),
            request.survive,
            replace(options, workloads=tuple(placement.snapshot.workloads)),
            Wishes(ways=False, remedy=bool(remaining_catalogue.shapes), catalogue=remaining_catalogue),
            stop=context.stop,
        )
    except InputError as error:
        return None, None, error.problems[0]
    if survival.certified:
        return survival, None, None
    if survival.remedy is None or not survival.remedy.certified:
        worst = ", ".join(survival.counterexamples[0].failed) if survival.counterexamples else "some failures"
        return None, None, f"no purchase was found that survives the failure of {worst}"
    offers = {f"{offer.shape.name}@{offer.zone}": offer for offer in catalogue.offers}
    parts = [text.partition(":") for text in survival.remedy.buy]
    more = [(offers[name], int(count)) for count, _, name in parts]
    if not _allowed([*trial.bought, *more], catalogue, request):
        return None, None, "surviving these failures needs more nodes than the catalogue or the options allow"
    return None, more, None


def combined(bought: Bought, more: Bought) -> Bought:
    """Return the sum of two purchases. Nodes keep the names that they have in the first."""
    counted = {(offer.shape.name, offer.zone): (offer, count) for offer, count in bought}
    for offer, count in more:
        _, before = counted.get((offer.shape.name, offer.zone), (offer, 0))
        counted[offer.shape.name, offer.zone] = offer, before + count
    return list(counted.values())


def _left(bought: Bought, catalogue: Catalogue, request: SizeOptions) -> Catalogue:
    """Return the part of the catalogue that can still be bought."""
    bought_counts: Mapping[str, int] = Counter(dict.fromkeys(catalogue.shapes, 0)) + Counter(
        {name: sum(count for offer, count in bought if offer.shape.name == name) for name in catalogue.shapes}
    )
    full = request.kinds is not None and len(bought_counts) >= request.kinds
    shapes = {
        name: shape if shape.most is None else msgspec.structs.replace(shape, most=shape.most - bought_counts.get(name, 0))
        for name, shape in catalogue.shapes.items()
        if not full or name in bought_counts
    }
    return replace(catalogue, shapes={name: shape for name, shape in shapes.items() if shape.most != 0})


def _allowed(bought: Bought, catalogue: Catalogue, request: SizeOptions) -> bool:
    bought_counts: Counter[str] = Counter()
    for offer, count in bought:
        bought_counts[offer.shape.name] += count
    within_limits = all(bought_counts[name] <= limit for name, limit in catalogue.most.items())
    return within_limits and catalogue.within_spot(bought_counts) and (request.kinds is None or len(bought_counts) <= request.kinds)
