"""Resident pods, whose rules the moves of other pods can break."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Self, TypeVar

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.plan_state import PlanPods

R = TypeVar("R", bound=Rule)


class ResidentPods(Generic[R]):
    """Resident pods under one rule, which moves of other pods can break.

    A pod that never moved may break the rule if it broke it at the start. By default, every landing is tried in
    the rule's state and undone.

    Attributes:
        rule: The rule in the state of the plan.
        broken_at_start: Per class, the nodes on which its pods broke the rule at the start, bool[N].
    """

    def __init__(self, rule: R, pods: PlanPods) -> None:
        self.rule, self.counts, self.arrived, self.problem = rule, pods.counts, pods.arrived, pods.problem
        self.broken_at_start: dict[int, Bools] = {}
        self._relaxed = False

    @property
    def guarded(self) -> bool:
        """True if any pod can come to break the rule."""
        return True

    def put(self, g: int, n: int, k: int, *, placed: int) -> None:
        """Add k pods of class g to node n (k < 0: remove pods); the plan placed ``placed`` among these."""

    def begin(self) -> None:
        """Take the present state as the start."""
        self._note(self.problem.start)

    def rebase(self) -> None:
        """Take the present state as the start and all its pods as never moved."""
        self._note(self.counts)

    def _note(self, start: Ints) -> None:
        self.broken_at_start = {}
        for g in self._judged():
            nodes = np.flatnonzero(start[g])
            mask = np.zeros(start.shape[1], dtype=bool)
            mask[nodes] = self.broken(g, nodes)
            self.broken_at_start[g] = mask

    def _judged(self) -> Iterable[int]:
        """Return the classes whose pods can come to break the rule."""
        return range(len(self.counts))

    def saved(self) -> Any:
        """Return the data that :meth:`rebase` changes, for :meth:`restore`."""
        return self.broken_at_start

    def restore(self, saved: Any) -> None:
        """Restore a saved start, in a state with the same pods as when it was saved."""
        self.broken_at_start = saved

    def relax(self, full: Self, away: Bools) -> None:
        """Enforce nothing that depends on the classes ``away``, bool[G], which this state lacks: a relaxation.

        Args:
            full: The residents of the start with these classes.
        """
        self._relaxed = True

    def broken(self, g: int, nodes: Ints) -> Bools:
        """Return where pods of class g on the given nodes, each without itself, break the rule, bool[len(nodes)]."""
        return self.rule.broken_by(g, nodes)

    def landing(self, g: int) -> Bools | None:
        """Return where a pod of class g, absent now, may land so that no resident pod is worse off, bool[N]; None: anywhere."""
        mask = np.ones(self.counts.shape[1], dtype=bool)
        for n in range(len(mask)):
            self.rule.place(g, n)
            mask[n] = self.gone(g)
            self.rule.remove(g, n)
        return mask

    def gone(self, g: int) -> bool:
        """Return True if no resident pod is worse off while a pod of class g, absent now, stays away."""
        return not self.missing(g)

    def missing(self, g: int) -> list[tuple[int, int]]:
        """Return the (class, node) of resident pods that miss a pod of class g, absent now."""
        found = []
        for h in self._judged() if not self._relaxed else ():
            nodes = self._needy(h)
            if len(nodes):
                found += [(h, n) for n in nodes[self.broken(h, nodes)].tolist()]
        return found

    def _needy(self, h: int) -> Ints:
        """Return the nodes with pods of class h that must not break the rule."""
        return np.flatnonzero((self.counts[h] > 0) & ((self.arrived[h] > 0) | ~self.broken_at_start[h]))


class JoiningNodes(ABC):
    """One rule while nodes join and leave the cluster."""

    @abstractmethod
    def count(self, changed: Ints, present: Bools, counts: Ints) -> None:
        """Adapt the state of the rule to the existing nodes.

        Args:
            changed: Nodes that joined or left since the last call.
            present: Existing nodes, bool[N].
            counts: Running pods, int64[G, N].
        """
