"""Preferred pod affinity and anti-affinity for the checker, and the preferred topology of gangs.

Source: docs/preferences.md; kube-scheduler plugin interpodaffinity (scoring.go).
"""

from __future__ import annotations

from collections import Counter

from kubestow.checker.objective.families.base import Scene, WeightedTerm
from kubestow.checker.objective.families.pairs import PairFamily
from kubestow.checker.objective.kinds import Kinds, labels_of
from kubestow.checker.reading import affinity_terms
from kubestow.models.gangs.gangs import PREFERRED_TOPOLOGY_POINTS
from kubestow.models.kube import objects


class PodAffinity(PairFamily):
    """Preferred terms. Those of pods that stay repel new pods only if preferred anti-affinity is symmetric."""

    name = "podAffinity"

    def terms(self, pod: objects.Pod, *, staying: bool = False) -> list[WeightedTerm]:
        found = preferred_terms(pod)
        attracts_only = staying and not self.scene.policy.symmetricPreferredAntiAffinity
        return [(term, weight) for term, weight in found if weight > 0] if attracts_only else found

    def words(self, weight: int, key: str) -> str:
        return f"preferred pod {'affinity' if weight > 0 else 'anti-affinity'} of weight {abs(weight)}, per {key}"

    def points(self, kinds: Kinds) -> int:
        return super().points(kinds) + _together(self.scene)


def preferred_terms(pod: objects.Pod) -> list[WeightedTerm]:
    """Return the preferred terms of a pod, anti-affinity with negative weights. Unreadable terms are ignored."""
    wanted = pod.spec.affinity or objects.Affinity()
    found: list[WeightedTerm] = []
    for sign, source in ((1, wanted.podAffinity), (-1, wanted.podAntiAffinity)):
        weighted = (source.preferredDuringSchedulingIgnoredDuringExecution or []) if source else []
        # A preferred term selects as a required one would, so it is read as one.
        stand_in = objects.PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=[term.podAffinityTerm for term in weighted])
        terms = affinity_terms.read_terms(objects.Pod(pod.metadata, objects.PodSpec(affinity=objects.Affinity(podAffinity=stand_in))))
        found += [(term, sign * entry.weight) for term, entry in zip(terms.affinity, weighted, strict=False)]
    return found


def _together(scene: Scene) -> int:
    """Return the points of gangs' preferred topologies.

    Each ordered pair of members in one domain counts if at least one is placed now.
    """
    snapshot, pairs = scene.snapshot, 0
    keys = {gang.key for gang in scene.gangs if gang.key is not None and not gang.required}
    domains = {key: {name: labels_of(node)[key] for name, node in scene.nodes.items() if key in labels_of(node)} for key in keys}
    for gang in scene.gangs:
        if gang.key is None or gang.required:
            continue
        domain = domains[gang.key]
        running = Counter(domain.get(snapshot.pods[i].spec.nodeName or "") for i in gang.bound)
        new = Counter(domain.get(scene.placed.get(objects.pod_key(snapshot.pods[i]), "")) for i in gang.pods)
        pairs += sum(number * (number - 1 + 2 * running[value]) for value, number in new.items() if value is not None)
    return PREFERRED_TOPOLOGY_POINTS * pairs
