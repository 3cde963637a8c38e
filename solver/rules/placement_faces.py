"""The faces of a rule for the engines that place pods: construction, repair, local search, bounds and bind order.

The engines know no rule. Each default is safe for any rule: an engine then does less at once, leaves pods where they
are, or drops the rule from a bound. A rule declares each of :data:`DECLARED`, even if it takes the default.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.batch_limits import UNLIMITED, BatchLimits

if TYPE_CHECKING:
    from kubestow.models.devices.inventory import Pick

#: Faces whose omission an engine could not notice.
DECLARED = (
    "name", "local", "any_order", "first_come", "supplied", "whole_units", "tracks_moves", "settled", "survives_merging", "for_good",
    "reads", "alike", "concerned", "order_links", "reaches", "batch", "repairable",
)  # fmt: skip


class PlacementFaces(ABC):
    """Traits of a rule for the placement engines. All are False or empty by default.

    Attributes:
        local: True if placing a pod on a node changes this rule's verdicts only on that node.
        any_order: True if a placement that obeys the rule in the end obeys it in every bind order.
        first_come: True if arriving pods take zones or devices of their node first come, first served.
        supplied: True if :mod:`kubestow.solver.devices.supply` counts the rule's resources, and
            :mod:`kubestow.solver.devices.together` judges the pods of a node.
        whole_units: True if the pods of a unit are judged together (``admits_unit``, ``holds_after``), not one by one.
        tracks_moves: True if local search may move concerned pods and keep the rule's state up to date.
        settled: True if ``obeyed`` and ``kept`` judge a state that pods join and leave, whatever the order.
        survives_merging: True if a model that merges equal nodes may encode the rule.
        for_good: True if the rule decides which nodes a pod could ever use, for the minimum of a soft spread constraint.
        reads: Fields of PodClass that the rule reads.
    """

    cluster: Cluster
    local: ClassVar[bool] = False
    any_order: ClassVar[bool] = False
    first_come: ClassVar[bool] = False
    supplied: ClassVar[bool] = False
    whole_units: ClassVar[bool] = False
    tracks_moves: ClassVar[bool] = False
    settled: ClassVar[bool] = False
    survives_merging: ClassVar[bool] = False
    for_good: ClassVar[bool] = False
    reads: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def rejects(self, g: int) -> Bools:
        """See :meth:`kubestow.solver.rules.base.Rule.rejects`."""

    @abstractmethod
    def concerned(self, g: int) -> bool:
        """See :meth:`kubestow.solver.rules.base.Rule.concerned`."""

    @abstractmethod
    def place(self, g: int, n: int, k: int = 1) -> None:
        """See :meth:`kubestow.solver.rules.base.Rule.place`."""

    # --- construction ---------------------------------------------------------------------------------------------------

    def reaches(self, g: int) -> bool:
        """Return True if placing pods of class g on a node may change this rule's verdicts on other nodes."""
        return not self.local and self.concerned(g)

    def batch(self, g: int) -> BatchLimits:
        """Return the limits on the next pods of class g that are placed without checking this rule again."""
        if not self.concerned(g):
            return UNLIMITED
        reaches = self.reaches(g)
        return BatchLimits(one=reaches, one_per_node=not reaches)

    def place_many(self, g: int, nodes: Ints, pods: Ints) -> None:
        """Add pods[i] pods of class g on nodes[i] (distinct nodes), in this order."""
        for n, k in zip(nodes.tolist(), pods.tolist(), strict=True):
            self.place(g, n, k)

    def taken(self, g: int, n: int) -> list[tuple[Pick, ...]]:
        """Return the devices of each pod of class g on node n in order of placement."""
        return []

    def incomplete(self, g: int, counts: Ints) -> str | None:
        """Return why pods of class g stay unplaced in the placement ``counts`` (int64[G, N]) although nodes accept them, or None."""
        return None

    # --- repair and local search ------------------------------------------------------------------------------------------

    def repairable(self, g: int) -> bool:
        """Return True if repair may move pods of class g: ``exclusions`` state all that this rule forbids them."""
        return not self.concerned(g)

    def exclusions(self) -> Iterator[tuple[Ints, Ints, str | None]]:
        """Yield (classes, excluded classes, topology key): pods of the former keep the latter off their domain (None: their node)."""
        yield from ()

    def movable(self, g: int) -> bool:
        """Return True if local search may move pods of class g."""
        return self.tracks_moves or not self.concerned(g)

    def obeyed(self, g: int) -> Bools:
        """Return bool[N], the nodes on which one more pod of class g leaves this rule obeyed, whatever the bind order."""
        return ~self.rejects(g)

    def kept(self, g: int) -> bool:
        """Return True if the current state obeys what this rule demands of and because of pods of class g (``settled`` rules)."""
        return True

    def dependents(self, g: int) -> list[int]:
        """Return the classes whose pods may be placed only because of pods of class g."""
        return []

    def provides(self, g: int) -> bool:
        """Return True if other pods may depend on pods of class g."""
        return bool(self.dependents(g))

    def keeping(self, g: int, n: int, counts: Ints) -> Bools:
        """Return bool[N], the nodes where a pod of class g removed from node n must go for the sake of its dependents;
        ``counts`` int64[G, N] are the other pods."""
        return np.ones(self.cluster.n_nodes, dtype=bool)

    def gathers(self, g: int) -> list[Ids]:
        """Return int32[N], the domain of each node, for each topology key over which others depend on pods of class g."""
        return []

    # --- bind order and units of a gang -------------------------------------------------------------------------------------

    def openers(self, unplaced: dict[int, list[int]], rng: random.Random | None = None) -> list[tuple[int, int]]:
        """Return (class, node) pairs of pods to bind first. Nodes of unplaced pods are given by class."""
        return []

    def level(self, g: int) -> Ints | None:
        """Return int64[N]: pods of class g bind on the nodes with the lowest value first. None if this rule does not say."""
        return None

    def one_by_one(self, g: int) -> bool:
        """Return True if one more pod of class g may change the verdict on the other pods of the class."""
        return not self.any_order and self.concerned(g)

    def cycles(self, classes: Sequence[int]) -> list[list[int]]:
        """Return groups of the given classes whose pods need each other in a cycle."""
        return []

    def vouch(self, classes: Sequence[int], nodes: Bools) -> list[tuple[int, int, Ints]]:
        """Simulate pods of some classes in every domain of some nodes (bool[N]). Return the argument of :meth:`unvouch`."""
        return []

    def unvouch(self, vouched: Sequence[tuple[int, int, Ints]]) -> None:
        """Undo :meth:`vouch`."""

    def binds_together(self, g: int) -> bool:
        """Return True if pods of class g may have to bind with others of their gang."""
        return False

    def admits_unit(self, cells: Sequence[tuple[int, int, int]]) -> bool:
        """Return True if pods that bind as a unit, (class, node, pods) with each pair once, are accepted in the state before the unit."""
        return True

    def holds_after(self, g: int, n: int) -> bool:
        """Return True if a pod of class g on node n obeys this rule. The state includes it and all pods that bind with it."""
        return True
