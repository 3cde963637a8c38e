"""Families of preferences whose points depend on a pod and its node only, one module each.

Enter at :func:`weighed`. A module here is the reading of a family. Its points distinguish pod classes.
"""

from __future__ import annotations

from typing import Final

from kubestow.models.cluster.node_scores.base import NodeScores
from kubestow.models.documents import policy

KINDS: Final = tuple(kind for kind in policy.families(__name__, __path__) if issubclass(kind, NodeScores))


def weighed(weights: policy.Policy) -> list[type[NodeScores]]:
    """Return the families that a policy gives any weight."""
    return [kind for kind in KINDS if getattr(weights.multipliers, kind.name)]
