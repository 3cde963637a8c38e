"""Claims that depend on labels of namespaces missing from the snapshot. They prove nothing.

A namespace without an object has one known label, the one with its name. This reading is independent of the solver's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from kubestow.checker.reading import affinity_terms, matching
from kubestow.checker.violation import DOCUMENT, Violation
from kubestow.models.documents.placement import Placement
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

_NAME = "kubernetes.io/metadata.name"
_RULE = "InterPodAffinity"


def concerned(snapshot: Snapshot) -> frozenset[str]:
    """Return the keys of pods to which a required term may or may not apply, depending on unknown labels."""
    living = [pod for pod in snapshot.pods if not objects.is_terminal(pod)]
    lacking = [pod for pod in living if (pod.metadata.namespace or "default") not in snapshot.namespaces]
    if not lacking:
        return frozenset()
    hits: dict[affinity_terms.Match, frozenset[str]] = {}
    found: set[str] = set()
    for pod in living:
        terms = affinity_terms.read_terms(pod)
        for match in {term.match for term in (*terms.affinity, *terms.anti) if term.match.among}:
            if match not in hits:
                hits[match] = frozenset(objects.pod_key(other) for other in lacking if _may_hold(match, other))
            if hits[match]:
                found |= {objects.pod_key(pod), *hits[match]}
    return frozenset(found)


def _may_hold(match: affinity_terms.Match, other: objects.Pod) -> bool:
    """Return True if unknown labels decide whether a match holds for a pod whose namespace has no object."""
    name = other.metadata.namespace or "default"
    if name in match.namespaces or not matching.selects(match.selector, other.metadata.labels or {}):
        return False
    known = [requirement for requirement in match.among or () if requirement.key == _NAME]
    return len(known) < len(match.among or ()) and all(requirement.holds({_NAME: name}) for requirement in known)


def proof_faults(snapshot: Snapshot, placement: Placement, pending: Collection[str]) -> Iterator[Violation]:
    """Yield the proofs that a Placement claims although unknown labels rule them out.

    Args:
        snapshot: The snapshot.
        placement: The document.
        pending: Keys of the pods to be placed.
    """
    if not placement.unplaced or placement.rollout is not None:
        return
    unsure = concerned(snapshot)
    if unsure.isdisjoint(pending):
        return
    why = "by labels of namespaces, and the snapshot has no such Namespace objects"
    explained: set[str] = set()
    for cause in placement.causes:
        if cause.proved and any(fact.rule == _RULE for fact in cause.facts) and not unsure.isdisjoint(cause.pods):
            yield Violation(cause.pods[0], "", DOCUMENT, f"its cause is called proved {why}")
        elif cause.proved and cause.alone:
            explained.update(cause.pods)
    unexplained = {entry.pod for entry in placement.unplaced if not entry.gated} - explained
    priorities = Counter(pod.spec.priority or 0 for pod in snapshot.pods if objects.pod_key(pod) in unexplained)
    for tier in placement.objective:
        if tier.tier == "placed" and tier.bound < tier.value + priorities[tier.priority or 0]:
            yield Violation("", "", DOCUMENT, f"tier placed of priority {tier.priority}: the bound {tier.bound} is proved {why}")
