"""Preferred pod affinity and anti-affinity.

Source: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go for matching; the sum over all ordered pairs is this
project's own objective (docs/preferences.md)."""

from __future__ import annotations

from kubestow.models.cluster.cluster import Pull
from kubestow.solver.objective.families.pairs import PairFamily


class PodAffinity(PairFamily):
    """Preferred terms, and the preferred topology of gangs."""

    name = "podAffinity"

    def words(self, pull: Pull) -> str:
        return f"preferred pod {'affinity' if pull.weight > 0 else 'anti-affinity'} of weight {abs(pull.weight)}, per {pull.key}"
