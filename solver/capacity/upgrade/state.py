"""The cluster state during an upgrade: nodes join and leave, and each wave starts from the pods where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.objects import is_terminating
from kubestow.models.kube.selectors import Bools
from kubestow.solver.capacity.upgrade.pool import UpgradePool
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.problem.state import PlanState


@dataclass
class Mark:
    """A snapshot of everything that :class:`PoolState` keeps, to return to."""

    counts: Ints
    arrived: Ints
    present: Bools
    cordoned: Bools
    done: list[Any]
    residents: list[Any]


class PoolState(PlanState):
    """The plan state with joining and leaving nodes.

    Each wave starts a new replay: rules that resting pods violate at its start may stay violated. Only excess
    resources that running pods hold are released by pods that have never moved.

    Attributes:
        present: bool[N], existing nodes. All other nodes count for nothing and receive no pods.
        cordoned: bool[N], nodes of the wave in progress.
    """

    def __init__(self, pool: UpgradePool) -> None:
        super().__init__(pool.problem)
        self.pool = pool
        self.present = pool.start()
        self.cordoned = np.zeros_like(self.present)
        self._keeps = pool.problem.extra.any(axis=1)
        #: bool[G]: classes whose pods move only once, to nodes that stay. A second move would need another
        #: budget, or hold less.
        self.once = pool.problem.once | self._keeps
        self._stays = pool.end()
        self.lasting_rules = [face.rule for face in self.faces if face.never_is_final]
        self.holding = any(residents.guarded for residents in self.residents.values())
        come_and_go = ~(pool.start() & pool.end())
        self._joining = [joining for face in self.faces if (joining := face.joining_nodes(come_and_go)) is not None]
        self._counted = np.ones_like(self.present)  # nodes that are counted in the domains
        self._old, self._new = np.array(list(pool.new), dtype=np.int64), np.array(list(pool.new.values()), dtype=np.int64)
        self.begin(self.present)

    @property
    def extra(self) -> int:
        """The number of nodes beyond the pool's size."""
        return int((self.present[self._old] & self.present[self._new]).sum())

    @property
    def restricted(self) -> bool:
        """True if pods of the pool may do more in reality than in this model.

        Pods that hold more than their requests can move more than once. Budgets allow more once unhealthy
        pods have moved. A terminating pod goes with its node, and others may go where it kept them away.
        """
        moving = self.problem.movable & (self.problem.start[:, self._old] > 0).any(axis=1)
        if (self._keeps & moving).any() or any(budget.healthy < len(budget.pods) for budget in self.problem.budgets):
            return True
        old = {self.pool.names[n] for n in self._old.tolist()}
        ends = any(is_terminating(pod) and pod.spec.nodeName in old for pod in self.problem.cluster.snapshot.pods)
        return ends and any(self.near_or_apart(g) for g in np.flatnonzero(moving).tolist())

    def begin(self, present: Bools) -> None:
        """Begin a wave with these nodes."""
        self.present = present
        self.cordoned = np.zeros_like(present)
        self.arrived[~self._keeps] = 0
        self._done.clear()
        self._count_domains()
        for residents in self.residents.values():
            residents.rebase()

    def _count_domains(self) -> None:
        """Count the domains of spread constraints that have an eligible node now, and the pods on existing nodes."""
        changed = np.flatnonzero(self._counted != self.present)
        self._counted = self.present.copy()
        for joining in self._joining:
            joining.count(changed, self.present, self.counts)

    def places(self, g: int, a: int) -> Bools:
        """Return bool[N], the nodes to which one pod of class g on node a may move now."""
        mask = self.landing(g, a) & self.present & ~self.cordoned
        if self.once[g]:
            mask &= self._stays
        return np.asarray(mask)

    def lasting(self, g: int) -> Bools:
        """Return bool[N], the nodes that never accept a pod of the class, regardless of other moves.

        Insufficient room on an empty node is left out. So are affinity and anti-affinity, which change with
        moves.
        """
        rejected = self.never(g).copy()
        for rule in self.lasting_rules:
            rejected |= rule.never(g)
        return rejected

    def near_or_apart(self, g: int) -> bool:
        """Return True if a rule whose exclusions change with moves restricts where pods of the class may run."""
        return any(rule.concerned(g) for rule in self.rules if rule is not self.fit and rule not in self.lasting_rules)

    def mark(self) -> Mark:
        """Return a copy of the state."""
        return Mark(
            self.counts.copy(), self.arrived.copy(), self.present.copy(), self.cordoned.copy(), list(self._done),
            [residents.saved() for residents in self.residents.values()],
        )  # fmt: skip

    def back_to(self, mark: Mark) -> None:
        """Restore a state."""
        for g, n in np.argwhere((self.counts != mark.counts) | (self.arrived != mark.arrived)).tolist():
            self._put(g, n, int(mark.counts[g, n] - self.counts[g, n]), int(mark.arrived[g, n] - self.arrived[g, n]))
        self.present, self.cordoned, self._done = mark.present.copy(), mark.cordoned.copy(), list(mark.done)
        self._count_domains()
        for residents, saved in zip(self.residents.values(), mark.residents, strict=True):
            residents.restore(saved)

    def undo_all(self, steps: list[Step], length: int) -> None:
        """Undo steps until ``length`` steps remain."""
        while len(steps) > length:
            self.undo(steps.pop())
