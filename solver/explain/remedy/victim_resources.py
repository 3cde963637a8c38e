"""Resources of nodes that running pods may leave: running pods keep their usage, and newcomers need the remainder."""

from __future__ import annotations

from fractions import Fraction
from math import gcd

import numpy as np

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.explain.remedy.victims import EvictionProblem
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit


class VictimFit(NodeResourcesFit):
    """NodeResourcesFit for nodes that may be overcommitted: this rejects newcomers that request the resource, not running pods."""

    def __init__(self, cluster: Cluster, problem: EvictionProblem) -> None:
        super().__init__(cluster)
        self._problem = problem

    def encode(self, encoding: PlacementModel) -> None:
        """Encode as for all pods, except that rows of overcommitted nodes hold only if a newcomer requests the resource."""
        free, slots = self.free, self.slots
        usage, heads = np.zeros_like(free), np.zeros_like(slots)
        for g, nodes in self._problem.at.items():
            for n, pods in nodes.items():
                usage[n] += len(pods) * self.cluster.demand[g]
                heads[n] += len(pods)
        full, overfull = usage > np.maximum(free, 0), heads > np.maximum(slots, 0)
        self.free, self.slots = np.where(full, 2**62, free), np.where(overfull, 2**31, slots)
        super().encode(encoding)
        self.free, self.slots = free, slots
        own = self._problem.own
        for n, r in zip(*(a.tolist() for a in np.nonzero(full)), strict=True):
            here = encoding.classes_on(n)
            asking = encoding.any_of(encoding.cells([g for g in own if self.cluster.demand[g, r]], [n]))
            if asking is not None:
                load = encoding.weighted_sum([encoding.x[g, n] for g in here], [int(self.cluster.demand[g, r]) for g in here])
                encoding.model.add(load <= int(free[n, r])).only_enforce_if(asking)
        for n in np.flatnonzero(overfull).tolist():
            arriving = encoding.any_of(encoding.cells(own, [n]))
            if arriving is not None:
                encoding.model.add(encoding.sum(encoding.cells(encoding.classes_on(n), [n])) <= int(slots[n])).only_enforce_if(arriving)
        for n in encoding.nodes():
            self._encode_least_gone(encoding, n, free[n].tolist(), usage[n].tolist())

    def _encode_least_gone(self, encoding: PlacementModel, n: int, free: list[int], usage: list[int]) -> None:
        """Add redundant rows against fractional victims in the linear relaxation.

        The k largest candidates free a known amount. So each amount that pods of the question take requires a
        minimum number of victims. The row is the steepest line below these steps.
        """
        own = [g for g in self._problem.own if encoding.upper(g, n)]
        victims = [g for g in self._problem.victims if n in self._problem.at[g]]
        if not own or not victims:
            return
        stays = encoding.sum([encoding.x[g, n] for g in victims])
        count = sum(len(self._problem.at[g][n]) for g in victims)
        for r in range(len(free)):
            demand = [int(self.cluster.demand[g, r]) for g in own]
            divisor = gcd(*demand)
            if not divisor:
                continue
            upper = sum(d * encoding.upper(g, n) for d, g in zip(demand, own, strict=True)) // divisor
            spare = max(0, free[r] - usage[r]) // divisor  # used without any victim
            sizes = sorted((int(self.cluster.demand[g, r]) for g in victims for _ in self._problem.at[g][n]), reverse=True)
            room, steps = free[r] - usage[r], []
            for k, size in enumerate(sizes, 1):
                room += size
                steps.append((k, min(upper, room // divisor) - spare))
            steps = [(k, reached) for k, reached in steps if reached > 0]
            if not steps:
                continue
            k, reached = min(steps, key=lambda step: (Fraction(*step), step))
            requested = encoding.weighted_sum([encoding.x[g, n] for g in own], [d // divisor for d in demand])
            encoding.model.add(reached * (count - stays) >= k * (requested - spare))
