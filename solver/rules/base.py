"""The interface of a rule: its verdict on each node in the current state, and its part of the CP-SAT model.

A rule has two faces in one module. The incremental face keeps the state of a placement that grows or shrinks
pod by pod (``rejects``, ``place``, ``remove``); greedy construction, ordering and explanations use it. The
encoding face adds the rule's constraints over x[g, n], the number of pods of class g on node n, to a CP-SAT
model. Tests compare both with each other and with the independent checker.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.rules.explanation_faces import ExplanationFaces
from kubestow.solver.rules.facts import FactPart, Refusal
from kubestow.solver.rules.placement_faces import PlacementFaces
from kubestow.solver.rules.wording import listed

_T = TypeVar("_T", bound=np.generic)

#: Number of pods that means no limit, small enough to be summed.
UNLIMITED_PODS = 2**31


def on_nodes(values: NDArray[_T], codes: Ids) -> NDArray[_T]:
    """Return the value of each node's domain, and zero (or False) on nodes without one.

    Args:
        values: [D], by domain.
        codes: int32[N], the domain of each node, -1 for none.
    """
    padded = np.zeros(len(values) + 1, dtype=values.dtype)
    padded[:-1] = values
    return padded.take(codes)


class Rule(PlacementFaces, ExplanationFaces):
    """One scheduler plugin over a compiled cluster.

    Attributes:
        name: The scheduler's plugin name.
        static: True if the verdict depends only on pod and node, never on other pods.
        arrivals_only: True if the state covers only arriving pods, because the holdings of running pods are
            unknown.
    """

    name: ClassVar[str]
    static: ClassVar[bool] = False
    arrivals_only: ClassVar[bool] = False

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> Self:
        """Return the rule of this class among the active rules."""
        return next(rule for rule in rules if isinstance(rule, cls))

    @abstractmethod
    def rejects(self, g: int) -> Bools:
        """Return bool[N], the nodes on which this rule alone rejects one more pod of class g in the current state."""

    @abstractmethod
    def never(self, g: int) -> Bools:
        """Return bool[N], the nodes that no pod of class g can get, regardless of the other pending pods."""

    def alike(self, g: int) -> Hashable:
        """Return a key that is equal for classes with equal ``never`` and ``most`` (local rules: ``room``) while no pod is placed.

        By default the key of each class is different.
        """
        return g

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        """Return the exclusions of ``never`` in parts with topics, as (topic, bool[N]).

        Models that keep all nodes use them (kubestow.solver.explain.conflict.fact_model). Topics are those of
        ``PlacementModel.about``. Parts that ``encode`` also states may be left out.
        """
        return [(None, self.never(g))]

    def closed(self, g: int) -> Bools:
        """Return bool[N], the nodes that no further pod of class g can get while the pods of the current state stay."""
        return self.rejects(g)

    def breaks(self, g: int) -> Bools:
        """Return bool[N], the nodes where the filter accepts one more pod of class g, but the final state would
        break this rule for another pod."""
        return np.zeros(self.cluster.n_nodes, dtype=bool)

    def broken_by(self, g: int, nodes: Ints) -> Bools:
        """Return bool[len(nodes)], whether each running pod of class g on these nodes is rejected there once it is removed.

        The pods are in the state, which is unchanged afterwards.
        """
        mask = np.zeros(len(nodes), dtype=bool)
        if self.concerned(g):
            for i, n in enumerate(nodes.tolist()):
                self.remove(g, n)
                mask[i] = self.stranded(g, n)
                self.place(g, n)
        return mask

    def stranded(self, g: int, n: int) -> bool:
        """Return True if a pod of class g that runs on node n, but is currently not in the state, is rejected there."""
        return bool(self.rejects(g)[n])

    def room(self, g: int) -> Ints:
        """Return int64[N], the number of further pods of class g that this rule admits on each node at once, if no other node changes."""
        return np.where(self.rejects(g), 0, UNLIMITED_PODS)

    def most(self, g: int) -> Ints:
        """Return int64[N], a cheap upper bound on the pods of class g that one node can ever hold (local rules: ``room``)."""
        return np.full(self.cluster.n_nodes, UNLIMITED_PODS)

    def concerned(self, g: int) -> bool:
        """Return True if placing pods of class g changes this rule's state."""
        return True

    def place(self, g: int, n: int, k: int = 1) -> None:
        """Add k pods of class g on node n to the state."""

    def remove(self, g: int, n: int, k: int = 1) -> None:
        """Remove k pods of class g on node n from the state. Rules that only count pods place -k."""
        self.place(g, n, -k)

    def path(self) -> object:
        """Return the part of the state that depends on the order of arrival, not only on the pods placed; None if there is none."""
        return None

    def order_links(self) -> list[list[int]]:
        """Return groups of classes among which the bind order matters under this rule. By default all concerned classes, in one group."""
        concerned = () if self.any_order else [g for g in range(self.cluster.n_classes) if self.concerned(g)]
        return [[*concerned]] if concerned else []

    def node_order(self, rules: Sequence[Rule], n: int, pods: dict[int, int]) -> tuple[list[int] | None, bool]:
        """Search for an order in which ``rules`` accept the given pods (by class) on node n (``supplied`` rules).

        Returns:
            The class of each pod in this order, or None, and True if it is proved.
        """
        return None, False

    def encode(self, encoding: PlacementModel) -> None:
        """Add the constraints that ``never`` does not cover to the model.

        By default the model leaves the rule out. Bounds then stay valid, but its solutions may break the rule. So ``solve``
        calls no engine that needs a model if a rule is neither static nor encoded, and says so in a note.
        """

    @abstractmethod
    def message(self, g: int, rejected: Bools) -> str:
        """Return a few words on why pods of class g are rejected on these nodes."""


def kinds(rules: Sequence[Rule], classes: Iterable[int]) -> dict[Hashable, list[int]]:
    """Return the classes in groups with equal verdicts of these rules while no pod is placed (:meth:`Rule.alike`)."""
    groups: dict[Hashable, list[int]] = {}
    for g in classes:
        groups.setdefault(tuple(rule.alike(g) for rule in rules), []).append(g)
    return groups


class CapacityRule(Rule):
    """The rule over the resources of nodes: the demands and the free amounts of the compiled instance.

    Attributes:
        free: int64[N, R], free amounts. They may be negative on overcommitted nodes, which still accept pods
            that do not request the resource.
        slots: int64[N], free pod slots.
    """

    free: Ints
    slots: Ints

    @abstractmethod
    def admits(self, g: int, n: int) -> bool:
        """Return True if node n accepts one more pod of class g."""


class StaticRule(Rule):
    """A rule whose verdict depends only on pod and node."""

    text: ClassVar[str]
    scheduler_text: ClassVar[str | None] = None  # the reason of kube-scheduler, if it has such a plugin
    static = local = any_order = tracks_moves = True
    first_come = supplied = whole_units = settled = survives_merging = for_good = False
    reaches, batch, repairable, order_links = Rule.reaches, Rule.batch, Rule.repairable, Rule.order_links
    counts_nominated = helped_by_new_nodes = helped_by_fewer_pods = False

    def concerned(self, g: int) -> bool:
        return False

    def broken_by(self, g: int, nodes: Ints) -> Bools:
        return self.never(g)[nodes]

    def rejects(self, g: int) -> Bools:
        return self.never(g)

    def message(self, g: int, rejected: Bools) -> str:
        return self.text

    def refusals(self, g: int) -> list[Refusal]:
        rejected = self.never(g)
        if self.scheduler_text is None:
            return super().refusals(g)
        return [Refusal(self.scheduler_text, rejected, rejected)] if rejected.any() else []

    def sentence(self, part: FactPart) -> str:
        words = listed(self.message(g, part.barred) for g in part.classes)
        return f"{part.view.of_all(part.barred)} reject {part.pods}: {words}"
