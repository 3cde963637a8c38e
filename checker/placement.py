"""The independent checker of Placements. It replays a document against the raw objects, pod by pod, with its own matching code.

It reads no compiled instance, class or encoding, so that a fault there cannot hide here. A valid placement binds
unit by unit in its order. Every filter accepts each pod in the state reached so far. A unit is a pod, or the pods
of one gang that share an order number; these see each other as present for InterPodAffinity and PodTopologySpread.
In the final state, every domain that received a pod with a DoNotSchedule constraint obeys it, and every gang is
complete. Kubelets with a rejecting Topology Manager are replayed too, and every tier is recomputed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from kubestow.checker import rules
from kubestow.checker.claims import reasons
from kubestow.checker.claims.anti_affinity_users import not_granted
from kubestow.checker.claims.document import document_claims
from kubestow.checker.claims.preemption import SCHEDULER, preemption_faults
from kubestow.checker.claims.preferences import preference_claims
from kubestow.checker.judge import Fault, Judge
from kubestow.checker.objective.tiers import objective_faults
from kubestow.checker.placement_document import Turns, document_faults, turns, why_not_movable, why_not_pending
from kubestow.checker.reading import gang_roster
from kubestow.checker.replicas import Crowd, Whereabouts
from kubestow.checker.violation import DOCUMENT, Violation
from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.kube import objects
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.snapshot import Snapshot

__all__ = ["CheckedPlacement", "Judge", "Violation", "check", "rejecting_rules", "rest_faults", "verify"]


def rejecting_rules(snapshot: Snapshot, pod: objects.Pod, node_name: str, *, exempt: Collection[str] = ()) -> list[str]:
    """Return the sorted names of the rules that reject a pod on a node, against the other bound pods.

    Pods nominated to the node count as in :meth:`Judge.verdict`. For many queries build a :class:`Judge` once.
    """
    judge = Judge(snapshot, [pod], exempt=exempt, free=[objects.pod_key(pod)])
    return sorted({rule for rule, _ in judge.verdict(pod, node_name)})


class CheckedPlacement(NamedTuple):
    """The result of checking a placement.

    Attributes:
        violations: Faults of the document.
        unjudged: Number of unplaced pods that were not judged, because that would take too long.
    """

    violations: list[Violation]
    unjudged: int


def check(snapshot: Snapshot, placement: Placement, *, embedded: bool = False) -> CheckedPlacement:
    """Return the violations of :func:`verify`, and false claims about unplaced pods, preferences and the document itself.

    Args:
        snapshot: The snapshot.
        placement: The document.
        embedded: True if the placement is part of a document about capacity, which may place again pods that the
            policy would not admit now.

    Raises:
        QuantityError, InputError: as for :func:`verify`.
    """
    with no_gc():
        found = _verify(snapshot, placement, claims=True)
        if not embedded:
            found.violations.extend(_not_granted(snapshot, placement))
        return found


def _not_granted(snapshot: Snapshot, placement: Placement) -> Iterator[Violation]:
    """Yield the placed pods whose required anti-affinity the policy does not grant."""
    policy = placement.policy or DEFAULT
    node_of = {entry.pod: entry.node for entry in placement.assignments} if policy.antiAffinityUsers else {}
    for pod in snapshot.pods if node_of else ():
        node = node_of.get(objects.pod_key(pod))
        if node is not None:
            yield from (Violation(objects.pod_key(pod), node, DOCUMENT, why) for why in not_granted(pod, snapshot, policy))


def verify(snapshot: Snapshot, placement: Placement) -> list[Violation]:
    """Return all violations of a placement: faults of the document, of the replay in bind order, and of the final state.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
        InputError: the declaration of a gang cannot be read.
    """
    with no_gc():
        return _verify(snapshot, placement, claims=False).violations


def rest_faults(snapshot: Snapshot, placement: Placement) -> list[Violation]:
    """Return the faults of a placement's remaining assignments on a later snapshot.

    Each pod must still be pending, be accepted on its node in turn, and get the named devices. Claims of the
    document (hash, numbers, tiers, complete list of pending pods) are not judged.

    Args:
        snapshot: The later snapshot.
        placement: The remaining assignments, with the pods' names in ``snapshot``.

    Raises:
        QuantityError, InputError: as for :func:`verify`.
    """
    with no_gc():
        crowd = Crowd(snapshot)
        nodes = frozenset(node.metadata.name or "" for node in snapshot.nodes)
        refusals = crowd.each(lambda pod: why_not_pending(pod, nodes, placement.snapshot))
        found = []
        for entry in placement.assignments:
            why = refusals[entry.pod] if entry.pod in crowd else "there is no such pod"
            why = why or (None if entry.node in nodes else "there is no such node")
            if why is not None:
                found.append(Violation(entry.pod, entry.node, DOCUMENT, why))
        roster = gang_roster.read_roster(snapshot, {key for key, why in refusals.items() if why is None}, placement.policy or DEFAULT)
        waiting = [crowd.at[entry.pod] if refusals.get(entry.pod, "unknown") is None else None for entry in placement.assignments]
        bound = turns(placement, waiting, nodes, roster)
        pods = [snapshot.pods[place] for place in bound.places]
        policy = placement.policy or DEFAULT
        judge = Judge(snapshot, pods, exempt=placement.snapshot.daemonNamespaces, crowd=crowd, policy=policy)
        found += _bound(judge, bound, pods, named=False) + _final(judge)
        for entry, pod in zip(bound.entries, pods, strict=True):
            wrong = judge.entry_faults(pod, entry, later=True)
            found += [Violation(entry.pod, entry.node, rule, why) for rule, why in wrong]
        faults = rules.document_faults(snapshot, placement, roster, bound.entries, refusals)
        return found + [fault for fault in faults if fault.rule != DOCUMENT]


def _bound(judge: Judge, bound: Turns, pods: Sequence[objects.Pod], *, named: bool = True) -> list[Violation]:
    """Bind unit by unit; return the faults of each unit.

    Args:
        judge: The state of the cluster.
        bound: Assignments and units in bind order.
        pods: The pods, in the same order.
        named: True if the entries must be true of the pods, such as the devices that they name.
    """
    found: list[Violation] = []

    def report(entry: Assignment, faults: Sequence[Fault]) -> None:
        found.extend(Violation(entry.pod, entry.node, rule, why) for rule, why in faults)

    def compare(entry: Assignment, pod: objects.Pod) -> None:
        if named:
            report(entry, judge.entry_faults(pod, entry))

    coming = zip(bound.entries, pods, strict=True)
    for size in bound.units:
        if size == 1:
            entry, pod = next(coming)
            faults = judge.bind_alone(pod, entry.node)
            if faults:
                report(entry, faults)
            compare(entry, pod)
            continue
        unit = list(islice(coming, size))
        for (entry, _), faults in zip(unit, judge.bind([(pod, entry.node) for entry, pod in unit]), strict=True):
            report(entry, faults)
        for entry, pod in unit:
            compare(entry, pod)
    return found


def _final(judge: Judge) -> list[Violation]:
    """Return the faults of the final state, which a scheduler that never looks back does not prevent."""
    return [Violation(objects.pod_key(pod), node, rule, why) for pod, node, rule, why in judge.final_faults()]


def _verify(snapshot: Snapshot, placement: Placement, *, claims: bool) -> CheckedPlacement:
    crowd = Crowd(snapshot)
    nodes = frozenset(node.metadata.name or "" for node in snapshot.nodes)
    refusals = crowd.each(lambda pod: why_not_pending(pod, nodes, placement.snapshot))
    pending = {key for key, why in refusals.items() if why is None}
    roster = gang_roster.read_roster(snapshot, pending, placement.policy or DEFAULT, keys=crowd.key_of)
    places = [crowd.at.get(entry.pod) for entry in placement.assignments]
    found = document_faults(snapshot.sha256, placement, crowd, places, nodes, refusals, roster)
    bound = turns(placement, places, nodes, roster)
    pods = [snapshot.pods[place] for place in bound.places]
    mentioned = [place for place in (*places, *(crowd.at.get(entry.pod) for entry in placement.unplaced)) if place is not None]
    absent = crowd.among(mentioned, lambda pod: bool(pod.spec.nodeName))
    free = crowd.among(mentioned, lambda pod: why_not_movable(pod, nodes) is None) if placement.snapshot.fromScratch else ()
    unplaced_pods = reasons.UnplacedPods(snapshot, placement, crowd, refusals, roster.gangs, roster.ranks)
    waiting = unplaced_pods.candidates() if claims else []
    exempt = placement.snapshot.daemonNamespaces
    policy = placement.policy or DEFAULT
    judge = Judge(snapshot, [*pods, *waiting], absent=absent, exempt=exempt, free=free, crowd=crowd, policy=policy)
    found += _bound(judge, bound, pods)
    found += [] if placement.engine == SCHEDULER else _final(judge)
    found += preemption_faults(placement, crowd)
    found += rules.document_faults(snapshot, placement, roster, bound.entries, refusals)
    placed = {crowd.key_of[place]: entry.node for entry, place in zip(bound.entries, bound.places, strict=True)}
    where = Whereabouts(crowd, placed, absent, nodes)
    found += objective_faults(snapshot, placement, bound.entries, where, pending, judge, roster.gangs)
    if claims:
        found += document_claims(snapshot, placement, refusals)
        found += unplaced_pods.faults(judge)
        alone = (
            Judge(snapshot, unplaced_pods.alone, absent=absent, exempt=exempt, free=free, crowd=crowd, policy=policy)
            if unplaced_pods.alone
            else None
        )
        found += unplaced_pods.cause_faults(alone)
        found += preference_claims(snapshot, placement, where, roster.gangs)
    return CheckedPlacement(found, unplaced_pods.unjudged)
