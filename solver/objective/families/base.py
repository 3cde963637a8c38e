"""The interface of a family of preferences, and the shapes in which it may give points.

The objective, the model, the incremental score, the bounds and the searches know three shapes and no family:

* points of a pod for its node (:meth:`Family.row`);
* weighted terms between pods (:class:`kubestow.solver.objective.shapes.PreferenceTerm`);
* soft spread constraints (:class:`kubestow.solver.objective.shapes.SoftTally`).

A family whose points have another shape names the classes in ``involved`` and overrides the methods of the last section."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.objective.ledger import Ledger
from kubestow.solver.objective.shapes import PreferenceTerm, SoftTally
from kubestow.solver.rules.base import Rule


class Family(ABC):
    """A family of preferences over a compiled cluster. Points are raw, without the multiplier, unless a method says otherwise.

    Args:
        rules: Rules in the state of the fixed pods.

    Attributes:
        name: The family's field in the policy's multipliers.
        multiplier: The weight of one point.
        terms: Its terms between pods.
        tallies: Its soft spread constraints.
        involved: Classes that get points in a shape of the family's own.
    """

    name: ClassVar[str]
    involved: Collection[int] = ()

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        self.cluster = cluster
        self.multiplier = int(getattr(cluster.policy.multipliers, self.name))
        self.terms: list[PreferenceTerm] = []
        self.tallies: list[SoftTally] = []

    @property
    def present(self) -> bool:
        """True if some preference of the family concerns the pods to be placed."""
        if self.terms or self.tallies or self.involved:
            return True
        return any(self.key(g) is not None for g in range(self.cluster.n_classes))

    # --- points of a pod for its node -----------------------------------------------------------------------------------------

    def key(self, g: int) -> Hashable:
        """Return a key that is equal for classes with equal rows, or None if no node has points for the class."""
        return None

    def row(self, g: int) -> Ints:
        """Return int64[N]: points of one pod of class g on each node, without other pending pods."""
        return self.cluster.none(self.cluster.n_nodes)

    def scale(self) -> int:
        """Return the largest points of a single preference, for the temperature of annealing."""
        keyed = {key: g for g in range(self.cluster.n_classes) if (key := self.key(g)) is not None}
        return max((int(np.abs(self.row(g)).max(initial=0)) for g in keyed.values()), default=0)

    # --- reports --------------------------------------------------------------------------------------------------------------

    def best(self, placed: Ints) -> int:
        """Return an upper bound on the points of any placement of the pods.

        Args:
            placed: Placed pods of each class, int64[G].
        """
        chosen = (g for g in np.flatnonzero(placed).tolist() if self.key(g) is not None)
        return sum(int(placed[g]) * int(self.row(g).max(initial=0)) for g in chosen)

    @abstractmethod
    def losses(self, ledger: Ledger) -> None:
        """Enter the points that the placement loses, with a few words for each preference."""

    def gains(self, ledger: Ledger) -> None:
        """Enter the points of the family's own shape. The ledger knows those of all other shapes."""

    # --- a shape of its own ---------------------------------------------------------------------------------------------------

    def encode(self, encoding: PlacementModel, points: Points) -> None:
        """Add the weighted points to the expression of a model."""
        if self.involved:
            raise self._undeclared("encode")

    def links(self) -> Iterator[list[int]]:
        """Yield lists of classes that must be bounded together. By default these are all involved classes."""
        if self.involved:
            yield sorted(self.involved)

    def node_bound(self, g: int) -> Ints:
        """Return int64[N]: an upper bound on the points of one pod of an involved class that other pending pods cannot change."""
        raise self._undeclared("node_bound")

    def bound(self, classes: Collection[int], count: Ints) -> int:
        """Return an upper bound on all other points that the pods of some classes gain from each other.

        Args:
            count: Most pods of each class that can be placed, int64[G].
        """
        raise self._undeclared("bound")

    def _undeclared(self, face: str) -> NotImplementedError:
        return NotImplementedError(f"family {self.name}: points of a shape of its own need {face}")
