"""Coarse model of a group of classes: nodes that are alike for the group are merged into one.

The model only decides how many pods of each class go to which kind of node. Merging drops rules of single nodes (hostname
keys) and pools room, so the optimum bounds that of the group. Dealt evenly over the nodes, the solution is a good
starting placement for the group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kubestow.models.cluster.cluster import Cluster, GangGroup, Ints, PodClass, single
from kubestow.solver import rules
from kubestow.solver.bounds.coarse_node_patterns import CoarseNodePatterns, MergedNodes
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.objective import encoding
from kubestow.solver.objective.domain_sums import DomainGraph
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.placement_model import build_model


class Coarse:
    """The coarse model of one group.

    Args:
        sub: Cluster restricted to the classes of the group.
        points: Points of a pod on single nodes, int64[classes, N].
        eligibility: int64[classes, N].
        kinds: Lists of alike nodes.
        unplaced: Per priority, pods that may stay unplaced.
    """

    def __init__(self, sub: Cluster, points: Ints, eligibility: Ints, kinds: Sequence[Ints], unplaced: dict[int, int]) -> None:
        self.sub, self.eligibility = sub, eligibility
        merged = replace(sub, classes=[_wide(sub, cls) for cls in sub.classes], gangs=[_wide_gang(sub, gang) for gang in sub.gangs])
        # True if the model omits hard rules of single nodes, which a dealt placement may then break.
        self.drops = any(
            cls.ports
            or (wide.anti, wide.affinity, wide.spread) != (cls.anti, cls.affinity, cls.spread)
            or (cls.gang is not None and merged.gangs[cls.gang] != sub.gangs[cls.gang])
            for cls, wide in zip(sub.classes, merged.classes, strict=True)
        )
        self._first = {int(kind[0]): kind for kind in kinds}
        fit = np.minimum(sub.count, eligibility.sum(axis=1)).tolist()
        cells = {}
        for g, row in enumerate(eligibility):
            caps = {n: min(int(row[kind].sum()), fit[g]) for n, kind in self._first.items()}
            nodes = sorted(n for n, cap in caps.items() if cap)
            cells[g] = np.array(nodes, dtype=np.int32), np.array([caps[n] for n in nodes], dtype=np.int64)
        active = rules.build(merged)
        coupling = [rule for rule in active if rule.survives_merging]
        self.encoding = build_model(merged, coupling, Cells(cells, dict(enumerate(fit))))
        self._capacity(sub)
        objective = Objective(merged, active)
        self.graphs: dict[str, list[DomainGraph]] = {}
        self.points = encoding.encode(self.encoding, objective, graphs=self.graphs)
        for (g, n), variable in self.encoding.x.items():
            self.points.add(variable, int(points[g, n] - objective.node_points(g)[n]), 0, self.encoding.upper(g, n))
        self._points = points
        self._patterns: CoarseNodePatterns | None = None
        self.encoding.hold(unplaced)
        self.encoding.model.maximize(self.points.expression())

    def add_patterns(self, objective: Objective, pools: Ints, max_variables: int) -> list[int]:
        """Add the effects on single nodes of pods that attract or repel each other.

        Args:
            objective: Objective of the group with all its terms.
            pools: int64[N], see :meth:`deal`.
            max_variables: Maximum number of variables of a part.

        Returns:
            The classes of the parts that would exceed ``max_variables`` variables and were left out.
        """
        self._patterns = CoarseNodePatterns(self.encoding, objective, self.eligibility, MergedNodes(self._first, pools), max_variables)
        self._patterns.encode(self.points)
        for key, graphs in self.graphs.items():
            self._patterns.join(key, graphs)
        self.encoding.model.maximize(self.points.expression())
        return self._patterns.omitted

    @property
    def size(self) -> int:
        """Number of variables of the model."""
        return len(self.encoding.model.proto.variables)

    def obeys(self, counts: Ints, solution: Sequence[int], pools: Ints) -> bool:
        """Return True if a placement has as many pods of each class in each pool as a solution of the model.

        Such a placement obeys the rules that the solution obeys.

        Args:
            counts: The placement, int64[classes, N].
            solution: Value of each variable of the model, by its index.
            pools: See :meth:`deal`.
        """
        differ = np.zeros((len(counts), int(pools.max()) + 1), dtype=np.int64)
        for g, n in zip(*np.nonzero(counts), strict=True):
            differ[g, pools[n]] += counts[g, n]
        for (g, n), k in self.encoding.placed(solution).items():
            differ[g, pools[n]] -= k
        return not differ.any()

    def _capacity(self, sub: Cluster) -> None:
        """Add the capacity rows: on the nodes of each kind together, pods need slots and resources within their total."""
        for n in self.encoding.nodes():
            kind = self._first[n]
            here = self.encoding.classes_on(n)
            variables = [self.encoding.x[g, n] for g in here]
            self.encoding.model.add(self.encoding.sum(variables) <= int(np.maximum(sub.slots[kind], 0).sum()))
            for r in range(len(sub.resources)):
                demand = [int(sub.demand[g, r]) for g in here]
                free = sum(np.maximum(sub.free[kind, r], 0).tolist())
                if sum(d * self.encoding.upper(g, n) for d, g in zip(demand, here, strict=True)) > free:
                    self.encoding.model.add(self.encoding.weighted_sum(variables, demand) <= free)

    def hint(self, counts: Ints) -> None:
        """Set the solver's starting point to a placement int64[classes, N], summed over alike nodes."""
        self.encoding.hint({(g, n): int(counts[g, self._first[n]].sum()) for g, n in self.encoding.x})

    def deal(self, solution: Sequence[int], pools: Ints) -> Ints:
        """Return a placement int64[classes, N] that deals the pods of each pool evenly over its nodes.

        Pods for which no node of their pool has room are left out. Classes with patterns are dealt by their patterns.

        Args:
            solution: Value of each variable of the model, by its index.
            pools: Pool of each node, int64[N]. Nodes of a pool differ for the group only in eligibility and room.
        """
        counts = np.zeros_like(self.eligibility)
        placed = np.zeros(self.eligibility.shape[1], dtype=np.int64)
        free = np.maximum(self.sub.free, 0)
        patterned: set[int] = set()
        if self._patterns is not None:
            counts = self._patterns.deal(solution, self._points, placed, free)
            patterned = {g for part in self._patterns.parts if part.alike is not None for g in part.classes}
        wanted: dict[tuple[int, int], int] = {}
        for (g, n), k in self.encoding.placed(solution).items():
            if g in patterned:
                continue
            wanted[g, int(pools[n])] = wanted.get((g, int(pools[n])), 0) + k
        for (g, pool), k in sorted(wanted.items(), key=lambda item: -int(self.sub.demand[item[0][0]].max(initial=0))):
            nodes, demand, remaining = np.flatnonzero(pools == pool), self.sub.demand[g], k
            while remaining > 0:
                room = (free[nodes] >= demand).all(axis=1) & (placed[nodes] < self.sub.slots[nodes])
                open_ = nodes[(counts[g, nodes] < self.eligibility[g, nodes]) & room]
                if not len(open_):
                    break
                chosen = open_[np.argsort(placed[open_], kind="stable")[:remaining]]
                counts[g, chosen] += 1
                placed[chosen] += 1
                free[chosen] -= demand
                remaining -= len(chosen)
        return counts


def _wide(sub: Cluster, cls: PodClass) -> PodClass:
    """Return the class without the rules and preferences whose domains are single nodes."""

    def wide(key: str) -> bool:
        return not single(*sub.domains(key))

    return replace(
        cls,
        anti=tuple(t for t in cls.anti if wide(t.key)),
        affinity=cls.affinity if cls.affinity is None or all(wide(k) for k in cls.affinity.keys) else None,
        spread=tuple(s for s in cls.spread if wide(s.key)),
        pulls=tuple(p for p in cls.pulls if wide(p.key)),
        soft_spread=tuple(s for s in cls.soft_spread if wide(s.key)),
    )


def _wide_gang(sub: Cluster, gang: GangGroup) -> GangGroup:
    """Return the gang without a required topology whose domains are single nodes."""
    return replace(gang, key=None, home=()) if gang.key is not None and single(*sub.domains(gang.key)) else gang
