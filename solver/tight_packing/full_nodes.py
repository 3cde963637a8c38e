"""Proofs that no placement reaches a number of pods, from the sets of pods (*patterns*) that can fill one node.

No node may leave more unused than the slack of all nodes. All arithmetic is in integers. See
docs/algorithms/tight-packing.md (The slack of a target)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.linear_sum import MAX_SUM
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.ortools import cp_model
from kubestow.solver.tight_packing.demands import PackingDemands
from kubestow.solver.tight_packing.node_patterns import NodePatterns, NodeRoom
from kubestow.solver.tight_packing.pattern_program import PatternProgram


@dataclass(frozen=True)
class FullNodesParameters:
    """Limits on listing patterns.

    Attributes:
        min_patterns: Patterns listed regardless of the time.
        max_patterns: Further patterns listed, given enough time.
        patterns_per_second: Further patterns listed per second.
        max_cells: Numbers of pods stored in all patterns.
        raw_ratio: Patterns examined per pattern kept. Patterns that waste too much of a weighted sum are dropped.
        max_kinds: Kinds of nodes.
        checked_classes: Classes with the largest pods that are checked for membership in any pattern.
        max_few_pod_patterns: Patterns of few pods.
        negligible_fraction: Fraction of a node that counts as no slack. With more slack, large pods always find company.
    """

    min_patterns: int = 4_000
    max_patterns: int = 300_000
    patterns_per_second: int = 100_000
    max_cells: int = 16_000_000
    raw_ratio: int = 3
    max_kinds: int = 64
    checked_classes: int = 4
    max_few_pod_patterns: int = 20_000
    negligible_fraction: float = 1e-4


PARAMETERS = FullNodesParameters()


class FullNodes:
    """Proofs for one tier.

    Args:
        demands: Demands of all pods that count for the tier.
        out: Pods of each priority that may stay out (0 if not named).
        stopped: Returns True to end listing early.
    """

    def __init__(self, demands: PackingDemands, out: dict[int, int], stopped: Callable[[], bool] = lambda: False) -> None:
        self.demands, self.out, self.stopped = demands, out, stopped
        self.may_stay_out: Bools = np.array([out.get(int(p), 0) > 0 for p in demands.priority], dtype=bool)
        self.weights = self._weights()
        self.spare = self._spare()
        self.kinds = demands.node_kinds()

    def _weights(self) -> Ints:
        """Return int64[W, R]: weights of each resource alone, of all together, and of all with one doubled, relative to capacity."""
        total = [max(1, t) for t in self.demands.room.sum(axis=0).tolist()]
        size = len(total)
        parts = [max(total) // t for t in total]
        rows = [[int(i == r) for i in range(size)] for r in range(size)]
        mixed = [[1] * size, *([1 + (i == r) for i in range(size)] for r in range(size))]
        rows += [[a * b for a, b in zip(row, parts, strict=True)] for row in mixed if size > 1]
        wanted = (self.demands.demand * self.demands.count[:, None]).sum(axis=0).tolist()
        fine = [
            row for row in rows if sum(w * (t + d) for w, t, d in zip(row, total, wanted, strict=True)) < MAX_SUM
        ]  # larger sums could overflow
        return np.array(fine, dtype=np.int64).reshape(len(fine), size)

    def _spare(self) -> Ints:
        """Return int64[W]: the slack of each weighted sum if the largest pods that may stay out do so."""
        room = self.weights @ self.demands.room.sum(axis=0)
        each = self.weights @ self.demands.demand.T
        spare = room - each @ self.demands.count
        for p, limit in self.out.items():
            members = np.flatnonzero(self.demands.priority == p)
            for w in range(len(spare)):
                sizes = np.sort(np.repeat(each[w, members], np.minimum(self.demands.count[members], limit)))
                spare[w] += int(sizes[len(sizes) - min(limit, len(sizes)) :].sum())
        return np.asarray(spare)

    @property
    def next_to_nothing(self) -> bool:
        """True if some pods must be placed and the slack is negligible. Otherwise there are too many patterns."""
        room = self.demands.room
        share = (self.spare[: room.shape[1]] / np.maximum(room.max(axis=0, initial=1), 1)).min(initial=1.0)
        return not self.may_stay_out.all() and bool(share <= PARAMETERS.negligible_fraction) and len(self.kinds) <= PARAMETERS.max_kinds

    def impossible(self, cpsat: CpSat, seconds: float) -> bool:
        """Return whether total capacity refutes the pod count, or some required pod is in no pattern."""
        if (self.spare < 0).any() or self._short(cpsat, seconds):
            return True
        return self.next_to_nothing and self._hopeless()

    def _short(self, cpsat: CpSat, seconds: float) -> bool:
        """Return whether total capacity is too small for every choice of pods that stay out.

        Counting whole pods is tighter than the linear relaxation."""
        demands, model = self.demands, cp_model.CpModel()
        wanted, room = demands.count @ demands.demand, demands.room.sum(axis=0)
        if not (wanted > room).any():
            return False
        unplaced = [model.new_int_var(0, int(c) if free else 0, "") for c, free in zip(demands.count, self.may_stay_out, strict=True)]
        for r in np.flatnonzero(wanted > room).tolist():
            unit = int(np.gcd.reduce(demands.demand[:, r]))
            less = cp_model.LinearExpr.weighted_sum(unplaced, [int(d) // unit for d in demands.demand[:, r]])
            model.add(less >= -(-int(wanted[r] - room[r]) // unit))
        for p, limit in self.out.items():
            model.add(cp_model.LinearExpr.sum([unplaced[k] for k in np.flatnonzero(demands.priority == p)]) <= limit)
        return cpsat.run(model, seconds).status == cp_model.INFEASIBLE

    def _hopeless(self) -> bool:
        """Return whether one of the largest required pods is in no pattern."""
        demands = self.demands
        must = np.flatnonzero(~self.may_stay_out)
        for k in must[np.argsort(-demands.sizes[must], kind="stable")][: PARAMETERS.checked_classes].tolist():
            company = self._company(k)
            if not company:
                return company is False
        return False

    def _company(self, k: int) -> bool | None:
        """Return whether some pattern contains a pod of class k. None if there are too many sets to decide."""
        for nodes in self.kinds:
            if self.demands.allowed[k, nodes[0]] and (self.demands.demand[k] <= self.demands.room[nodes[0]]).all():
                exist = NodePatterns(self._node(int(nodes[0]), k), self.stopped).exist()
                if exist is not False:
                    return exist
        return False

    def crowded(self, cpsat: CpSat, seconds: float) -> bool:
        """Return whether patterns of few pods prove the pod count impossible.

        If every node held one pod more than its share, rounded down, the total would exceed all pods. So enough nodes
        must hold patterns of at most their share. Such patterns are few, compete for the same pods, and together waste
        more than the slack. If pods are similar or shares are large, there may be too many of these patterns to list;
        then return False."""
        demands, listed = self.demands, list[Ints]()
        pods, size = int(demands.count.sum()), demands.room.shape[1]
        room = demands.room[:, int((self.spare[:size] / np.maximum(demands.room.sum(axis=0), 1)).argmin())]
        shares = np.array([pods * int(room[nodes[0]]) // max(1, int(room.sum())) for nodes in self.kinds])
        for nodes, share in zip(self.kinds, shares.tolist(), strict=True):
            patterns = NodePatterns(self._node(int(nodes[0])), self.stopped).of_few_pods(share, seconds)
            if patterns is None or sum(map(len, listed)) + len(patterns) > PARAMETERS.max_few_pod_patterns:
                return False
            listed.append(patterns)
        kind, patterns = np.repeat(np.arange(len(listed)), [len(p) for p in listed]), np.concatenate(listed)
        nodes_of = np.array([len(nodes) for nodes in self.kinds])
        unused = np.array([demands.room[nodes[0]] for nodes in self.kinds])[kind] - patterns @ demands.demand
        model = cp_model.CpModel()
        used = [model.new_int_var(0, int(n), "") for n in nodes_of[kind]]
        columns = [*(patterns.T), *unused.T, *(kind == k for k in range(len(listed)))]
        for column, limit in zip(columns, [*demands.count, *self.spare[:size], *nodes_of], strict=True):
            model.add(cp_model.LinearExpr.weighted_sum(used, column.astype(np.int64).tolist()) <= int(limit))
        fewer = cp_model.LinearExpr.weighted_sum(used, (shares[kind] + 1 - patterns.sum(axis=1)).tolist())
        model.add(fewer >= int(nodes_of @ (shares + 1)) - pods)
        return cpsat.run(model, seconds).status == cp_model.INFEASIBLE

    def patterns(self, seconds: float) -> list[Ints] | None:
        """Return all patterns of a node of each kind, int64[P, K] per kind.

        Return None if there are too many kinds of nodes, or too many patterns to list in ``seconds``.
        """
        limit = PARAMETERS.min_patterns + int(min(PARAMETERS.max_patterns, PARAMETERS.patterns_per_second * seconds))
        listed, remaining = [], min(limit, PARAMETERS.max_cells // max(1, len(self.demands.classes)))
        for nodes in self.kinds if len(self.kinds) <= PARAMETERS.max_kinds else ():
            patterns = NodePatterns(self._node(int(nodes[0])), self.stopped).all(seconds, PARAMETERS.raw_ratio * remaining)
            if patterns is None:
                return None
            waste = self.weights @ self.demands.room[nodes[0]] - patterns @ self.demands.demand @ self.weights.T
            patterns = patterns[(waste <= self.spare).all(axis=1)]
            remaining -= len(patterns)
            if remaining < 0:
                return None
            listed.append(patterns)
        return listed or None

    def program(self, patterns: list[Ints]) -> tuple[PatternProgram, int]:
        """Return the linear program over all patterns, and the number of pods of the lowest priority that must be placed.

        Args:
            patterns: Result of :meth:`patterns`.
        """
        tier = min(self.out)
        wanted = int(self.demands.count[self.demands.priority == tier].sum()) - self.out[tier]
        return PatternProgram(self.demands, self.kinds, patterns, self.out), wanted

    def _node(self, node: int, having: int | None = None) -> NodeRoom:
        """Return the residual room of a node, and the pods that it may hold.

        Args:
            having: Class of a pod that is on the node already. Its demand is taken off the room, and one pod of the class off the
                candidates. None for the empty node.
        """
        demands = self.demands
        room, count = demands.room[node].copy(), np.where(demands.allowed[:, node], demands.count, 0)
        if having is not None:
            room -= demands.demand[having]
            count[having] -= 1
        return NodeRoom(room, demands.demand, count, self.spare[: len(room)])
