"""What every rule offers: the verdict on each node in the current state, and its part of the CP-SAT model.

A rule has two faces, side by side in one module. The incremental face keeps the state of a placement that grows or shrinks pod by
pod (``rejects``, ``place``, ``remove``); greedy, ordering and explain use it. The encoding face adds the rule's constraints over
x[g, n], the number of pods of class g on node n, to a CP-SAT model. Tests hold the two and the independent checker together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.models.kube.selectors import Bools

if TYPE_CHECKING:
    from kubestow.solver.cpsat.model import PlacementModel

_T = TypeVar("_T", bound=np.generic)

#: "As many as you like", small enough to be summed.
PLENTY = 2**31


def on_nodes(values: NDArray[_T], codes: Ids) -> NDArray[_T]:
    """Return the value of each node's domain, zero (or False) on nodes without one. ``values``: [D]; ``codes``: int32[N], -1 for none."""
    padded = np.zeros(len(values) + 1, dtype=values.dtype)
    padded[:-1] = values
    return padded.take(codes)


class Rule(ABC):
    """One scheduler plugin over a compiled cluster.

    Attributes:
        name: The scheduler's plugin name.
        local: Placing a pod on a node changes this rule's verdicts on that node only.
        static: The verdict depends on pod and node alone, never on other pods.
        arrivals_only: The state covers pods that arrive, and nothing is known of what pods that run already hold of it.
    """

    name: ClassVar[str]
    local: ClassVar[bool] = True
    static: ClassVar[bool] = False
    arrivals_only: ClassVar[bool] = False

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> Self:
        """Return the rule of this class among those that are active."""
        return next(rule for rule in rules if isinstance(rule, cls))

    @abstractmethod
    def rejects(self, g: int) -> Bools:
        """Return bool[N]: the nodes on which this rule, asked on its own, rejects one more pod of class g in the current state."""

    @abstractmethod
    def never(self, g: int) -> Bools:
        """Return bool[N]: the nodes that no pod of class g can get, whatever is done with the other pending pods."""

    def alike(self, g: int) -> Hashable:
        """Return the same for classes of which ``never`` says the same, and ``most`` (``local`` rules: ``room``) while no pod is placed; by
        default something else for each class."""
        return g

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        """Return what ``never`` says, in parts that can be named: (topic, bool[N]), for a model that keeps all nodes
        (kubestow.solver.explain.conflict.fact_model). Topics are those of ``PlacementModel.about``; parts that ``encode`` says as well may
        be left out."""
        return [(None, self.never(g))]

    def closed(self, g: int) -> Bools:
        """Return bool[N]: the nodes that no more pod of class g can get as long as the pods of the current state stay."""
        return self.rejects(g)

    def breaks(self, g: int) -> Bools:
        """Return bool[N]: nodes where the filter accepts one more pod of class g, but the final state would break this rule for another."""
        return np.zeros(self.cluster.n_nodes, dtype=bool)

    def broken_by(self, g: int, nodes: Ints) -> Bools:
        """Return bool[len(nodes)]: whether running pods of class g on these nodes, each without itself, are rejected there. The pods are in
        the state, which is kept."""
        mask = np.zeros(len(nodes), dtype=bool)
        if self.concerned(g):
            for i, n in enumerate(nodes.tolist()):
                self.remove(g, n)
                mask[i] = self.stranded(g, n)
                self.place(g, n)
        return mask

    def stranded(self, g: int, n: int) -> bool:
        """Return whether a pod of class g that runs on node n, and is not in the state now, is rejected there."""
        return bool(self.rejects(g)[n])

    def room(self, g: int) -> Ints:
        """Return int64[N]: how many more pods of class g this rule admits on each node at once, if no other node changes."""
        return np.where(self.rejects(g), 0, PLENTY)

    def most(self, g: int) -> Ints:
        """Return int64[N]: a cheap upper bound on the pods of class g that one node can ever take under this rule (``local`` rules:
        ``room``)."""
        return np.full(self.cluster.n_nodes, PLENTY)

    def concerned(self, g: int) -> bool:
        """Return whether placing pods of class g changes this rule's state at all."""
        return True

    def place(self, g: int, n: int, k: int = 1) -> None:
        """Put k pods of class g on node n into the state."""

    def remove(self, g: int, n: int, k: int = 1) -> None:
        """Take k pods of class g on node n out of the state; rules that count pods only place fewer."""
        self.place(g, n, -k)

    def path(self) -> object:
        """Return what of the state depends on the order in which pods arrived, not only on which did; None if nothing."""
        return None

    def order_links(self) -> list[list[int]]:
        """Return groups of classes whose bind order matters to each other under this rule."""
        return []

    def encode(self, encoding: PlacementModel) -> None:
        """Add what ``never`` does not say already to the model."""

    @abstractmethod
    def message(self, g: int, rejected: Bools) -> str:
        """Return a few words on why pods of class g are rejected on these nodes."""


def kinds(rules: Sequence[Rule], classes: Iterable[int]) -> dict[Hashable, list[int]]:
    """Return classes in groups of which these rules say the same while no pod is placed (:meth:`Rule.alike`)."""
    found: dict[Hashable, list[int]] = {}
    for g in classes:
        found.setdefault(tuple(rule.alike(g) for rule in rules), []).append(g)
    return found


class StaticRule(Rule):
    """A rule whose verdict depends on pod and node alone."""

    text: ClassVar[str]
    static = True

    def concerned(self, g: int) -> bool:
        return False

    def broken_by(self, g: int, nodes: Ints) -> Bools:
        return self.never(g)[nodes]

    def rejects(self, g: int) -> Bools:
        return self.never(g)

    def message(self, g: int, rejected: Bools) -> str:
        return self.text
