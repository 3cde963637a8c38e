"""Proofs that no placement has so many pods, from sets of pods that fill one node.

Pods of some priority and above are to be placed, all but a few. What nodes have beyond their demand, in all, is what every single node
may leave unused at most: of any resource, and of any weighted sum of resources. Where that is little, few sets of pods (*patterns*) fill
a node so well, and often none of those has some pod that must be placed. Else the patterns are columns of a linear program
(:mod:`kubestow.solver.tight_packing.pattern_program`). All in integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.tight_packing.demands import Demands
from kubestow.solver.tight_packing.node_patterns import NodePatterns, NodeRoom
from kubestow.solver.tight_packing.pattern_program import PatternProgram

#: Sums of weighted resources stay below this power of two, or are not looked at.
_BITS = 60


@dataclass(frozen=True)
class FullNodesParameters:
    """How much is looked at.

    Attributes:
        patterns: Patterns that are listed at most in no time, ...
        listed: ... more of them, however long there is, and ...
        per_second: ... for each second; ...
        cells: ... and numbers of pods in them.
        waste: Times as many are looked at, of which some leave more of all resources together unused than can be spared.
        kinds: Kinds of nodes at most.
        largest: Pods that are asked about, one after the other, whether they are in any pattern.
        few: Patterns of few pods that are listed at most.
        nothing: Part of a node that counts as nothing: where more can be spared, large pods find company.
    """

    patterns: int = 4_000
    listed: int = 300_000
    per_second: int = 100_000
    cells: int = 16_000_000
    waste: int = 3
    kinds: int = 64
    largest: int = 4
    few: int = 20_000
    nothing: float = 1e-4


PARAMETERS = FullNodesParameters()


class FullNodes:
    """``demands``: of all pods that count for a tier; ``out``: how many of each priority may stay out at most (0 where it says nothing)."""

    def __init__(self, demands: Demands, out: dict[int, int], stopped: Callable[[], bool] = lambda: False) -> None:
        self.demands, self.out, self.stopped = demands, out, stopped
        self.may_stay_out: Bools = np.array([out.get(int(p), 0) > 0 for p in demands.priority], dtype=bool)
        self.weights = self._weights()
        self.spare = self._spare()
        self.kinds = demands.node_kinds()

    def _weights(self) -> Ints:
        """int64[W, R]: each resource alone, all together and in pairs, in parts of what there is of each."""
        total = [max(1, t) for t in self.demands.room.sum(axis=0).tolist()]
        size = len(total)
        parts = [max(total) // t for t in total]
        rows = [[int(i == r) for i in range(size)] for r in range(size)]
        mixed = [[1] * size, *([1 + (i == r) for i in range(size)] for r in range(size))]
        rows += [[a * b for a, b in zip(row, parts, strict=True)] for row in mixed if size > 1]
        wanted = (self.demands.demand * self.demands.count[:, None]).sum(axis=0).tolist()
        fine = [row for row in rows if sum(w * (t + d) for w, t, d in zip(row, total, wanted, strict=True)) < 2**_BITS]
        return np.array(fine, dtype=np.int64).reshape(len(fine), size)

    def _spare(self) -> Ints:
        """int64[W]: of each weighted sum, what is left unused in all at most, if the largest pods that may stay out do."""
        room = self.weights @ self.demands.room.sum(axis=0)
        each = self.weights @ self.demands.demand.T
        spare = room - each @ self.demands.count
        for p, most in self.out.items():
            members = np.flatnonzero(self.demands.priority == p)
            for w in range(len(spare)):
                sizes = np.sort(np.repeat(each[w, members], np.minimum(self.demands.count[members], most)))
                spare[w] += int(sizes[len(sizes) - min(most, len(sizes)) :].sum())
        return np.asarray(spare)

    @property
    def next_to_nothing(self) -> bool:
        """Return whether some pods must be placed, and next to nothing can be spared. Else there are many patterns of any kind."""
        room = self.demands.room
        share = (self.spare[: room.shape[1]] / np.maximum(room.max(axis=0, initial=1), 1)).min(initial=1.0)
        return not self.may_stay_out.all() and bool(share <= PARAMETERS.nothing) and len(self.kinds) <= PARAMETERS.kinds

    def impossible(self, cpsat: CpSat, seconds: float) -> bool:
        """Return whether the room of all nodes together refutes it, or that some pod is in no set that fills a node well enough."""
        if (self.spare < 0).any() or self._short(cpsat, seconds):
            return True
        return self.next_to_nothing and self._hopeless()

    def _short(self, cpsat: CpSat, seconds: float) -> bool:
        """Whether no choice of pods that stay out leaves room for the others, all nodes taken together: whole pods say more than the
        linear relaxation."""
        demands, model = self.demands, cp_model.CpModel()
        wanted, room = demands.count @ demands.demand, demands.room.sum(axis=0)
        if not (wanted > room).any():
            return False
        left = [model.new_int_var(0, int(c) if free else 0, "") for c, free in zip(demands.count, self.may_stay_out, strict=True)]
        for r in np.flatnonzero(wanted > room).tolist():
            unit = int(np.gcd.reduce(demands.demand[:, r]))
            less = cp_model.LinearExpr.weighted_sum(left, [int(d) // unit for d in demands.demand[:, r]])
            model.add(less >= -(-int(wanted[r] - room[r]) // unit))
        for p, most in self.out.items():
            model.add(cp_model.LinearExpr.sum([left[k] for k in np.flatnonzero(demands.priority == p)]) <= most)
        return cpsat.run(model, seconds, workers=1).status == cp_model.INFEASIBLE

    def _hopeless(self) -> bool:
        """Whether one of the largest pods that must be placed, by all resources together, is in no pattern."""
        demands = self.demands
        must = np.flatnonzero(~self.may_stay_out)
        for k in must[np.argsort(-demands.sizes[must], kind="stable")][: PARAMETERS.largest].tolist():
            company = self._company(k)
            if not company:
                return company is False
        return False

    def _company(self, k: int) -> bool | None:
        """Whether a pod of a class is in some pattern. None where there are too many sets of pods to say."""
        for nodes in self.kinds:
            if self.demands.allowed[k, nodes[0]] and (self.demands.demand[k] <= self.demands.room[nodes[0]]).all():
                exist = NodePatterns(self._node(int(nodes[0]), k), self.stopped).exist()
                if exist is not False:
                    return exist
        return False

    def crowded(self, cpsat: CpSat, seconds: float) -> bool:
        """Return whether too few nodes can have so few pods that the others need not have more than there are.

        Every node is to have one pod more than its share, rounded down. That is more than all pods: patterns of no more than the share have
        to make up for it. They are few, have pods in common, and leave more unused, all together, than can be spared. Where pods are much
        alike, or shares large, they are too many to list in some part of so many seconds.
        """
        demands, found = self.demands, list[Ints]()
        pods, size = int(demands.count.sum()), demands.room.shape[1]
        room = demands.room[:, int((self.spare[:size] / np.maximum(demands.room.sum(axis=0), 1)).argmin())]
        share = np.array([pods * int(room[nodes[0]]) // max(1, int(room.sum())) for nodes in self.kinds])
        for nodes, few in zip(self.kinds, share.tolist(), strict=True):
            patterns = NodePatterns(self._node(int(nodes[0])), self.stopped).of_few_pods(few, seconds)
            if patterns is None or sum(map(len, found)) + len(patterns) > PARAMETERS.few:
                return False
            found.append(patterns)
        kind, patterns = np.repeat(np.arange(len(found)), [len(p) for p in found]), np.concatenate(found)
        nodes_of = np.array([len(nodes) for nodes in self.kinds])
        unused = np.array([demands.room[nodes[0]] for nodes in self.kinds])[kind] - patterns @ demands.demand
        model = cp_model.CpModel()
        used = [model.new_int_var(0, int(n), "") for n in nodes_of[kind]]
        columns = [*(patterns.T), *unused.T, *(kind == k for k in range(len(found)))]
        for column, most in zip(columns, [*demands.count, *self.spare[:size], *nodes_of], strict=True):
            model.add(cp_model.LinearExpr.weighted_sum(used, column.astype(np.int64).tolist()) <= int(most))
        fewer = cp_model.LinearExpr.weighted_sum(used, (share[kind] + 1 - patterns.sum(axis=1)).tolist())
        model.add(fewer >= int(nodes_of @ (share + 1)) - pods)
        return cpsat.run(model, seconds, workers=1).status == cp_model.INFEASIBLE

    def patterns(self, seconds: float) -> list[Ints] | None:
        """Return int64[P, K] per kind of nodes: every set of pods that a node may have. None where they are too many to list in some part
        of so many seconds."""
        most = PARAMETERS.patterns + int(min(PARAMETERS.listed, PARAMETERS.per_second * seconds))
        found, left = [], min(most, PARAMETERS.cells // max(1, len(self.demands.classes)))
        for nodes in self.kinds if len(self.kinds) <= PARAMETERS.kinds else ():
            patterns = NodePatterns(self._node(int(nodes[0])), self.stopped).all(seconds, PARAMETERS.waste * left)
            if patterns is None:
                return None
            waste = self.weights @ self.demands.room[nodes[0]] - patterns @ self.demands.demand @ self.weights.T
            patterns = patterns[(waste <= self.spare).all(axis=1)]
            left -= len(patterns)
            if left < 0:
                return None
            found.append(patterns)
        return found or None

    def program(self, patterns: list[Ints]) -> tuple[PatternProgram, int]:
        """Return the linear program over all patterns, and how many pods of the lowest priority are asked for."""
        tier = min(self.out)
        wanted = int(self.demands.count[self.demands.priority == tier].sum()) - self.out[tier]
        return PatternProgram(self.demands, self.kinds, patterns, self.out), wanted

    def _node(self, node: int, having: int | None = None) -> NodeRoom:
        """A node and what may be on it, beside a pod of the class ``having``."""
        demands = self.demands
        room, count = demands.room[node].copy(), np.where(demands.allowed[:, node], demands.count, 0)
        if having is not None:
            room -= demands.demand[having]
            count[having] -= 1
        return NodeRoom(room, demands.demand, count, self.spare[: len(room)])
