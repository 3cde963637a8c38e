"""Faults of a Placement document itself: unknown or missing pods and nodes, and false numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from kubestow.checker.reading.gang_roster import Roster
from kubestow.checker.replicas import Crowd
from kubestow.checker.violation import DOCUMENT, GATED, Violation, is_mirror
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.kube import objects

_MOVABLE_KINDS: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})
_ORDER: Final = attrgetter("order")
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def why_not_movable(pod: objects.Pod, nodes: frozenset[str]) -> str | None:
    """Return why a bound pod must stay where it is, or None if it may be placed again."""
    owner = objects.controller_of(pod)
    if pod.spec.nodeName not in nodes:
        return f"it is bound to node {pod.spec.nodeName}, which the snapshot lacks"
    if is_mirror(pod):
        return "it is a mirror pod"
    if owner is None:
        return "it is bound and has no controller"
    if owner.kind not in _MOVABLE_KINDS:
        return f"it is bound and belongs to a {owner.kind}"
    if (pod.metadata.annotations or {}).get(_SAFE_TO_EVICT) == "false":
        return "it is bound and annotated as not safe to evict"
    return None


def why_not_pending(pod: objects.Pod, nodes: frozenset[str], ref: SnapshotRef) -> str | None:
    """Return why the document does not have to place a pod, or None if it does."""
    if objects.is_terminal(pod):
        return "it has ended"
    if objects.is_terminating(pod):
        return "it is terminating"
    if pod.spec.nodeName:
        return why_not_movable(pod, nodes) if ref.fromScratch else f"it is bound to node {pod.spec.nodeName}"
    if pod.spec.schedulingGates and not ref.includeGated:
        return GATED
    return None


def document_faults(
    sha256: str,
    placement: Placement,
    crowd: Crowd,
    places: Sequence[int | None],
    nodes: Collection[str],
    refusals: Mapping[str, str | None],
    roster: Roster,
) -> list[Violation]:
    """Return the faults of the document in relation to its snapshot.

    Args:
        sha256: Hash of the snapshot.
        placement: The document.
        crowd: Pods of the snapshot.
        places: Indices of the assigned pods.
        nodes: Names of the nodes.
        refusals: :func:`why_not_pending` of each pod, by key.
        roster: Gangs of the snapshot.
    """
    ref = placement.snapshot
    found: list[Violation] = []

    def fault(why: str, pod: str = "", node: str = "") -> None:
        found.append(Violation(pod, node, DOCUMENT, why))

    if ref.sha256 and sha256 and ref.sha256 != sha256:
        fault(f"the document is of snapshot {ref.sha256}, this is {sha256}")
    due = [why is None for why in map(refusals.__getitem__, map(objects.pod_key, crowd.replicas.first))]
    seen = bytearray(len(crowd.pods))  # 1 for pods to be placed that were mentioned, by index
    mentions: dict[str, int] = {}  # of other pods, and of repeated mentions

    def mention(pod: str, node: str, place: int | None) -> None:
        times = mentions[pod] = mentions.get(pod, 0 if place is None else seen[place]) + 1
        if times == 2:
            fault("the pod is mentioned more than once", pod, node)
        if place is None:
            fault("the snapshot has no such pod", pod, node)
        elif times == 1:
            why = refusals[pod]
            if why and not (why == GATED and not node):  # a gated pod is reported as unplaced
                fault(f"the pod is not to be placed: {why}", pod, node)

    for entry, place in zip(placement.assignments, places, strict=True):
        if place is not None and not seen[place] and due[crowd.set_of[place]]:
            seen[place] = 1
        else:
            mention(entry.pod, entry.node, place)
    for unplaced in placement.unplaced:
        mention(unplaced.pod, "", crowd.at.get(unplaced.pod))
    for entry in placement.assignments:
        if entry.node not in nodes:
            fault("the snapshot has no such node", entry.pod, entry.node)
    for key, number, mentioned in zip(crowd.key_of, crowd.set_of, seen, strict=True):
        if due[number] and not mentioned and key not in mentions:
            fault("the pending pod is neither assigned nor listed as unplaced", key)
    found += _cause_faults(placement, roster)
    found += _order_faults(placement, roster)
    found += _tier_faults(placement, *_priorities(crowd, places, due, roster.ranks))
    return found + _status_faults(placement)


def _cause_faults(placement: Placement, roster: Roster) -> list[Violation]:
    """Return causes of unknown gangs or of pods that are not unplaced."""
    found = []
    unplaced = {entry.pod for entry in placement.unplaced}
    known = {gang.name for gang in roster.gangs}
    for cause in placement.causes:
        if cause.gang is not None and cause.gang not in known:
            found.append(Violation("", "", DOCUMENT, f"a cause is given for gang {cause.gang}, and no such gang is to be placed"))
        why = "a cause is given for a pod that is not listed as unplaced"
        found += [Violation(pod, "", DOCUMENT, why) for pod in cause.pods if pod not in unplaced]
    return found


def _priorities(crowd: Crowd, places: Sequence[int | None], due: Sequence[bool], ranks: Mapping[str, int]) -> tuple[Counter[int], set[int]]:
    """Return the number of assigned pods per priority, and the priorities of the pods to be placed.

    Args:
        crowd: Pods of the snapshot.
        places: Indices of the assigned pods.
        due: True for each set of replicas to be placed.
        ranks: Priority at which a pod counts if it is not its own, by key.
    """
    own = [pod.spec.priority or 0 for pod in crowd.replicas.first]
    others = {crowd.at[key]: rank for key, rank in ranks.items()}
    assigned = {place for place in places if place is not None}
    placed = Counter(others[place] for place in others.keys() & assigned)
    for number, count in Counter(map(crowd.set_of.__getitem__, assigned - others.keys())).items():
        placed[own[number]] += count
    wanted = {others.get(place, own[number]) for place, number in enumerate(crowd.set_of) if due[number]}
    return placed, wanted


class Turns(NamedTuple):
    """The pods of a document in bind order: known pods on known nodes, each at its first mention.

    Everything else is reported as a fault of the document.

    Attributes:
        entries: The assignments.
        places: Indices of the pods in the snapshot.
        units: Number of pods bound together, unit by unit.
    """

    entries: list[Assignment]
    places: list[int]
    units: list[int]


def turns(placement: Placement, places: Sequence[int | None], nodes: Collection[str], roster: Roster) -> Turns:
    """Return assignments in bind order, grouped into units.

    Assignments of one gang with one order number form a unit; all others are units of their own.

    Args:
        placement: The document.
        places: Indices of the assigned pods; None for pods that are left out.
        nodes: Names of the nodes.
        roster: Gangs of the snapshot.
    """
    listed, found = placement.assignments, Turns([], [], [])
    orders = [entry.order for entry in listed]
    shared = _shared_orders(placement)
    together = {order for order, entries in shared.items() if _is_gang(entries, roster)}
    seen: set[int] = set()
    last: int | None = None
    for i in sorted(range(len(orders)), key=orders.__getitem__):
        place, entry = places[i], listed[i]
        if place is None or place in seen:
            continue
        seen.add(place)
        if entry.node in nodes:
            found.entries.append(entry)
            found.places.append(place)
            if entry.order == last and last in together:
                found.units[-1] += 1
            else:
                found.units.append(1)
            last = entry.order
    return found


def _shared_orders(placement: Placement) -> dict[int, list[Assignment]]:
    """Return the assignments of each order number that occurs more than once, in order."""
    several = {order for order, times in Counter(map(_ORDER, placement.assignments)).items() if times > 1}
    found: dict[int, list[Assignment]] = {order: [] for order in sorted(several)}
    for entry in placement.assignments if several else ():
        if entry.order in several:
            found[entry.order].append(entry)
    return found


def _is_gang(shared: list[Assignment], roster: Roster) -> bool:
    """Return True if the pods belong to one gang, by their declarations and not by the document."""
    gang = roster.gang_of.get(shared[0].pod)
    return gang is not None and all(roster.gang_of.get(entry.pod) == gang for entry in shared)


def _order_faults(placement: Placement, roster: Roster) -> list[Violation]:
    found = [
        Violation(entry.pod, entry.node, DOCUMENT, f"order {entry.order} is below 1") for entry in placement.assignments if entry.order < 1
    ]
    for order, shared in _shared_orders(placement).items():
        if not _is_gang(shared, roster):
            why = f"order {order} is shared with {shared[0].pod}, and they are not of one gang"
            found += [Violation(entry.pod, entry.node, DOCUMENT, why) for entry in shared[1:]]
    return found


def _tier_faults(placement: Placement, placed: Counter[int], wanted: Collection[int]) -> list[Violation]:
    """Return the faults of the tiers.

    Args:
        placement: The document.
        placed: Number of assigned pods per priority.
        wanted: Priorities of the pods to be placed.
    """
    found: list[Violation] = []

    def fault(why: str) -> None:
        found.append(Violation("", "", DOCUMENT, why))

    listed: set[int] = set()
    for tier in placement.objective:
        name = tier.tier if tier.priority is None else f"{tier.tier} of priority {tier.priority}"
        if tier.bound < tier.value:
            fault(f"tier {name}: the bound {tier.bound} is below the value {tier.value}")
        if tier.tier != "placed":
            continue
        number = placed.total() if tier.priority is None else placed[tier.priority]
        if tier.value != number:
            fault(f"tier {name}: the value is {tier.value}, {number} such pods are assigned")
        if tier.priority is None:
            fault("tier placed: no priority is given")
        elif tier.priority in listed:
            fault(f"tier {name} is given twice")
        else:
            listed.add(tier.priority)
    for priority in sorted(set(wanted) - listed, reverse=True):
        fault(f"there are pending pods of priority {priority} and no tier placed of that priority")
    return found


def _status_faults(placement: Placement) -> list[Violation]:
    """Return the faults of the status.

    Gaps of topologySpread are ignored. A gap of the tie-break counts only if the policy selects a strategy other than the default.
    """
    found = []
    requested = (placement.policy or DEFAULT).strategy != DEFAULT.strategy
    unasked = {"topologySpread"} if requested else {"topologySpread", "strategy"}
    open_tiers = [tier for tier in placement.objective if tier.bound != tier.value and tier.tier not in unasked]
    if placement.status == "optimal" and open_tiers:
        tier = open_tiers[0]
        why = f"the status is optimal, and tier {tier.tier} has value {tier.value} and bound {tier.bound}"
        found.append(Violation("", "", DOCUMENT, why))
    if placement.status == "infeasible" and placement.assignments:
        found.append(Violation("", "", DOCUMENT, f"the status is infeasible, and {len(placement.assignments)} pods are assigned"))
    return found
