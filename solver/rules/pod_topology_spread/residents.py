"""DoNotSchedule constraints of resident pods, which moves of other pods can break.

maxSkew is enforced per domain, at the excess of the start: a pod that never moved may break the constraint as far
as it broke it then, see docs/rebalance.md ("Never worse"). A pod that the plan placed breaks no constraint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.plan_state import PlanPods
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread
from kubestow.solver.rules.residents import ResidentPods


@dataclass
class _ResidentGuard:
    """One combination of tally, maxSkew, minDomains and plus.

    Attributes:
        plus: 1 for pods that match their own selector on nodes that do not count; the filter adds the pod
            itself.
        holders: Pods with the constraint per domain, int64[D].
        placed: Holders per domain that the plan placed, int64[D].
        excess: Skew above maxSkew per domain at the start, int64[D], at least 0.
    """

    tally: int
    max_skew: int
    min_domains: int
    plus: int
    holders: Ints
    placed: Ints
    excess: Ints


class Skews(ResidentPods[PodTopologySpread]):
    """DoNotSchedule constraints of resident pods."""

    def __init__(self, rule: PodTopologySpread, pods: PlanPods) -> None:
        super().__init__(rule, pods)
        self._guards: list[_ResidentGuard] = []
        self._by_tally: list[list[int]] = [[] for _ in rule.tallies]
        self._of: list[list[tuple[int, int]]] = []  # by class: pairs of a guard on nodes that count and a guard on the others
        self._ids: dict[tuple[int, int, int, int], int] = {}
        for g in range(rule.cluster.n_classes):
            mine = []
            for spread, index in rule.own(g):
                if index is not None:
                    here = self._guard(index, spread.max_skew, spread.min_domains, 0)
                    outside = bool((~rule.tallies[index].eligible).any()) and spread.itself
                    mine.append((here, self._guard(index, spread.max_skew, spread.min_domains, 1) if outside else here))
            self._of.append(list(dict.fromkeys(mine)))

    def _guard(self, tally: int, max_skew: int, min_domains: int, plus: int) -> int:
        key = (tally, max_skew, min_domains, plus)
        if key not in self._ids:
            self._ids[key] = len(self._guards)
            self._by_tally[tally].append(len(self._guards))
            holders, placed, excess = (np.zeros(self.rule.tallies[tally].size, dtype=np.int64) for _ in range(3))
            self._guards.append(_ResidentGuard(tally, max_skew, min_domains, plus, holders, placed, excess))
        return self._ids[key]

    def begin(self) -> None:
        for guard in self._guards:
            tally = self.rule.tallies[guard.tally]
            guard.excess = np.maximum(tally.counts + guard.plus - tally.floor(guard.min_domains) - guard.max_skew, 0)

    def rebase(self) -> None:
        for guard in self._guards:
            guard.placed[:] = 0
        self.begin()

    def saved(self) -> Any:
        return [(guard.placed.copy(), guard.excess) for guard in self._guards]

    def restore(self, saved: Any) -> None:
        for guard, (placed, excess) in zip(self._guards, saved, strict=True):
            guard.placed[:], guard.excess = placed, excess

    def relax(self, full: Self, away: Bools) -> None:
        for index, tally in enumerate(self.rule.tallies):
            if (tally.matches & away).any():
                self._by_tally[index] = []

    @property
    def guarded(self) -> bool:
        return bool(self._guards)

    def put(self, g: int, n: int, k: int, *, placed: int) -> None:
        for here, outside in self._of[g]:
            tally = self.rule.tallies[self._guards[here].tally]
            guard = self._guards[here if tally.eligible[n] else outside]
            d = tally.codes[n]
            if d >= 0:
                guard.holders[d] += k
                guard.placed[d] += placed

    def broken(self, g: int, nodes: Ints) -> Bools:
        mask = np.zeros(len(nodes), dtype=bool)
        missing = self.rule.never(g)[nodes]
        for spread, index in self.rule.own(g):
            if index is None:
                continue
            tally = self.rule.tallies[index]
            domains = tally.codes[nodes]
            # The pod itself is counted only on an eligible node. Without it, no minimum below its domain's
            # count changes.
            counts = np.append(tally.counts, 0)[domains] + (int(spread.itself) & ~tally.eligible[nodes])
            floor = np.full(len(nodes), tally.floor(spread.min_domains), dtype=np.int64)
            for i in np.flatnonzero(tally.eligible[nodes]).tolist() if spread.itself else ():
                floor[i] = self._floor_without(index, spread.min_domains, int(domains[i]))
            mask |= (domains >= 0) & (counts - floor > spread.max_skew)
        return mask | missing

    def _floor_without(self, index: int, min_domains: int, d: int) -> int:
        """Return the minimum with one pod of domain d taken out."""
        tally = self.rule.tallies[index]
        floor = tally.floor(min_domains)
        pinned = int(np.count_nonzero(tally.counted)) < min_domains
        return floor if pinned or d < 0 or not tally.counted[d] else min(floor, int(tally.counts[d]) - 1)

    def landing(self, g: int) -> Bools | None:
        mask: Bools | None = None
        for i in self.rule.feeds(g):
            tally = self.rule.tallies[i]
            for index in self._by_tally[i]:
                guard = self._guards[index]
                slack, occupied = self._slack(guard)
                if not occupied.any():
                    continue
                floor = tally.floor(guard.min_domains)
                raised = np.full(tally.size, floor, dtype=np.int64)
                lowest = tally.counted & (tally.counts == floor)
                if np.count_nonzero(tally.counted) >= guard.min_domains and np.count_nonzero(lowest) == 1:
                    raised[lowest] = floor + 1
                least = int(slack[occupied].min())
                fine = (least + raised >= 0) & (~occupied | (slack + raised >= 1))
                here = np.append(fine, least + floor >= 0)[np.where(tally.eligible, tally.codes, -1)]
                mask = here if mask is None else mask & here
        return mask

    def gone(self, g: int) -> bool:
        for i in self.rule.feeds(g):
            for index in self._by_tally[i]:
                guard = self._guards[index]
                slack, occupied = self._slack(guard)
                if occupied.any() and int(slack[occupied].min()) + self.rule.tallies[i].floor(guard.min_domains) < 0:
                    return False
        return True

    def missing(self, g: int) -> list[tuple[int, int]]:
        return []  # pods of a constraint are in excess together: none of them has to go first

    def _slack(self, guard: _ResidentGuard) -> tuple[Ints, Bools]:
        """Return the slack of each domain and the domains with holders.

        Returns:
            int64[D], the allowed height above the minimum less the count; bool[D], domains that hold pods of
            the constraint.
        """
        tally = self.rule.tallies[guard.tally]
        allowed = np.where(guard.placed > 0, 0, guard.excess)
        return allowed + guard.max_skew - guard.plus - tally.counts, guard.holders > 0
