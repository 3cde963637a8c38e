"""The domains of spread constraints while nodes join and leave the cluster."""

from __future__ import annotations

import numpy as np

from kubestow.models.cluster.cluster import Ints, domain_sum
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread, SpreadTally
from kubestow.solver.rules.residents import JoiningNodes


class _Counted:
    """A tally with its nodes.

    Attributes:
        mask: bool[N], nodes that count when they exist.
        fixed: int64[N], pods that stay; None if no node with such pods joins or leaves.
        nodes: int64[D], the number of existing nodes in each domain.
    """

    def __init__(self, tally: SpreadTally, fixed: Ints, come_and_go: Bools) -> None:
        self.tally, self.mask = tally, tally.eligible & (tally.codes >= 0)
        self.fixed = fixed if fixed[come_and_go].any() else None
        self.nodes: Ints = np.bincount(tally.codes[self.mask], minlength=tally.size).astype(np.int64)


class JoiningDomains(JoiningNodes):
    """Counts the domains that have an eligible node now, and the pods on existing nodes."""

    def __init__(self, rule: PodTopologySpread, come_and_go: Bools) -> None:
        self._tallies = [_Counted(tally, rule.cluster.fixed_count(tally.matcher, settled=True), come_and_go) for tally in rule.tallies]

    def count(self, changed: Ints, present: Bools, counts: Ints) -> None:
        for each in self._tallies:
            tally = each.tally
            for n in changed[each.mask[changed]].tolist():
                d = tally.codes[n]
                each.nodes[d] += 1 if present[n] else -1
                tally.counted[d] = each.nodes[d] > 0
            if each.fixed is not None:
                here = np.where(each.mask & present, tally.matches @ counts + each.fixed, 0)
                tally.counts[:] = domain_sum(tally.codes, tally.size, here)
