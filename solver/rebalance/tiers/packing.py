"""Which nodes can be free at once, as a linear program: what stays has to fit on the nodes that are not free, kind by kind of node.

Nodes are of one *kind* where the same classes can be; pods are of one *group* where the same kinds take them and they ask for the same. The
program knows no other rules but that a node takes at most so many pods of a class, so that every end state is a point of it. Its bounds are
exact (:mod:`kubestow.solver.bounds.safe_dual_bounds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.bounds.safe_dual_bounds import Program, best_bound, best_point
from kubestow.solver.rebalance.problem.problem import RebalanceProblem

#: Above so many (group, kind) pairs all nodes are taken for one kind.
PAIRS = 60_000
#: Classes of which a node takes few pods have rows of their own: those that need most nodes, so many of them, and no fewer nodes than this.
SPARSE = 64
SPARSE_NODES = 8
#: Percent of the room that is counted on when nodes are chosen: whole pods leave some of it over, and so do rules that are not known here.
FULL = 96
#: Moves that one wave less may cost, and the most waves that are reckoned with.
WAVE = 3
MOST_WAVES = 2**20
#: Where all nodes of a kind have so much room of a resource, it is left out.
LARGEST = 2**62


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


class Packing:
    """``nodes``: those that consolidation may free, ascending; column j says how far ``nodes[j]`` is free, from 0 to 1. ``room``:
    int64[G, N], the most pods of each class that a node can come to hold."""

    def __init__(self, problem: RebalanceProblem, room: Ints) -> None:
        self.problem = problem
        self.nodes = np.flatnonzero(problem.freeable)
        staying = np.flatnonzero(problem.movable & ~problem.evictable & problem.start.any(axis=1))
        most = np.maximum(room[staying], problem.start[staying])
        kind = self._kinds(most > 0)
        size = int(kind.max(initial=-1)) + 1
        takes = np.zeros((len(staying), size), dtype=bool)
        for k in range(size):
            takes[:, k] = (most[:, kind == k] > 0).any(axis=1)
        count = problem.start[staying].sum(axis=1)
        sparse = _sparse(count, most)
        kept = np.concatenate([takes, problem.cluster.demand[staying], np.zeros((len(staying), 1), dtype=np.int64)], axis=1)
        kept[sparse, -1] = sparse + 1
        rows, first, group = np.unique(kept, axis=0, return_index=True, return_inverse=True)
        if len(rows) * size > PAIRS:
            kind, size, takes = np.zeros_like(kind), 1, np.ones((len(staying), 1), dtype=bool)
            rows, first, group = np.unique(kept[:, -1 - problem.cluster.demand.shape[1] :], axis=0, return_index=True, return_inverse=True)
        total = np.bincount(group.reshape(-1), weights=count, minlength=len(rows)).astype(np.int64)
        self._build(kind, size, total, takes[first], problem.cluster.demand[staying[first]])
        self._limit_sparse(kind, group.reshape(-1), sparse, most)

    def _kinds(self, takes: Bools) -> Ints:
        """Return int64[N], the kind of each node; ``takes``: bool[C, N]. Nodes to be drained, which keep what they have, are one kind."""
        open_ = np.flatnonzero(~self.problem.closed)
        found = np.unique(np.packbits(takes[:, open_], axis=0).T, axis=0, return_inverse=True)[1].reshape(-1)
        kind = np.full(takes.shape[1], int(found.max(initial=-1)) + 1, dtype=np.int64)
        kind[open_] = found
        return kind

    def _rooms(self) -> Ints:
        """int64[N, R + 1]: what all pods together that may move can take of each resource and of the pod slots."""
        problem, cluster = self.problem, self.problem.cluster
        fixed = problem.start[~(problem.movable | problem.pending)]
        held = fixed.T @ cluster.demand[~(problem.movable | problem.pending)]
        # an overcommitted node keeps what it has
        room = np.maximum(problem.room, problem.start.T @ cluster.demand) - held
        slots = np.maximum(cluster.slots, problem.start.sum(axis=0)) - fixed.sum(axis=0)
        return np.concatenate([room, slots[:, None]], axis=1)

    def _build(self, kind: Ints, size: int, total: Ints, takes: Bools, demand: Ints) -> None:
        """Columns: nodes; free nodes of each kind; (group, kind) pairs. Rows: room of each kind, pods of each group."""
        self._group, self._kind = np.nonzero(takes)
        self._pairs = len(self.nodes) + size + np.arange(len(self._group))
        self.upper = np.concatenate(
            [np.ones(len(self.nodes), dtype=np.int64), np.bincount(kind, minlength=size), total[self._group]]
        )  # fmt: skip
        self._rows = _Nonzeros([], [], [], [])
        self._rooms_at: list[int] = []  # rows
        every = np.arange(len(self.nodes))
        rooms = self._rooms()
        asks = np.concatenate([demand, np.ones((len(total), 1), dtype=np.int64)], axis=1)
        for k in range(size):
            inside, here, pairs = kind == k, kind[self.nodes] == k, self._kind == k
            for r in range(rooms.shape[1]):
                columns = np.concatenate([self._pairs[pairs], every[here]])
                values = np.concatenate([asks[self._group[pairs], r], rooms[self.nodes[here], r]])
                limit = sum(rooms[inside, r].tolist())  # in Python's integers, which do not overflow
                if limit < LARGEST and asks[self._group[pairs], r].any():
                    self._rooms_at.append(len(self._rows.limit))
                    self._rows.add(columns, values, limit)
            freed = np.append(every[here], len(self.nodes) + k)
            self._rows.add(freed, np.append(np.ones(len(freed) - 1, dtype=np.int64), -1), 0)
        for q in range(len(total)):
            columns = self._pairs[self._group == q]
            self._rows.add(columns, np.full(len(columns), -1, dtype=np.int64), -int(total[q]))
        for b, pods in self._guarded():
            most = self.problem.evictions_at_most.get(b)
            if most is not None and int(pods.sum()) > most:  # all of them leave in so many waves
                self._rows.add(every, pods, most)

    def _limit_sparse(self, kind: Ints, group: Ints, sparse: Ints, most: Ints) -> None:
        """Pods of a class on nodes of a kind: no more than those that are not free take."""
        for i in sparse.tolist():
            for j in np.flatnonzero(self._group == group[i]).tolist():
                inside = kind == self._kind[j]
                each = int(most[i, inside].max())
                columns = np.array([self._pairs[j], len(self.nodes) + int(self._kind[j])])
                self._rows.add(columns, np.array([1, each]), each * int(np.count_nonzero(inside)))

    # --- what is asked --------------------------------------------------------------------------------------------------------

    def _objective(self, values: Ints, size: int) -> Ints:
        return np.append(values, np.zeros(size - len(values), dtype=np.int64))

    def _with(self, rows: Sequence[tuple[Ints, Ints, int]], upper: Ints) -> Program:
        every = _Nonzeros(list(self._rows.rows), list(self._rows.columns), list(self._rows.values), list(self._rows.limit))
        for row in rows:
            every.add(*row)
        return every.program(upper)

    def most(self, worth: Ints) -> int:
        """Return what the free nodes are worth at most; ``worth``: int64[N]."""
        objective = self._objective(worth[self.nodes], len(self.upper))
        return best_bound(self._with([], self.upper), objective, seconds=None, deterministic=True)

    def least_cost(self, worth: Ints, enough: int, cost: Ints) -> int:
        """Return what emptying nodes costs at least that are worth so much together; ``cost``: int64[N], of emptying each."""
        row = (np.arange(len(self.nodes)), -worth[self.nodes], -enough)
        objective = self._objective(-cost[self.nodes], len(self.upper))
        return -best_bound(self._with([row], self.upper), objective, seconds=None, deterministic=True)

    # --- a choice of nodes ----------------------------------------------------------------------------------------------------

    def chosen(self, worth: Ints, cost: Ints) -> Bools | None:
        """Return bool[N]: nodes that are worth most together of those that can be free at once, with few moves and such that few waves do
        for the PodDisruptionBudgets; None where the program has no solution. A choice that need not come true; ``cost``: int64[N], of
        emptying each node."""
        rows = self._filled()
        objective = self._objective(worth[self.nodes], len(self.upper))
        point = best_point(rows.program(self.upper), objective)
        if point is None:
            return None
        every, waves = np.arange(len(self.nodes)), len(self.upper)
        rows.add(every, -worth[self.nodes], -int(point[every] @ worth[self.nodes]))
        for b, pods in self._guarded():
            rows.add(np.append(every, waves), np.append(pods, -self.problem.budgets[b].allowed), 0)
        upper = np.append(self.upper, MOST_WAVES)
        objective = np.append(self._objective(-cost[self.nodes], waves), -WAVE)
        better = best_point(rows.program(upper), objective)
        found = np.zeros(self.problem.cluster.n_nodes, dtype=bool)
        found[self.nodes[(point if better is None else better)[every] > 0.5]] = True
        return found

    def _filled(self) -> _Nonzeros:
        """The rows, with so much less room on every node as whole pods are expected to leave over."""
        found = _Nonzeros(list(self._rows.rows), list(self._rows.columns), list(self._rows.values), list(self._rows.limit))
        for row in self._rooms_at:
            values, nodes = found.values[row].copy(), found.columns[row] < len(self.nodes)
            values[nodes] = values[nodes] * FULL // 100
            found.values[row], found.limit[row] = values, found.limit[row] * FULL // 100
        return found

    def _guarded(self) -> Iterator[tuple[int, Ints]]:
        """Yield each budget with its pods that may go on each node; without budgets that one wave does for."""
        problem = self.problem
        for b, budget in enumerate(problem.budgets):
            classes = np.flatnonzero((problem.guarded == b) & problem.movable)
            pods = problem.start[np.ix_(classes, self.nodes)].sum(axis=0)
            if budget.allowed and int(pods.sum()) > budget.allowed:
                yield b, pods


def _sparse(count: Ints, most: Ints) -> Ints:
    """Return the classes, by their place, whose pods need many nodes because each takes few; ``most``: int64[C, N]."""
    wanted = count // np.maximum(most.max(axis=1, initial=1), 1)
    order = np.argsort(-wanted, kind="stable")[:SPARSE]
    return np.sort(order[wanted[order] >= SPARSE_NODES])
