"""What every rule offers: the verdict on each node in the current state, and its part of the CP-SAT model.

A rule has two faces, side by side in one module. The incremental face keeps the state of a placement that grows or shrinks pod by
pod (``rejects``, ``place``, ``remove``); greedy, ordering and explain use it. The encoding face adds the rule's constraints over
x[g, n], the number of pods of class g on node n, to a CP-SAT model. Tests hold the two and the independent checker together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from models.cluster.cluster import Cluster, Ints
from models.kube.selectors import Bools

if TYPE_CHECKING:
    from solver.cpsat.model import PlacementModel

#: "As many as you like", small enough to be summed.
PLENTY = 2**31


class Rule(ABC):
    """One scheduler plugin over a compiled cluster.

    ``name`` is the scheduler's plugin name. ``local``: placing a pod on a node changes this rule's verdicts on that node only.
    """

    name: ClassVar[str]
    local: ClassVar[bool] = True

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @abstractmethod
    def rejects(self, g: int) -> Bools:
        """bool[N]: the nodes on which this rule, asked on its own, rejects one more pod of class g in the current state."""

    @abstractmethod
    def never(self, g: int) -> Bools:
        """bool[N]: the nodes that no pod of class g can get, whatever is done with the other pending pods."""

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        """What ``never`` says, in parts that can be named: (topic, bool[N]), for a model that keeps all nodes
        (solver.explain.conflict.fact_model). Topics
        are those of ``PlacementModel.about``; parts that ``encode`` says as well may be left out."""
        return [(None, self.never(g))]

    def closed(self, g: int) -> Bools:
        """bool[N]: the nodes that no more pod of class g can get as long as the pods of the current state stay."""
        return self.rejects(g)

    def breaks(self, g: int) -> Bools:
        """bool[N]: nodes where the filter accepts one more pod of class g, but the final state would break this rule for another."""
        return np.zeros(self.cluster.n_nodes, dtype=bool)

    def room(self, g: int) -> Ints:
        """int64[N]: how many more pods of class g this rule admits on each node at once, if no other node changes."""
        return np.where(self.rejects(g), 0, PLENTY)

    def most(self, g: int) -> Ints:
        """int64[N]: a cheap upper bound on the pods of class g that one node can ever take under this rule (``local`` rules: ``room``)."""
        return np.full(self.cluster.n_nodes, PLENTY)

    def concerned(self, g: int) -> bool:
        """Whether placing pods of class g changes this rule's state at all."""
        return True

    def place(self, g: int, n: int, k: int = 1) -> None:
        """Put k pods of class g on node n into the state."""

    def remove(self, g: int, n: int, k: int = 1) -> None:
        """Take k pods of class g on node n out of the state."""

    def path(self) -> object:
        """What of the state depends on the order in which pods arrived, not only on which did; None if nothing."""
        return None

    def order_links(self) -> list[list[int]]:
        """Groups of classes whose bind order matters to each other under this rule."""
        return []

    def encode(self, encoding: PlacementModel) -> None:
        """Add what ``never`` does not say already to the model."""

    @abstractmethod
    def message(self, g: int, rejected: Bools) -> str:
        """A few words on why pods of class g are rejected on these nodes."""


class StaticRule(Rule):
    """A rule whose verdict depends on pod and node alone."""

    text: ClassVar[str]

    def concerned(self, g: int) -> bool:
        return False

    def rejects(self, g: int) -> Bools:
        return self.never(g)

    def message(self, g: int, rejected: Bools) -> str:
        return self.text
