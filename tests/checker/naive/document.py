"""Faults of a document, one entry after the other, and the whole of ``verify``."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from kubestow.checker.objective import preferences, tie_break
from kubestow.checker.objective.tiers import objective_faults
from kubestow.checker.placement_document import why_not_movable, why_not_pending
from kubestow.checker.reading import gang_roster
from kubestow.checker.replicas import Crowd, Whereabouts
from kubestow.checker.rules.gang_scheduling import rule as gangs
from kubestow.checker.violation import DOCUMENT, GATED, Violation
from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot
from tests.checker.naive import values
from tests.checker.naive.replay import Replay

Unit = list[tuple[Assignment, objects.Pod]]


def verify(snapshot: Snapshot, placement: Placement) -> list[Violation]:
    """Return the violations, as ``kubestow.checker.placement.verify`` does."""
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
    nodes = frozenset(node.metadata.name or "" for node in snapshot.nodes)
    refusals = {key: why_not_pending(pod, nodes, placement.snapshot) for key, pod in pods.items()}
    pending = {key for key, why in refusals.items() if why is None}
    policy = placement.policy or DEFAULT
    roster = gang_roster.read_roster(snapshot, pending, policy)
    found = list(_faults(snapshot, placement, refusals, pods, roster))
    named = {entry.pod for entry in placement.assignments} | {entry.pod for entry in placement.unplaced}
    movable = {key for key in named if key in pods and why_not_movable(pods[key], nodes) is None}
    units = list(_units(placement, pods, nodes, roster))
    bound = [each for unit in units for each in unit]
    free = movable if placement.snapshot.fromScratch else ()
    replay = Replay(snapshot, [pod for _, pod in bound], named, placement.snapshot.daemonNamespaces, free)
    for unit in units:
        found += replay.bind(unit)
    found += replay.final(bound)
    entries = [entry for entry, _ in bound]
    found += gangs.gang_faults(snapshot, placement, roster, entries, refusals)
    absent = {key for key in named if key in pods and pods[key].spec.nodeName}
    where = Whereabouts(Crowd(snapshot), {entry.pod: entry.node for entry in entries}, absent, nodes)
    with patch.object(preferences, "score_of", values.Score), patch.object(tie_break, "points_of", values.points_of):
        found += objective_faults(snapshot, placement, entries, where, pending, _State(replay), roster.gangs)
    return found


class _State:
    """Capacity and pods of the nodes."""

    def __init__(self, replay: Replay) -> None:
        self._replay, self.capacity = replay, replay.capacity

    def used(self) -> dict[str, dict[str, int]]:
        return self._replay.used()


def _units(placement: Placement, pods: dict[str, objects.Pod], nodes: frozenset[str], roster: gang_roster.Roster) -> Iterator[Unit]:
    """Yield the pods that are bound at a time, each pod at its first mention."""
    seen = set()
    for order in sorted({entry.order for entry in placement.assignments}):
        shared = [entry for entry in placement.assignments if entry.order == order]
        unit: Unit = []
        for entry in shared:
            if entry.pod in pods and entry.pod not in seen and entry.node in nodes:
                unit.append((entry, pods[entry.pod]))
            seen.add(entry.pod)
        if _is_gang(shared, roster):
            yield from [unit] if unit else []
        else:
            yield from ([each] for each in unit)


def _is_gang(shared: list[Assignment], roster: gang_roster.Roster) -> bool:
    names = {roster.gang_of.get(entry.pod) for entry in shared}
    return len(names) == 1 and None not in names


def _faults(
    snapshot: Snapshot, placement: Placement, refusals: dict[str, str | None], pods: dict[str, objects.Pod], roster: gang_roster.Roster
) -> Iterator[Violation]:
    def fault(why: str, pod: str = "", node: str = "") -> Violation:
        return Violation(pod, node, DOCUMENT, why)

    ref, mentions = placement.snapshot, list[str]()
    if ref.sha256 and snapshot.sha256 and ref.sha256 != snapshot.sha256:
        yield fault(f"the document is of snapshot {ref.sha256}, this is {snapshot.sha256}")
    for pod, node in (*((a.pod, a.node) for a in placement.assignments), *((u.pod, "") for u in placement.unplaced)):
        mentions.append(pod)
        if mentions.count(pod) == 2:
            yield fault("the pod is mentioned more than once", pod, node)
        if pod not in pods:
            yield fault("the snapshot has no such pod", pod, node)
        elif mentions.count(pod) == 1 and refusals[pod] and not (refusals[pod] == GATED and not node):
            yield fault(f"the pod is not to be placed: {refusals[pod]}", pod, node)
    for entry in placement.assignments:
        if entry.node not in {node.metadata.name for node in snapshot.nodes}:
            yield fault("the snapshot has no such node", entry.pod, entry.node)
    for key, why in refusals.items():
        if why is None and key not in mentions:
            yield fault("the pending pod is neither assigned nor listed as unplaced", key)
    for cause in placement.causes:
        if cause.gang is not None and cause.gang not in {gang.name for gang in roster.gangs}:
            yield fault(f"a cause is given for gang {cause.gang}, and no such gang is to be placed")
        for pod in cause.pods:
            if pod not in {entry.pod for entry in placement.unplaced}:
                yield fault("a cause is given for a pod that is not listed as unplaced", pod)
    for entry in placement.assignments:
        if entry.order < 1:
            yield fault(f"order {entry.order} is below 1", entry.pod, entry.node)
    for order in sorted({entry.order for entry in placement.assignments}):
        shared = [entry for entry in placement.assignments if entry.order == order]
        if len(shared) > 1 and not _is_gang(shared, roster):
            for entry in shared[1:]:
                yield fault(f"order {order} is shared with {shared[0].pod}, and they are not of one gang", entry.pod, entry.node)
    rank = {key: roster.ranks.get(key, pod.spec.priority or 0) for key, pod in pods.items()}
    yield from _tiers(placement, rank, {rank[key] for key, why in refusals.items() if why is None})


def _tiers(placement: Placement, rank: dict[str, int], wanted: set[int]) -> Iterator[Violation]:
    told = set()
    placed = [rank[key] for key in {entry.pod for entry in placement.assignments} if key in rank]
    for tier in placement.objective:
        name = tier.tier if tier.priority is None else f"{tier.tier} of priority {tier.priority}"
        if tier.bound < tier.value:
            yield Violation("", "", DOCUMENT, f"tier {name}: the bound {tier.bound} is below the value {tier.value}")
        if tier.tier != "placed":
            continue
        number = len(placed) if tier.priority is None else placed.count(tier.priority)
        if tier.value != number:
            yield Violation("", "", DOCUMENT, f"tier {name}: the value is {tier.value}, {number} such pods are assigned")
        if tier.priority is None:
            yield Violation("", "", DOCUMENT, "tier placed: no priority is given")
        elif tier.priority in told:
            yield Violation("", "", DOCUMENT, f"tier {name} is given twice")
        told.add(tier.priority)
    for priority in sorted(wanted - told, reverse=True):
        yield Violation("", "", DOCUMENT, f"there are pending pods of priority {priority} and no tier placed of that priority")
    asked = (placement.policy or DEFAULT).strategy != DEFAULT.strategy
    unasked = {"topologySpread"} if asked else {"topologySpread", "strategy"}
    loose = [tier for tier in placement.objective if tier.bound != tier.value and tier.tier not in unasked]
    if placement.status == "optimal" and loose:
        why = f"the status is optimal, and tier {loose[0].tier} has value {loose[0].value} and bound {loose[0].bound}"
        yield Violation("", "", DOCUMENT, why)
    if placement.status == "infeasible" and placement.assignments:
        yield Violation("", "", DOCUMENT, f"the status is infeasible, and {len(placement.assignments)} pods are assigned")
