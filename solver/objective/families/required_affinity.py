"""The implicit weight of required pod affinity: a pod that requires one neighbour prefers many.

Source: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go (HardPodAffinityWeight)."""

from __future__ import annotations

from kubestow.models.cluster.cluster import Pull
from kubestow.solver.objective.families.pairs import PairFamily


class RequiredAffinity(PairFamily):
    """Required pod affinity terms as preferences."""

    name = "requiredAffinity"

    def words(self, pull: Pull) -> str:
        return f"more pods of its required affinity, per {pull.key}"
