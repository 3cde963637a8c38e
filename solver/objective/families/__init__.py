"""The families of preferences, one module each: points, key, scale, losses, multiplier, expression and words.

Enter at :func:`build`. A module here is a family; its multiplier's place is its place in reports. Engines iterate over families
and never name one; :mod:`kubestow.solver.objective.families.base` has the interface. The checker has a second reading of each in
``checker/objective/families``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents import policy
from kubestow.solver.objective.families.base import Family
from kubestow.solver.rules.base import Rule

KINDS: Final = tuple(kind for kind in policy.families(__name__, __path__) if issubclass(kind, Family))


def build(cluster: Cluster, rules: Sequence[Rule]) -> tuple[Family, ...]:
    """Return every family over a cluster.

    Args:
        rules: Rules in the state of the fixed pods.
    """
    return tuple(kind(cluster, rules) for kind in KINDS)
