"""Required affinity of resident pods, which moves of other pods can break.

Anti-affinity is checked when a pod lands, because it is symmetric. A pod that never moved may break the filters
that it broke at the start, see docs/rebalance.md ("Never worse"). InterPodAffinity is one filter: a pod that
breaks its anti-affinity may also lose the pods that it must be near. A pod that the plan placed breaks no rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.plan_state import PlanPods
from kubestow.solver.rules.residents import ResidentPods


class Providers(ResidentPods[InterPodAffinity]):
    """Required affinity of resident pods.

    Attributes:
        holders: Per attraction, the classes that have it.
    """

    def __init__(self, rule: InterPodAffinity, pods: PlanPods) -> None:
        super().__init__(rule, pods)
        self.holders: list[list[int]] = [[] for _ in rule.attractions]
        for g in range(rule.cluster.n_classes):
            index = rule.attraction(g)
            if index is not None:
                self.holders[index].append(g)

    @property
    def guarded(self) -> bool:
        return any(self.holders)

    def _judged(self) -> Iterable[int]:
        return (h for holders in self.holders for h in holders)

    def relax(self, full: Self, away: Bools) -> None:
        self.broken_at_start = full.broken_at_start
        for index, attraction in enumerate(self.rule.attractions):
            if (attraction.matches & away).any():
                self.holders[index] = []

    def broken(self, g: int, nodes: Ints) -> Bools:
        return self.rule.repelled(g, nodes) | self.lacking(g, nodes)

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
        return not any(self.lacking(h, nodes).any() for i in self.rule.feeds(g) for h in self.holders[i] if len(nodes := self._needy(h)))

    def missing(self, g: int) -> list[tuple[int, int]]:
        found: dict[tuple[int, int], None] = {}
        for h in dict.fromkeys(h for i in self.rule.feeds(g) for h in self.holders[i]):
            nodes = self._needy(h)
            if len(nodes):
                found.update(((h, n), None) for n in nodes[self.lacking(h, nodes)].tolist())
        return list(found)
