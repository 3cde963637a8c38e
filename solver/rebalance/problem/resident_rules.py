"""Rules of resident pods that moves of other pods can break: required affinity and maxSkew.

All other rules are checked when a pod lands: anti-affinity and host ports are symmetric, and capacity is only
used up by accepted steps. A pod that never moved may break the filters that it broke at the start, see
docs/rebalance.md ("Never worse"). InterPodAffinity is one filter: a pod that breaks its anti-affinity may also
lose the pods that it must be near. maxSkew is enforced per domain, at the excess of the start. A pod that the
plan placed breaks no rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread


class Providers:
    """Required affinity of resident pods.

    Attributes:
        rule: InterPodAffinity in the plan state.
        counts: Running pods of the plan state, int64[G, N], shared with it.
        arrived: Pods that steps placed, int64[G, N], shared with the plan state.
        holders: Per attraction, the classes that have it.
        broken: Per class, the nodes on which its pods broke InterPodAffinity at the start, bool[N]. Pods there
            that never moved need no pod near them.

    Args:
        start: Pods that count as never moved, int64[G, N]; by default those of the problem's start.
    """

    def __init__(self, problem: RebalanceProblem, rule: InterPodAffinity, counts: Ints, arrived: Ints, start: Ints | None = None) -> None:
        self.rule, self.counts, self.arrived = rule, counts, arrived
        cluster = problem.cluster
        self.holders: list[list[int]] = [[] for _ in rule.attractions]
        for g in range(cluster.n_classes):
            index = rule.attraction(g)
            if index is not None:
                self.holders[index].append(g)
        self.broken: dict[int, Bools] = {}
        for holders in self.holders:
            for h in holders:
                nodes = np.flatnonzero((problem.start if start is None else start)[h])
                mask = np.zeros(cluster.n_nodes, dtype=bool)
                mask[nodes] = self.lacking(h, nodes) | rule.repelled(h, nodes)
                self.broken[h] = mask

    def lacking(self, h: int, nodes: Ints) -> Bools:
        """Return where pods of class h on the given nodes miss another pod that they must be near, bool[len(nodes)]."""
        index, affinity = self.rule.attraction(h), self.rule.cluster.classes[h].affinity
        if index is None or affinity is None:
            return np.zeros(len(nodes), dtype=bool)
        attraction = self.rule.attractions[index]
        lacks = np.zeros(len(nodes), dtype=bool)
        for codes, count in zip(attraction.codes, attraction.counts, strict=True):
            domains = codes[nodes]
            own = int(affinity.itself)
            first = affinity.itself & (attraction.total - (attraction.any_key[nodes] & affinity.itself) == 0)
            lacks |= (domains < 0) | (~first & (np.append(count, 0)[domains] - own < 1))
        return lacks

    def landing(self, g: int) -> Bools | None:
        """Return where a pod of class g, absent now, may land so that no resident pod misses one, bool[N]; None: anywhere."""
        mask: Bools | None = None
        for i in self.rule.feeds(g):
            attraction = self.rule.attractions[i]
            for h in self.holders[i]:
                nodes = self._needy(h)
                if not len(nodes):
                    continue
                own = int(bool(attraction.matches[h]))
                alone = attraction.total - (attraction.any_key[nodes] & bool(own))
                opened = (alone == 0) & bool(own)  # no other pod matches: the pod needs none until this one lands elsewhere
                for codes, count in zip(attraction.codes, attraction.counts, strict=True):
                    domains = codes[nodes]
                    lonely = np.unique(domains[np.append(count, 0)[domains] - own < 1])
                    lonely = lonely[lonely >= 0]
                    if not len(lonely):
                        continue
                    mask = np.ones(len(codes), dtype=bool) if mask is None else mask
                    for d in lonely.tolist():
                        free = bool(opened[domains == d].all())
                        mask &= (codes == d) | (~attraction.any_key if free else False)
        return mask

    def gone(self, g: int) -> bool:
        """Return True if no resident pod misses another while a pod of class g, absent now, stays away."""
        return not any(self.lacking(h, nodes).any() for i in self.rule.feeds(g) for h in self.holders[i] if len(nodes := self._needy(h)))

    def missing(self, g: int) -> list[tuple[int, int]]:
        """Return the (class, node) of resident pods that miss a pod of class g, absent now."""
        found: dict[tuple[int, int], None] = {}
        for h in dict.fromkeys(h for i in self.rule.feeds(g) for h in self.holders[i]):
            nodes = self._needy(h)
            if len(nodes):
                found.update(((h, n), None) for n in nodes[self.lacking(h, nodes)].tolist())
        return list(found)

    def _needy(self, h: int) -> Ints:
        """Return the nodes with pods of class h whose affinity has to be satisfied."""
        return np.flatnonzero((self.counts[h] > 0) & ((self.arrived[h] > 0) | ~self.broken[h]))


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


class Skews:
    """DoNotSchedule constraints of resident pods.

    Attributes:
        rule: PodTopologySpread in the plan state. :meth:`put` updates the holders along with it.
    """

    def __init__(self, rule: PodTopologySpread) -> None:
        self.rule = rule
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
        """Take the present state as the start."""
        for guard in self._guards:
            tally = self.rule.tallies[guard.tally]
            guard.excess = np.maximum(tally.counts + guard.plus - tally.floor(guard.min_domains) - guard.max_skew, 0)

    def rebase(self) -> None:
        """Take the present state as the start and all its pods as never moved."""
        for guard in self._guards:
            guard.placed[:] = 0
        self.begin()

    def saved(self) -> list[tuple[Ints, Ints]]:
        """Return a copy of the data that :meth:`rebase` and :meth:`begin` change, for :meth:`restore`."""
        return [(guard.placed.copy(), guard.excess) for guard in self._guards]

    def restore(self, saved: list[tuple[Ints, Ints]]) -> None:
        """Restore a saved start, in a state with the same pods as when it was saved."""
        for guard, (placed, excess) in zip(self._guards, saved, strict=True):
            guard.placed[:], guard.excess = placed, excess

    def release(self, tally: int) -> None:
        """Stop enforcing the constraints of resident pods that a tally counts for: a relaxation."""
        self._by_tally[tally] = []

    @property
    def guarded(self) -> bool:
        """True if there is any constraint."""
        return bool(self._guards)

    def put(self, g: int, n: int, k: int, *, placed: int) -> None:
        """Add k pods of class g to node n (k < 0: remove pods); the plan placed ``placed`` among these."""
        for here, outside in self._of[g]:
            tally = self.rule.tallies[self._guards[here].tally]
            guard = self._guards[here if tally.eligible[n] else outside]
            d = tally.codes[n]
            if d >= 0:
                guard.holders[d] += k
                guard.placed[d] += placed

    def over(self, g: int, nodes: Ints) -> Bools:
        """Return where pods of class g on the given nodes, each without itself, break their constraints, bool[len(nodes)]."""
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
        """Return where a pod of class g, absent now, may land so that no resident pod is worse off, bool[N]; None: anywhere."""
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
        """Return True if no resident pod is worse off while a pod of class g, absent now, stays away."""
        for i in self.rule.feeds(g):
            for index in self._by_tally[i]:
                guard = self._guards[index]
                slack, occupied = self._slack(guard)
                if occupied.any() and int(slack[occupied].min()) + self.rule.tallies[i].floor(guard.min_domains) < 0:
                    return False
        return True

    def _slack(self, guard: _ResidentGuard) -> tuple[Ints, Bools]:
        """Return the slack of each domain and the domains with holders.

        Returns:
            int64[D], the allowed height above the minimum less the count; bool[D], domains that hold pods of
            the constraint.
        """
        tally = self.rule.tallies[guard.tally]
        allowed = np.where(guard.placed > 0, 0, guard.excess)
        return allowed + guard.max_skew - guard.plus - tally.counts, guard.holders > 0
