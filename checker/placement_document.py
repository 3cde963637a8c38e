"""Faults of a Placement document itself: what it speaks of, what it leaves out, what it claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

from checker.violation import DOCUMENT, GATED, Violation, is_mirror
from models.documents.placement import Assignment, Placement, SnapshotRef
from models.documents.policy import DEFAULT
from models.kube import objects

if TYPE_CHECKING:
    from checker.rules.gangs import Roster

_MOVABLE_KINDS: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def why_not_movable(pod: objects.Pod, nodes: frozenset[str]) -> str | None:
    """Return why a bound pod has to stay where it is; None if it may be placed again."""
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
    """Return why a pod is not one that the document has to place; None if it is."""
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
    pods: Mapping[str, objects.Pod],
    nodes: Collection[str],
    refusals: Mapping[str, str | None],
    roster: Roster,
) -> list[Violation]:
    """Faults of the document, judged against the snapshot it speaks of.

    ``sha256``: of the snapshot; ``pods``: its pods by key, ``nodes``: the names of its nodes; ``refusals``: :func:`why_not_pending` of each
    pod; ``roster``: its gangs.
    """
    ref = placement.snapshot
    found: list[Violation] = []

    def fault(why: str, pod: str = "", node: str = "") -> None:
        found.append(Violation(pod, node, DOCUMENT, why))

    if ref.sha256 and sha256 and ref.sha256 != sha256:
        fault(f"the document is of snapshot {ref.sha256}, this is {sha256}")
    mentioned: dict[str, int] = {}
    for pod, node in chain(((a.pod, a.node) for a in placement.assignments), ((u.pod, "") for u in placement.unplaced)):
        times = mentioned[pod] = mentioned.get(pod, 0) + 1
        if times == 2:
            fault("the pod is mentioned more than once", pod, node)
        if pod not in pods:
            fault("the snapshot has no such pod", pod, node)
        elif times == 1:
            why = refusals[pod]
            if why == GATED and not node:
                continue  # a gated pod is reported as unplaced
            if why:
                fault(f"the pod is not to be placed: {why}", pod, node)
    for entry in placement.assignments:
        if entry.node not in nodes:
            fault("the snapshot has no such node", entry.pod, entry.node)
    pending = {key: pods[key] for key, why in refusals.items() if why is None}
    for key in pending:
        if key not in mentioned:
            fault("the pending pod is neither assigned nor listed as unplaced", key)
    left = {entry.pod for entry in placement.unplaced}
    known = {gang.name for gang in roster.gangs}
    for cause in placement.causes:
        if cause.gang is not None and cause.gang not in known:
            fault(f"a cause is given for gang {cause.gang}, and no such gang is to be placed")
        for pod in cause.pods:
            if pod not in left:
                fault("a cause is given for a pod that is not listed as unplaced", pod)
    return found + _order_faults(placement, roster) + _tier_faults(placement, pods, pending, roster.ranks) + _status_faults(placement)


def units(placement: Placement, roster: Roster) -> list[list[Assignment]]:
    """Assignments in bind order; those of one gang that share an order number together, all others alone."""
    by_order: dict[int, list[Assignment]] = {}
    for entry in placement.assignments:
        by_order.setdefault(entry.order, []).append(entry)
    found: list[list[Assignment]] = []
    for _, shared in sorted(by_order.items()):
        if len(shared) > 1 and _is_gang(shared, roster):
            found.append(shared)
        else:
            found += [[entry] for entry in shared]
    return found


def _is_gang(shared: list[Assignment], roster: Roster) -> bool:
    """By what the pods are, whatever the document calls them."""
    gang = roster.gang_of.get(shared[0].pod)
    return gang is not None and all(roster.gang_of.get(entry.pod) == gang for entry in shared)


def _order_faults(placement: Placement, roster: Roster) -> list[Violation]:
    by_order: dict[int, list[Assignment]] = {}
    found = []
    for entry in placement.assignments:
        by_order.setdefault(entry.order, []).append(entry)
        if entry.order < 1:
            found.append(Violation(entry.pod, entry.node, DOCUMENT, f"order {entry.order} is below 1"))
    for order, shared in sorted(by_order.items()):
        if len(shared) > 1 and not _is_gang(shared, roster):
            why = f"order {order} is shared with {shared[0].pod}, and they are not of one gang"
            found += [Violation(entry.pod, entry.node, DOCUMENT, why) for entry in shared[1:]]
    return found


def _tier_faults(
    placement: Placement, pods: Mapping[str, objects.Pod], pending: Mapping[str, objects.Pod], ranks: Mapping[str, int]
) -> list[Violation]:
    """``ranks``: the priority that a pod counts at, where it is not its own."""
    placed = Counter(ranks.get(key, pods[key].spec.priority or 0) for key in {entry.pod for entry in placement.assignments} if key in pods)
    found: list[Violation] = []

    def fault(why: str) -> None:
        found.append(Violation("", "", DOCUMENT, why))

    told: set[int] = set()
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
        elif tier.priority in told:
            fault(f"tier {name} is given twice")
        else:
            told.add(tier.priority)
    wanted = {ranks.get(key, pod.spec.priority or 0) for key, pod in pending.items()}
    for priority in sorted(wanted - told, reverse=True):
        fault(f"there are pending pods of priority {priority} and no tier placed of that priority")
    return found


def _status_faults(placement: Placement) -> list[Violation]:
    """Faults of the status. Emptier domains do not count, the tie-break only where the policy asks for another one than the default."""
    found = []
    asked = (placement.policy or DEFAULT).strategy != DEFAULT.strategy
    unasked = {"topologySpread"} if asked else {"topologySpread", "strategy"}
    open_tiers = [tier for tier in placement.objective if tier.bound != tier.value and tier.tier not in unasked]
    if placement.status == "optimal" and open_tiers:
        tier = open_tiers[0]
        why = f"the status is optimal, and tier {tier.tier} has value {tier.value} and bound {tier.bound}"
        found.append(Violation("", "", DOCUMENT, why))
    if placement.status == "infeasible" and placement.assignments:
        found.append(Violation("", "", DOCUMENT, f"the status is infeasible, and {len(placement.assignments)} pods are assigned"))
    return found


def replayed_units(groups: list[list[Assignment]], pods: Mapping[str, objects.Pod], nodes: Collection[str]) -> list[list[Assignment]]:
    """Return known pods on known nodes, each pod at its first mention only; the rest is reported as a fault of the document."""
    seen: set[str] = set()
    found = []
    for group in groups:
        kept = []
        for entry in group:
            key = entry.pod
            if key not in seen:
                seen.add(key)
                if key in pods and entry.node in nodes:
                    kept.append(entry)
        found.append(kept)
    return found
