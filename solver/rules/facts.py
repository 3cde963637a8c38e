"""Facts of causes as rules see them: what a rule reads for its sentences, and the cells to which it adds rows.

:mod:`kubestow.solver.explain.conflict` finds the facts and implements the protocols. A fact is a set of constraints of one
rule with one or more topics. Topics are those of ``Rule.bars`` and ``PlacementModel.about``.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.models.documents.placement import Fact
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.selectors import Bools

if TYPE_CHECKING:
    from kubestow.solver.ortools import cp_model


class Remainder(Protocol):
    """The nodes and pods that remain under the facts of a cause.

    Attributes:
        open: By class, bool[N], the nodes that no exclusion of the cause closes.
        room: By class, int64[N], the pods that each node can take under the exclusions and capacities of the
            cause.
    """

    cluster: Cluster
    open: list[Bools]
    room: list[Ints]

    @property
    def nowhere(self) -> Bools:
        """Return bool[N], no node."""

    def open_to(self, classes: Sequence[int]) -> Bools:
        """Return bool[N], the nodes open to some of the classes."""

    def domain(self, key: str, code: int) -> str:
        """Return ``key=value``, or ``no key`` for code -1."""

    def pods(self, classes: Sequence[int]) -> list[Pod]:
        """Return the pods of the classes."""

    def objects(self, classes: Sequence[int]) -> str:
        """Return the owners of the pods, such as ``Deployment prod/db``."""

    def whom(self, classes: Sequence[int]) -> str:
        """Return the pods and their owners: ``the 8 pods of train/worker`` or ``default/p``."""

    def names(self, nodes: Bools) -> str:
        """Return the names of the nodes."""

    def of_all(self, nodes: Bools) -> str:
        """Return ``3 of 10 nodes``."""

    def shared_keys(self) -> Collection[str]:
        """Return the topology keys of which all pods of some fact must be in one domain."""

    def blockers(self, classes: Sequence[int], nodes: Bools) -> list[str]:
        """Return the rules of the cause that keep pods of some classes off some nodes, sorted."""


@dataclass(frozen=True)
class FactPart:
    """One topic of one fact.

    Attributes:
        fact: The fact in the document. A sentence may name its object, domain and resource.
        classes: Classes of the pods that it concerns.
        barred: bool[N], the nodes that it excludes for all its classes.
        inside: bool[N], the nodes that it concerns.
        needed: Number of pods that must be placed.
    """

    fact: Fact
    view: Remainder
    topic: Hashable
    classes: list[int]
    barred: Bools
    inside: Bools
    needed: int

    @property
    def pods(self) -> str:
        return self.view.whom(self.classes)

    @property
    def plural(self) -> str:
        """The ending of a verb whose subject is ``pods``."""
        return "s" * (len(self.view.pods(self.classes)) == 1)


class Leavers(Protocol):
    """Running pods that may leave, and the pods for which they would. Both are pending pods of one instance.

    Attributes:
        own: Classes of the pods to be placed.
        victims: Classes of the running pods.
        at: By class and node, the running pods.
    """

    own: list[int]
    victims: list[int]
    at: dict[int, dict[int, list[int]]]


class CellModel(Protocol):
    """A model in which the pods of a class in a cell of nodes have a variable of their own.

    Attributes:
        cell_of: int32[N], the cell of each node.
    """

    cell_of: Ids

    @property
    def model(self) -> cp_model.CpModel:
        """Return the CP-SAT model."""

    def totals(self) -> Iterator[tuple[Ints, list[cp_model.IntVar]]]:
        """Yield for each cell its nodes, and the pods of each class there."""

    def about(self, topic: Hashable, classes: Sequence[int] = (), node: int | None = None) -> AbstractContextManager[None]:
        """Return a context that labels the constraints added in it."""

    def sum(self, variables: Sequence[cp_model.IntVar]) -> cp_model.LinearExprT:
        """Return the sum of the variables."""

    def weighted_sum(self, variables: Sequence[cp_model.IntVar], weights: Sequence[int]) -> cp_model.LinearExprT:
        """Return the weighted sum of the variables."""


class Refusal(NamedTuple):
    """A reason of a plugin, as kube-scheduler prints it.

    Attributes:
        text: The reason, such as ``Insufficient cpu``.
        nodes: bool[N], the rejected nodes.
        is_lasting: bool[N], nodes where evicting pods cannot help (kube-scheduler: UnschedulableAndUnresolvable).
    """

    text: str
    nodes: Bools
    is_lasting: Bools
