"""Claims of a Placement that need no replay: its snapshot, numbering, status and the pods that it names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kubestow.checker.claims.unknown_namespaces import proof_faults
from kubestow.checker.violation import DOCUMENT, GATED, Violation
from kubestow.models.documents.placement import Placement, TierResult, Unmodelled
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

ENGINES = ("exact", "greedy", "lns", "kube-scheduler")


def document_claims(snapshot: Snapshot, placement: Placement, refusals: Mapping[str, str | None]) -> Iterator[Violation]:
    """Yield false claims of a Placement about the snapshot and itself.

    Args:
        snapshot: The snapshot.
        placement: The document.
        refusals: Why each pod is not to be placed, by key; None if it is to be placed.
    """
    for why in count_faults(snapshot, placement, sum(why is None for why in refusals.values())):
        yield Violation("", "", DOCUMENT, why)
    for why in _numbering(placement):
        yield Violation("", "", DOCUMENT, why)
    for why in _status(placement, any(why is None for why in refusals.values())):
        yield Violation("", "", DOCUMENT, why)
    yield from unknown_pods(placement.unmodelled, refusals.keys())
    yield from proof_faults(snapshot, placement, [key for key, why in refusals.items() if why is None])
    for entry in placement.unplaced:
        if refusals.get(entry.pod) == GATED:
            expected = [("SchedulingGates", len(snapshot.nodes))]
            if [(reason.rule, reason.nodes) for reason in entry.reasons] != expected:
                yield Violation(entry.pod, "", DOCUMENT, "the pod is gated, and its one reason should be SchedulingGates, on all nodes")


def count_faults(snapshot: Snapshot, document: Placement | RebalancePlan, pending: int) -> Iterator[str]:
    """Yield wrong counts, times and names in a document's snapshot reference, and an unknown engine.

    Args:
        snapshot: The snapshot.
        document: The document.
        pending: Number of pods to be placed.
    """
    ref, known = document.snapshot, snapshot.capture
    if not ref.sha256 and snapshot.sha256:
        yield f"the document does not say which snapshot it is of, this is {snapshot.sha256}"
    for name, said, number in (
        ("nodes", ref.nodes, len(snapshot.nodes)),
        ("pods", ref.pods, len(snapshot.pods)),
        ("pending", ref.pending, pending),
    ):
        if said != number:
            yield f"snapshot.{name} is {said}, it should be {number}"
    for name, claim, true in (
        ("cluster", ref.cluster, known.cluster if known is not None else ""),
        ("capturedAt", ref.capturedAt, known.time if known is not None else ""),
    ):
        if claim is not None and claim != true:
            yield f"snapshot.{name} is {claim}, it should be {true or 'left out'}"
    if document.engine not in ENGINES:
        yield f"there is no engine {document.engine!r}"


def _numbering(placement: Placement) -> Iterator[str]:
    """Yield a fault if the order numbers have a gap."""
    orders = sorted({entry.order for entry in placement.assignments})
    for expected, order in enumerate(orders, 1):
        if order != expected:
            yield f"order numbers go from 1 without a gap, expected {expected} and got {order}"
            return


def _status(placement: Placement, wanted: bool) -> Iterator[str]:
    """Yield faults of the status.

    Args:
        placement: The document.
        wanted: True if there are pods to be placed.
    """

    def open_among(tiers: Collection[TierResult]) -> bool:
        return any(tier.bound != tier.value for tier in tiers)

    tiers, status = placement.objective, placement.status
    placed = [tier for tier in tiers if tier.tier == "placed"]
    if wanted and not placement.assignments:
        if status == "infeasible" and open_among(placed):
            yield "the status is infeasible, and a placed tier has a bound above its value"
        elif status != "infeasible" and not open_among(placed):
            yield f"the status is {status}, and it is proved that nothing can be placed"
        return
    if status != "optimal" and not open_among(tiers):
        yield f"the status is {status}, and every tier is proved"
    elif status in ("unknown", "infeasible"):
        yield f"the status is {status}, and there are {len(placement.assignments)} assignments"


def unknown_pods(entries: Collection[Unmodelled], keys: Collection[str], kind: str = DOCUMENT) -> Iterator[Violation]:
    """Yield unmodelled entries about pods that the snapshot lacks.

    Other objects are named ``Kind/name`` with a capital first letter.
    """
    for entry in entries:
        if entry.pod not in keys and not entry.pod[:1].isupper():
            yield Violation(entry.pod, "", kind, "something of the pod is said not to be modelled, and the snapshot has no such pod")


def controller_name(pod: objects.Pod) -> str:
    """Return the workload to which a pod's preferences count.

    That is ``Kind namespace/name`` of its controller, or of the pod itself.
    """
    owner = objects.controller_of(pod)
    if owner is None:
        return f"Pod {objects.pod_key(pod)}"
    return f"{owner.kind} {pod.metadata.namespace or 'default'}/{owner.name}"
