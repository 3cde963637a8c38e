"""The nodes that can be free at once, as a linear program: staying pods must fit on the nodes that are not free.

Nodes have the same *kind* if the same classes can run there. Pods have the same *group* if the same kinds
accept them and their requests are equal. The only other constraint is the most pods of a class per node. So
every end state is a point of the program. Its bounds are exact
(:mod:`kubestow.solver.bounds.safe_dual_bounds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.cluster.partition import equivalence
from kubestow.models.kube.selectors import Bools
from kubestow.solver.bounds.safe_dual_bounds import Program, best_bound, best_point
from kubestow.solver.rebalance.problem.problem import RebalanceProblem

#: (group, kind) pairs beyond which all nodes are treated as one kind.
MAX_PAIRS = 60_000
#: Number of classes with rows of their own: those that need the most nodes because a node holds few of their
#: pods.
MAX_SPARSE_CLASSES = 64
#: Fewest nodes that such a class needs.
MIN_SPARSE_NODES = 8
#: Percent of the capacity assumed usable when nodes are chosen. Whole pods and unmodelled rules leave some
#: unused.
USABLE_PERCENT = 96
#: Moves that saving one wave may cost.
WAVE_COST_MOVES = 3
#: Upper bound on the number of waves.
MAX_WAVES = 2**20
#: A resource whose total capacity in a kind reaches this is left out.
UNBOUNDED_CAPACITY = 2**62


@dataclass
class _Nonzeros:
    """Rows under construction."""

    rows: list[Ints]
    columns: list[Ints]
    values: list[Ints]
    limit: list[int]

    def add(self, columns: Ints, values: Ints, limit: int) -> None:
        some = np.flatnonzero(values)
        if len(some):
            self.rows.append(np.full(len(some), len(self.limit), dtype=np.int64))
            self.columns.append(columns[some])
            self.values.append(values[some])
            self.limit.append(limit)

    def program(self, upper: Ints) -> Program:
        none = [np.zeros(0, dtype=np.int64)]
        rows, columns, values = (np.concatenate(entry or none) for entry in (self.rows, self.columns, self.values))
        return Program(rows, columns, values, np.array(self.limit, dtype=np.int64), upper)


class FreedNodesProgram:
    """The linear program of nodes that can be free at once.

    Attributes:
        nodes: Nodes that consolidation may free, ascending. Column j is the freed fraction of ``nodes[j]``.

    Args:
        room: The most pods of each class that a node can ever hold, int64[G, N].
    """

    def __init__(self, problem: RebalanceProblem, room: Ints) -> None:
        self.problem = problem
        self.nodes = np.flatnonzero(problem.freeable)
        staying = np.flatnonzero(problem.movable & ~problem.evictable & problem.start.any(axis=1))
        upper = np.maximum(room[staying], problem.start[staying])
        kind = self._kinds(upper > 0)
        size = int(kind.max(initial=-1)) + 1
        takes = np.zeros((len(staying), size), dtype=bool)
        for k in range(size):
            takes[:, k] = (upper[:, kind == k] > 0).any(axis=1)
        count = problem.start[staying].sum(axis=1)
        sparse = _sparse(count, upper)
        kept = np.concatenate([takes, problem.cluster.demand[staying], np.zeros((len(staying), 1), dtype=np.int64)], axis=1)
        kept[sparse, -1] = sparse + 1
        same = equivalence(kept)
        if len(same) * size > MAX_PAIRS:
            kind, size, takes = np.zeros_like(kind), 1, np.ones((len(staying), 1), dtype=bool)
            same = equivalence(kept[:, -1 - problem.cluster.demand.shape[1] :])
        total = np.bincount(same.of, weights=count, minlength=len(same)).astype(np.int64)
        self._build(kind, size, total, takes[same.firsts], problem.cluster.demand[staying[same.firsts]])
        self._limit_sparse(kind, same.of, sparse, upper)

    def _kinds(self, takes: Bools) -> Ints:
        """Return the kind of each node, int64[N]. Nodes to be drained keep their pods and are one kind.

        Args:
            takes: Nodes that accept each class, bool[C, N].
        """
        open_ = np.flatnonzero(~self.problem.closed)
        same = equivalence(takes[:, open_].T)
        kind = np.full(takes.shape[1], len(same), dtype=np.int64)
        kind[open_] = same.of
        return kind

    def _rooms(self) -> Ints:
        """Return the capacity for movable pods, int64[N, R + 1]; the last column is pod slots."""
        problem, cluster = self.problem, self.problem.cluster
        fixed = problem.start[~(problem.movable | problem.pending)]
        fixed_load = fixed.T @ cluster.demand[~(problem.movable | problem.pending)]
        # an overcommitted node keeps its load
        room = np.maximum(problem.room, problem.start.T @ cluster.demand) - fixed_load
        slots = np.maximum(cluster.slots, problem.start.sum(axis=0)) - fixed.sum(axis=0)
        return np.concatenate([room, slots[:, None]], axis=1)

    def _build(self, kind: Ints, size: int, total: Ints, takes: Bools, demand: Ints) -> None:
        """Build the program.

        Columns are nodes, the number of free nodes of each kind, and (group, kind) pairs. Rows are the capacity
        of each kind and the pods of each group.
        """
        self._group, self._kind = np.nonzero(takes)
        self._pairs = len(self.nodes) + size + np.arange(len(self._group))
        self.upper = np.concatenate(
            [np.ones(len(self.nodes), dtype=np.int64), np.bincount(kind, minlength=size), total[self._group]]
        )  # fmt: skip
        self._rows = _Nonzeros([], [], [], [])
        self._rooms_at: list[int] = []  # indices of the rows of capacity
        every = np.arange(len(self.nodes))
        rooms = self._rooms()
        asks = np.concatenate([demand, np.ones((len(total), 1), dtype=np.int64)], axis=1)
        for k in range(size):
            inside, here, pairs = kind == k, kind[self.nodes] == k, self._kind == k
            for r in range(rooms.shape[1]):
                columns = np.concatenate([self._pairs[pairs], every[here]])
                values = np.concatenate([asks[self._group[pairs], r], rooms[self.nodes[here], r]])
                limit = sum(rooms[inside, r].tolist())  # Python integers, which do not overflow
                if limit < UNBOUNDED_CAPACITY and asks[self._group[pairs], r].any():
                    self._rooms_at.append(len(self._rows.limit))
                    self._rows.add(columns, values, limit)
            freed = np.append(every[here], len(self.nodes) + k)
            self._rows.add(freed, np.append(np.ones(len(freed) - 1, dtype=np.int64), -1), 0)
        for q in range(len(total)):
            columns = self._pairs[self._group == q]
            self._rows.add(columns, np.full(len(columns), -1, dtype=np.int64), -int(total[q]))
        for b, pods in self._guarded():
            max_evictions = self.problem.eviction_limits.get(b)
            if max_evictions is not None and int(pods.sum()) > max_evictions:  # all these pods leave within the wave limit
                self._rows.add(every, pods, max_evictions)

    def _limit_sparse(self, kind: Ints, group: Ints, sparse: Ints, upper: Ints) -> None:
        """Limit the pods of a class on nodes of a kind by the capacity of those that are not free."""
        for i in sparse.tolist():
            for j in np.flatnonzero(self._group == group[i]).tolist():
                inside = kind == self._kind[j]
                each = int(upper[i, inside].max())
                columns = np.array([self._pairs[j], len(self.nodes) + int(self._kind[j])])
                self._rows.add(columns, np.array([1, each]), each * int(np.count_nonzero(inside)))

    # --- bounds -----------------------------------------------------------------------------------------------
    # -------------------------

    def _objective(self, values: Ints, size: int) -> Ints:
        return np.append(values, np.zeros(size - len(values), dtype=np.int64))

    def _with(self, rows: Sequence[tuple[Ints, Ints, int]], upper: Ints) -> Program:
        every = _Nonzeros(list(self._rows.rows), list(self._rows.columns), list(self._rows.values), list(self._rows.limit))
        for row in rows:
            every.add(*row)
        return every.program(upper)

    def max_value(self, node_value: Ints) -> int:
        """Return an upper bound on the total value of free nodes.

        Args:
            node_value: Value of each node, int64[N].
        """
        objective = self._objective(node_value[self.nodes], len(self.upper))
        return best_bound(self._with([], self.upper), objective, seconds=None, deterministic=True)

    def least_cost(self, node_value: Ints, enough: int, cost: Ints) -> int:
        """Return a lower bound on the cost of emptying nodes with a total value of at least ``enough``.

        Args:
            node_value: Value of each node, int64[N].
            cost: Cost of emptying each node, int64[N].
        """
        row = (np.arange(len(self.nodes)), -node_value[self.nodes], -enough)
        objective = self._objective(-cost[self.nodes], len(self.upper))
        return -best_bound(self._with([row], self.upper), objective, seconds=None, deterministic=True)

    # --- a choice of nodes ----------------------------------------------------------------------------------------------------

    def chosen(self, node_value: Ints, cost: Ints) -> Bools | None:
        """Return a promising set of nodes to free, bool[N]; None if the program has no solution.

        It has the largest value among nodes that can be free at once, then few moves and few waves for the
        PodDisruptionBudgets. The set need not be achievable.

        Args:
            node_value: Value of each node, int64[N].
            cost: Cost of emptying each node, int64[N].
        """
        rows = self._filled()
        objective = self._objective(node_value[self.nodes], len(self.upper))
        point = best_point(rows.program(self.upper), objective)
        if point is None:
            return None
        every, waves = np.arange(len(self.nodes)), len(self.upper)
        rows.add(every, -node_value[self.nodes], -int(point[every] @ node_value[self.nodes]))
        for b, pods in self._guarded():
            rows.add(np.append(every, waves), np.append(pods, -self.problem.budgets[b].allowed), 0)
        upper = np.append(self.upper, MAX_WAVES)
        objective = np.append(self._objective(-cost[self.nodes], waves), -WAVE_COST_MOVES)
        better = best_point(rows.program(upper), objective)
        found = np.zeros(self.problem.cluster.n_nodes, dtype=bool)
        found[self.nodes[(point if better is None else better)[every] > 0.5]] = True
        return found

    def _filled(self) -> _Nonzeros:
        """Return the rows with the capacity reduced by the part that whole pods are expected to leave unused."""
        program = _Nonzeros(list(self._rows.rows), list(self._rows.columns), list(self._rows.values), list(self._rows.limit))
        for row in self._rooms_at:
            values, nodes = program.values[row].copy(), program.columns[row] < len(self.nodes)
            values[nodes] = values[nodes] * USABLE_PERCENT // 100
            program.values[row], program.limit[row] = values, program.limit[row] * USABLE_PERCENT // 100
        return program

    def _guarded(self) -> Iterator[tuple[int, Ints]]:
        """Yield each budget with its pods that may leave each node, except budgets that one wave satisfies."""
        problem = self.problem
        for b, budget in enumerate(problem.budgets):
            classes = np.flatnonzero((problem.guarded == b) & problem.movable)
            pods = problem.start[np.ix_(classes, self.nodes)].sum(axis=0)
            if budget.allowed and int(pods.sum()) > budget.allowed:
                yield b, pods


def _sparse(count: Ints, upper: Ints) -> Ints:
    """Return the indices of classes that need many nodes because each node holds few of their pods.

    Args:
        upper: The most pods of each class per node, int64[C, N].
    """
    wanted = count // np.maximum(upper.max(axis=1, initial=1), 1)
    order = np.argsort(-wanted, kind="stable")[:MAX_SPARSE_CLASSES]
    return np.sort(order[wanted[order] >= MIN_SPARSE_NODES])
