"""The CP-SAT model of a plan's end state as the rules see it.

Each way to break a rule has a literal that implies that the rule holds. Arrivals imply it, and so do staying
pods where they satisfied the rule. Other pods count as breaking the rule unless the literal is true. Literals
bind in one direction only: nothing forces them to be true unless required.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.model import PlacementModel

if TYPE_CHECKING:
    from kubestow.solver.ortools import cp_model
    from kubestow.solver.rules.plan_state import PlanProblem

#: (class, node, rule) -> literals that must all hold for the pods not to break the rule
Broken = dict[tuple[int, int, str], list["cp_model.IntVar"]]


class EndStateModel(PlacementModel, ABC):
    """The variables of an end state, of the whole cluster or of a part.

    Attributes:
        y: Arrivals per cell where there can be any.
        unmoved: Pods that the model does not move, int64[G, N].
        unmoved_arrived: Pods of ``unmoved`` that arrived, int64[G, N].
    """

    problem: PlanProblem
    y: dict[tuple[int, int], cp_model.IntVar]
    unmoved: Ints
    unmoved_arrived: Ints

    def count_unmoved(self, classes: Sequence[int], nodes: Ids | Ints) -> int:
        """Return the number of pods of these classes on these nodes that the model does not move."""
        return int(self.unmoved[np.asarray(classes)[:, None], nodes].sum()) if self.partial and len(classes) else 0

    def arriving(self, classes: Iterable[int], nodes: Ids | Ints) -> list[cp_model.IntVar]:
        """Return literals such that at least one is true if a pod of these classes arrives on these nodes."""
        listed = list(classes)
        if self.partial and listed and self.unmoved_arrived[np.asarray(listed)[:, None], nodes].any():
            return [self.true]
        here = [v for g in listed for n in nodes.tolist() if (v := self.y.get((g, n))) is not None]
        literal = self.any_of(here)
        return [] if literal is None else [literal]

    def present(self, classes: Sequence[int], nodes: Ids | Ints) -> list[cp_model.IntVar]:
        """Return literals such that at least one is true if a pod of these classes is on these nodes at the end."""
        if self.count_unmoved(classes, nodes):
            return [self.true]
        literal = self.any_of(self.cells(classes, nodes))
        return [] if literal is None else [literal]

    @property
    def true(self) -> cp_model.IntVar:
        """A literal that is always true."""
        return self.model.new_constant(1)

    @abstractmethod
    def fits_on(self, n: int, g: int) -> list[cp_model.IntVar]:
        """Return literals that imply that pods of class g on the node have enough capacity; none if they never do."""


class EndStates:
    """A model of end states to which rules add themselves.

    Attributes:
        start: Per rule and class, the nodes where its pods break the rule at the start, bool[N].
        broken: Per (class, node, rule) that may be broken at the end, the literals that must all hold for it
            not to be broken; an empty list if it is broken in any case.
        never_arriving: Keys of ``broken`` under which only pods that never left the node break the rule.
    """

    def __init__(self, model: EndStateModel, start: Mapping[str, Mapping[int, Bools]]) -> None:
        self.model, self.problem, self.start = model, model.problem, start
        self.broken: Broken = {}
        self.never_arriving: set[tuple[int, int, str]] = set()

    def cells(self, name: str) -> list[tuple[int, int]]:
        """Return the (class, node) pairs where pods break a rule at the start."""
        return [(g, n) for g, mask in self.start.get(name, {}).items() for n in np.flatnonzero(mask).tolist()]

    def was_broken(self, name: str, g: int, n: int) -> bool:
        """Return True if pods of class g on node n break a rule at the start."""
        mask = self.start.get(name, {}).get(g)
        return mask is not None and bool(mask[n])

    def at_most(self, classes: Sequence[int], nodes: Ids | Ints, fixed: int, limit: int, literal: cp_model.IntVar) -> None:
        """Add: literal ⇒ pods of these classes on these nodes, plus ``fixed`` ones, are at most ``limit`` in number."""
        model = self.model
        total = model.sum(model.cells(classes, nodes))
        model.model.add(total <= limit - fixed - model.count_unmoved(classes, nodes)).only_enforce_if(literal)
