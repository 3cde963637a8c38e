"""Batch limits: the number of pods of a class that construction may place before it checks a rule again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.models.kube.selectors import Bools


@dataclass(frozen=True)
class Level:
    """A spread constraint that counts a class.

    Attributes:
        codes: int32[N], the domain of each node.
        counts: int64[D], the pods counted in each domain.
        counted: bool[D], domains that set the minimum.
        max_skew: The maxSkew of the constraint.
        pinned: True if the minimum stays 0.
        single: True if every domain is one node.
        own: True if the class carries the constraint.
        eligible: bool[N], nodes whose pods are counted; None for the nodes with a domain.
    """

    codes: Ids
    counts: Ints
    counted: Bools
    max_skew: int
    pinned: bool
    single: bool
    own: bool
    eligible: Bools | None = None

    def counts_all(self, nodes: Ints) -> bool:
        """Return True if pods on each of these nodes are counted."""
        return bool((self.codes[nodes] >= 0 if self.eligible is None else self.eligible[nodes]).all())


@dataclass(frozen=True)
class BatchLimits:
    """Limits of one rule on the next pods of a class, all of which the rule accepts now.

    Attributes:
        one: True if the rule must be checked again after each pod.
        one_per_node: True if it must be checked again before a second pod on a node.
        founding: Topology keys over which the next pod chooses the domain of the others.
        levels: Spread constraints that limit the pods of each domain.
        exclusive: (codes int32[N], number of domains) of the keys over which pods of the class exclude each other.
    """

    one: bool = False
    one_per_node: bool = False
    founding: Sequence[str] = ()
    levels: Sequence[Level] = ()
    exclusive: Sequence[tuple[Ids, int]] = ()


#: Limits of a rule that the next pods of a class do not concern.
UNLIMITED = BatchLimits()
