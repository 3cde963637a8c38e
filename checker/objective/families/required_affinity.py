"""The implicit weight of required pod affinity for the checker.

Source: docs/preferences.md; kube-scheduler plugin interpodaffinity (scoring.go).
"""

from __future__ import annotations

from kubestow.checker.objective.families.base import WeightedTerm
from kubestow.checker.objective.families.pairs import PairFamily
from kubestow.checker.reading import affinity_terms
from kubestow.models.kube import objects


class RequiredAffinity(PairFamily):
    """Required terms as preferences, each of the policy's weight."""

    name = "requiredAffinity"

    def terms(self, pod: objects.Pod, *, staying: bool = False) -> list[WeightedTerm]:
        weight = self.scene.policy.hardPodAffinityWeight
        return [(term, weight) for term in affinity_terms.read_terms(pod).affinity] if weight else []

    def words(self, weight: int, key: str) -> str:
        return f"more pods of its required affinity, per {key}"
