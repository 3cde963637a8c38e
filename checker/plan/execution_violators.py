"""Pods that a plan may evict for good, as the checker determines them: for pods of higher priority, and for rules that
hold during execution.

Source: specification of the rules ("requiredDuringSchedulingRequiredDuringExecution", preemptionPolicy).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from kubestow.checker.plan.state import Board
from kubestow.checker.reading import affinity_terms, matching
from kubestow.checker.reading.affinity_terms import RequiredTerms
from kubestow.checker.rules.plans import PlanRunner
from kubestow.models.kube import objects


def preempting(pending: Iterable[objects.Pod]) -> int | None:
    """Return the highest priority of a pod to be placed that may preempt others, or None."""
    return max((pod.spec.priority or 0 for pod in pending if pod.spec.preemptionPolicy != "Never"), default=None)


def violators(board: Board, keys: Collection[str], broken: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the pods among ``keys`` that must leave because of a rule that holds during execution.

    Under node affinity and pod affinity the pod with the rule leaves. Under anti-affinity the pod of lower priority
    leaves, the owner if priorities are equal. Pods whose affinity only such pods satisfy leave too.

    Args:
        board: State of the snapshot.
        keys: Keys of the pods in question.
        broken: Rules that running pods break, by key.
    """
    chosen = [runner for key in keys if (runner := board.runners.get(key)) is not None and runner.at is not None and runner.steady]
    follow = [runner for runner in chosen if _enforced(runner.pod).affinity]
    apart = follow or any("InterPodAffinity" in broken.get(runner.key, ()) for runner in chosen)
    standing = [runner for runner in board.runners.values() if runner.at is not None and runner.steady] if apart else []
    owners = [(runner, terms) for runner in standing if (terms := _enforced(runner.pod)).anti]

    def going(runners: Iterable[PlanRunner]) -> frozenset[str]:
        return frozenset(each.key for each in runners if _goes(board, each, broken.get(each.key, frozenset()), owners))

    found = going(chosen)
    if all(runner.key in found for runner in follow):
        return found
    return found | (_followers(board, standing, going(standing)) & {runner.key for runner in follow})


def _followers(board: Board, standing: Iterable[PlanRunner], going: frozenset[str]) -> frozenset[str]:
    """Return ``going`` and, repeatedly, the pods whose affinity no other pod satisfies in some domain."""
    found, grown = set(going), True
    needs: list[tuple[str, list[frozenset[str]]]] = []
    for runner in standing:
        if wants := _enforced(runner.pod).affinity:
            others = [
                other for other in board.runners.values() if other is not runner and all(_takes(board, term, other) for term in wants)
            ]
            near = [frozenset(other.key for other in others if _together(board, term.key, runner, other)) for term in wants]
            needs.append((runner.key, [keys for keys in near if keys]))
    while grown:
        more = {key for key, near in needs if key not in found and any(keys <= found for keys in near)}
        found |= more
        grown = bool(more)
    return frozenset(found)


def _goes(board: Board, runner: PlanRunner, broke: frozenset[str], owners: Iterable[tuple[PlanRunner, RequiredTerms]]) -> bool:
    """Return True if a pod must leave because of its own broken rules or an owner's anti-affinity."""
    wanted, node = runner.pod.spec.affinity, board.nodes[runner.node or ""]
    if "NodeAffinity" in broke and wanted is not None and wanted.nodeAffinity is not None:
        selector = wanted.nodeAffinity.requiredDuringSchedulingRequiredDuringExecution
        if not matching.node_selector_holds(selector, node.metadata.labels or {}, runner.node or ""):
            return True
    if "InterPodAffinity" not in broke:
        return False
    wants = _enforced(runner.pod).affinity
    if wants and "InterPodAffinity" in board.broken_there(runner):
        others = [other for other in board.runners.values() if other is not runner and all(_takes(board, term, other) for term in wants)]
        if not all(any(_together(board, term.key, runner, other) for other in others) for term in wants):
            return True
    mine = runner.pod.spec.priority or 0
    for owner, terms in owners:
        if owner is runner:
            others = [other for other in board.runners.values() if other.steady and other is not runner]
            if any((other.pod.spec.priority or 0) >= mine and _meets(board, terms, runner, other) for other in others):
                return True
        elif mine < (owner.pod.spec.priority or 0) and _meets(board, terms, owner, runner):
            return True
    return False


def _meets(board: Board, terms: RequiredTerms, owner: PlanRunner, other: PlanRunner) -> bool:
    """Return True if another running pod is in a domain from which the owner's anti-affinity terms exclude it."""
    return any(_together(board, term.key, owner, other) and _takes(board, term, other) for term in terms.anti)


def _takes(board: Board, term: affinity_terms.AffinityTerm, other: PlanRunner) -> bool:
    """Return True if a term selects a pod."""
    member = other.member
    namespace = board.snapshot.namespaces.get(member.namespace)
    return term.match.holds(member.namespace, member.labels, (namespace.metadata.labels or {}) if namespace is not None else {})


def _together(board: Board, key: str, one: PlanRunner, other: PlanRunner) -> bool:
    """Return True if two pods run in one domain."""
    if one.at is None or other.at is None:
        return False
    here, there = (board.nodes[at.node].metadata.labels or {} for at in (one.at, other.at))
    return key in here and here[key] == there.get(key)


def _enforced(pod: objects.Pod) -> RequiredTerms:
    """Return the affinity and anti-affinity terms of a pod that also hold during execution."""
    wanted = pod.spec.affinity
    if wanted is None:
        return affinity_terms.NO_TERMS
    kept = objects.Affinity(podAffinity=_part(wanted.podAffinity), podAntiAffinity=_part(wanted.podAntiAffinity))
    if kept.podAffinity is None and kept.podAntiAffinity is None:
        return affinity_terms.NO_TERMS
    return affinity_terms.read_terms(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=kept)))


def _part(part: objects.PodAffinity | None) -> objects.PodAffinity | None:
    terms = part.requiredDuringSchedulingRequiredDuringExecution if part is not None else None
    return objects.PodAffinity(requiredDuringSchedulingRequiredDuringExecution=terms) if terms else None
