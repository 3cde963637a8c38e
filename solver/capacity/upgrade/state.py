"""A cluster on its way through the waves of an upgrade: nodes come and go, and with each wave the pods at rest are taken as they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kubestow.models.cluster.cluster import Ints, domain_sum
from kubestow.models.kube.objects import is_terminating
from kubestow.models.kube.selectors import Bools
from kubestow.solver.capacity.upgrade.pool import Pool
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.problem.resident_rules import Providers
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rules.pod_topology_spread import Tally


@dataclass
class Mark:
    """A state to come back to, with all that :class:`PoolState` keeps."""

    counts: Ints
    arrived: Ints
    present: Bools
    cordoned: Bools
    done: list[Any]
    skews: list[tuple[Ints, Ints]]
    providers: Providers


@dataclass
class _Counted:
    """A tally with its nodes. ``mask``: bool[N], those that count when they are there; ``nodes``: int64[D], how many of them are there;
    ``fixed``: int64[N], pods that stay, where nodes with some come or go."""

    tally: Tally
    mask: Bools
    fixed: Ints | None
    nodes: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = np.bincount(self.tally.codes[self.mask], minlength=self.tally.size).astype(np.int64)


class PoolState(PlanState):
    """``present``: bool[N], the nodes that are there; all others count for nothing and take nothing. ``cordoned``: bool[N], those of the
    wave that is on its way.

    As a wave begins, its replay begins anew: what pods at rest break then they may go on breaking. Only what running pods hold beside what
    they ask for goes with those that never moved.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool.problem)
        self.pool = pool
        self.present = pool.start()
        self.cordoned = np.zeros_like(self.present)
        self._keeps = pool.problem.extra.any(axis=1)
        #: bool[G]: pods that move once only, to nodes that stay: the next time they would ask for a budget, or hold less.
        self.once = pool.problem.once | self._keeps
        self._stays = pool.end()
        self.holding = bool(self.skews.guarded or any(self.providers.holders))
        come_and_go = ~(pool.start() & pool.end())
        self._tallies: list[_Counted] = []
        for tally in self._spread.tallies:
            fixed = pool.problem.cluster.fixed_count(tally.matcher, settled=True)
            self._tallies.append(_Counted(tally, tally.eligible & (tally.codes >= 0), fixed if fixed[come_and_go].any() else None))
        self._counted = np.ones_like(self.present)  # nodes that are counted in the domains
        self._old, self._new = np.array(list(pool.new), dtype=np.int64), np.array(list(pool.new.values()), dtype=np.int64)
        self.begin(self.present)

    @property
    def extra(self) -> int:
        """How many nodes are there beyond the pool."""
        return int((self.present[self._old] & self.present[self._new]).sum())

    @property
    def restricted(self) -> bool:
        """Whether pods of the pool may do more than here: those that hold other than they ask for move more than once, budgets allow more
        once pods that are not healthy have moved, and some may go where others keep them away that terminate, and go with their node."""
        moving = self.problem.movable & (self.problem.start[:, self._old] > 0).any(axis=1)
        if (self._keeps & moving).any() or any(budget.healthy < len(budget.pods) for budget in self.problem.budgets):
            return True
        old = {self.pool.names[n] for n in self._old.tolist()}
        ends = any(is_terminating(pod) and pod.spec.nodeName in old for pod in self.problem.cluster.snapshot.pods)
        return ends and any(self.near_or_apart(g) for g in np.flatnonzero(moving).tolist())

    def begin(self, present: Bools) -> None:
        """Begin a wave, with these nodes."""
        self.present = present
        self.cordoned = np.zeros_like(present)
        self.arrived[~self._keeps] = 0
        self._done.clear()
        self._count_domains()
        self.skews.rebase()
        if any(self.providers.holders):
            self.providers = Providers(self.problem, self._affinity, self.counts, self.arrived, self.counts)

    def _count_domains(self) -> None:
        """Count domains of spread constraints that have an eligible node now, and pods on nodes that are there."""
        changed = np.flatnonzero(self._counted != self.present)
        self._counted = self.present.copy()
        for each in self._tallies:
            tally = each.tally
            for n in changed[each.mask[changed]].tolist():
                d = tally.codes[n]
                each.nodes[d] += 1 if self.present[n] else -1
                tally.counted[d] = each.nodes[d] > 0
            if each.fixed is not None:
                here = np.where(each.mask & self.present, tally.matches @ self.counts + each.fixed, 0)
                tally.counts[:] = domain_sum(tally.codes, tally.size, here)

    def places(self, g: int, a: int) -> Bools:
        """Return bool[N]: where one pod of class g may go from node a now."""
        mask = self.landing(g, a) & self.present & ~self.cordoned
        if self.once[g]:
            mask &= self._stays
        return np.asarray(mask)

    def lasting(self, g: int) -> Bools:
        """Return bool[N]: nodes that no pod of the class can get whatever else moves, for want of room on an empty node apart. Who is near
        and who keeps away changes with what moves."""
        found = self.never(g).copy()
        for rule in self.rules:
            if rule is not self.fit and rule is not self._affinity:
                found |= rule.never(g)
        return found

    def near_or_apart(self, g: int) -> bool:
        """Return whether required affinity or anti-affinity of other pods says where pods of the class may run."""
        return self._affinity.concerned(g)

    def mark(self) -> Mark:
        """Return where the state is."""
        return Mark(
            self.counts.copy(), self.arrived.copy(), self.present.copy(), self.cordoned.copy(), list(self._done), self.skews.saved(),
            self.providers,
        )  # fmt: skip

    def back_to(self, mark: Mark) -> None:
        """Go to another state."""
        for g, n in np.argwhere((self.counts != mark.counts) | (self.arrived != mark.arrived)).tolist():
            self._put(g, n, int(mark.counts[g, n] - self.counts[g, n]), int(mark.arrived[g, n] - self.arrived[g, n]))
        self.present, self.cordoned, self._done = mark.present.copy(), mark.cordoned.copy(), list(mark.done)
        self._count_domains()
        self.skews.restore(mark.skews)
        self.providers = mark.providers

    def undo_all(self, steps: list[Step], length: int) -> None:
        """Take back steps until so many are left."""
        while len(steps) > length:
            self.undo(steps.pop())
