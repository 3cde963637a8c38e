"""NodeResourcesFit: requests against allocatable amounts, and the number of pods.

Source: pkg/scheduler/framework/plugins/noderesources/fit.go (fitsRequest).
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from math import gcd

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.rules.base import UNLIMITED_PODS, CapacityRule
from kubestow.solver.rules.batch_limits import UNLIMITED, BatchLimits
from kubestow.solver.rules.facts import CellModel, Leavers, Refusal
from kubestow.solver.rules.node_resources_fit.remedies import RequestRemedies
from kubestow.solver.rules.node_resources_fit.words import CapacityWords


class NodeResourcesFit(CapacityWords, RequestRemedies, CapacityRule):
    """A node accepts a pod if each requested resource fits into the free amount, and a pod slot is free."""

    name = "NodeResourcesFit"
    local = any_order = tracks_moves = for_good = True
    first_come = supplied = whole_units = settled = survives_merging = False
    reads = ()  # demands are an array of the cluster, not a field of a class
    reaches, concerned, order_links = CapacityRule.reaches, CapacityRule.concerned, CapacityRule.order_links

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.free = cluster.free.copy(order="F")  # column order, because reads are by resource over all nodes: two to three times as fast
        self.slots = cluster.slots.copy()
        self._asks = [np.flatnonzero(cluster.demand[g]) for g in range(cluster.n_classes)]

    def rejects(self, g: int) -> Bools:
        return self._full(g, self.free, self.slots)

    def _full(self, g: int, free: Ints, slots: Ints) -> Bools:
        full: Bools = slots < 1
        for r in self._asks[g].tolist():
            full |= free[:, r] < self.cluster.demand[g, r]
        return full

    def admits(self, g: int, n: int) -> bool:
        asks = self._asks[g]
        return bool(self.slots[n] >= 1 and (self.free[n, asks] >= self.cluster.demand[g, asks]).all())

    def refusals(self, g: int) -> list[Refusal]:
        """Return a reason for each resource that lacks, and one for pod slots (fit.go, fitsRequest)."""
        cluster, demand = self.cluster, self.cluster.demand[g]
        beyond = (demand > cluster.allocatable).any(axis=1)  # more than an empty node has
        found = [("Too many pods", self.slots < 1)]
        found += [(f"Insufficient {cluster.resources[r]}", self.free[:, r] < demand[r]) for r in self._asks[g].tolist()]
        return [Refusal(text, nodes, nodes & beyond) for text, nodes in found if nodes.any()]

    def alike(self, g: int) -> Hashable:
        asks: bytes = self.cluster.demand[g].tobytes()
        return asks

    def never(self, g: int) -> Bools:
        return self._full(g, self.cluster.free, self.cluster.slots)

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        return []  # the rows of the model cover it

    def room(self, g: int) -> Ints:
        asks = self._asks[g]
        room = np.minimum(self.slots, UNLIMITED_PODS)
        for r in asks:
            room = np.minimum(room, self.free[:, r] // self.cluster.demand[g, r])
        return np.maximum(room, 0)

    def place(self, g: int, n: int, k: int = 1) -> None:
        self.free[n] -= k * self.cluster.demand[g]
        self.slots[n] -= k

    def place_many(self, g: int, nodes: Ints, pods: Ints) -> None:
        self.free[nodes] -= pods[:, None] * self.cluster.demand[g]
        self.slots[nodes] -= pods

    def batch(self, g: int) -> BatchLimits:
        return UNLIMITED  # construction reads ``room``

    def repairable(self, g: int) -> bool:
        return True  # repair keeps the room of nodes itself

    def encode(self, encoding: PlacementModel) -> None:
        """Add Σ demand · x ≤ max(0, free) per node and resource, divided by the gcd of the demands. Rows that
        cannot bind are left out."""
        if not encoding.partial and not encoding.named:
            self._encode_least_loads(encoding)
        cluster = self.cluster
        for n in encoding.nodes():
            here = encoding.classes_on(n)
            variables = [encoding.x[g, n] for g in here]
            upper = [encoding.upper(g, n) for g in here]
            slots = max(0, int(self.slots[n]))
            if sum(upper) > slots:
                with encoding.about("pods", here, n):
                    encoding.model.add(encoding.sum(variables) <= slots)
            for r in range(len(cluster.resources)):
                demand = [int(cluster.demand[g, r]) for g in here]
                free = max(0, int(self.free[n, r]))
                if sum(d * u for d, u in zip(demand, upper, strict=True)) <= free:
                    continue
                unit = gcd(*demand)
                with encoding.about(cluster.resources[r], here, n):
                    encoding.model.add(encoding.weighted_sum(variables, [d // unit for d in demand]) <= free // unit)

    def encode_cells(self, model: CellModel) -> None:
        """Add Σ demand · (pods in the cell) ≤ room of the cell, per resource."""
        cluster, every = self.cluster, list(range(self.cluster.n_classes))
        for nodes, totals in model.totals():
            with model.about("pods", every, int(nodes[0])):
                model.model.add(model.sum(totals) <= int(np.maximum(self.slots[nodes], 0).sum()))
            for r, resource in enumerate(cluster.resources):
                divisor = gcd(*(int(d) for d in cluster.demand[:, r]))
                if divisor:
                    room = int((np.maximum(self.free[nodes, r], 0) // divisor).sum())
                    with model.about(resource, every, int(nodes[0])):
                        model.model.add(model.weighted_sum(totals, [int(d) // divisor for d in cluster.demand[:, r]]) <= room)

    def _encode_least_loads(self, encoding: PlacementModel) -> None:
        """Add redundant rows that make perfect packings tractable near full usage.

        The slack is the room of all nodes minus the total demand. No node has more free room than the slack,
        apart from the demand of unplaced pods. Room is counted in whole units of the gcd of the demands.
        """
        cluster = self.cluster
        for r in range(len(cluster.resources)):
            unit = gcd(*(int(d) for d in cluster.demand[:, r]))
            if not unit:
                continue
            demand = [int(d) // unit for d in cluster.demand[:, r]]
            room = [max(0, int(f)) // unit for f in cluster.free[:, r]]
            whole = sum(d * k for d, k in zip(demand, encoding.fits, strict=True))
            slack = sum(room) - whole
            if whole > 2**40 or not any(space > slack for space in room):
                continue
            missing = encoding.model.new_int_var(0, whole, "")
            encoding.model.add(encoding.weighted_sum([*encoding.unplaced.values()], [demand[g] for g in encoding.unplaced]) == missing)
            for n, space in enumerate(room):
                if space > slack:
                    here = encoding.classes_on(n)
                    load = encoding.weighted_sum([*(encoding.x[g, n] for g in here), missing], [*(demand[g] for g in here), 1])
                    encoding.model.add(load >= space - slack)

    def encode_leaving(self, encoding: PlacementModel, leavers: Leavers) -> None:
        """Encode as for all pods, except that rows of overcommitted nodes hold only if a newcomer requests the resource.

        An overcommitted node rejects newcomers that request the resource, but keeps its running pods.
        """
        free, slots = self.free, self.slots
        usage, heads = np.zeros_like(free), np.zeros_like(slots)
        for g, nodes in leavers.at.items():
            for n, pods in nodes.items():
                usage[n] += len(pods) * self.cluster.demand[g]
                heads[n] += len(pods)
        full, overfull = usage > np.maximum(free, 0), heads > np.maximum(slots, 0)
        self.free, self.slots = np.where(full, 2**62, free), np.where(overfull, 2**31, slots)
        self.encode(encoding)
        self.free, self.slots = free, slots
        own = leavers.own
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
            self._encode_least_gone(encoding, leavers, n, (free[n].tolist(), usage[n].tolist()))

    def _encode_least_gone(self, encoding: PlacementModel, leavers: Leavers, n: int, amounts: tuple[list[int], list[int]]) -> None:
        """Add redundant rows against fractional victims in the linear relaxation.

        The k largest candidates free a known amount. So each amount that pods of the question take requires a
        minimum number of victims. The row is the steepest line below these steps.

        Args:
            amounts: Free amounts of node n with all its candidates gone, and their usage, by resource.
        """
        free, usage = amounts
        own = [g for g in leavers.own if encoding.upper(g, n)]
        victims = [g for g in leavers.victims if n in leavers.at[g]]
        if not own or not victims:
            return
        stays = encoding.sum([encoding.x[g, n] for g in victims])
        count = sum(len(leavers.at[g][n]) for g in victims)
        for r in range(len(free)):
            demand = [int(self.cluster.demand[g, r]) for g in own]
            divisor = gcd(*demand)
            if not divisor:
                continue
            upper = sum(d * encoding.upper(g, n) for d, g in zip(demand, own, strict=True)) // divisor
            spare = max(0, free[r] - usage[r]) // divisor  # used without any victim
            sizes = sorted((int(self.cluster.demand[g, r]) for g in victims for _ in leavers.at[g][n]), reverse=True)
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

    def message(self, g: int, rejected: Bools) -> str:
        short = [
            f"{self.cluster.resources[r]} on {int(lack)}"
            for r in self._asks[g]
            if (lack := np.count_nonzero(rejected & (self.free[:, r] < self.cluster.demand[g, r])))
        ]
        full = int(np.count_nonzero(rejected & (self.slots < 1)))
        if full:
            short.append(f"pods on {full}")
        return f"insufficient {', '.join(short)}"
