"""Packings of one node's pods onto the other nodes at once, by CP-SAT: steps, or a proof that there are none."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.capacity.upgrade.state import PoolState
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.ortools import cp_model
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rules.eligibility import demand_with_slots, room_with_slots
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of seconds for one model, and of (class, node) pairs in it.
MODEL_SECONDS = 5.0
MAX_MODEL_PAIRS = 60_000
#: Number of (class, node) pairs up to which a model decides whether all pods of some nodes fit on fewer nodes.
MAX_OVERFULL_PAIRS = 2_000


class NodePacking:
    """Packing queries about a state, within the time of a run."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._cpsat = CpSat(context)

    def steps(self, state: PoolState, n: int) -> list[Step] | None:
        """Return accepted steps that empty a cordoned node, if one packing leads to some. The state is unchanged."""
        pods = _pods(state, n)
        cells = self._solve(state, n, pods, {g: state.places(g, n) for g in pods})[1]
        if cells is None:
            return None
        applied: list[Step] = []
        waiting = [Step(g, n, b) for g, b in cells]
        while waiting:
            accepted = next((step for step in waiting if state.places(step.g, n)[step.b]), None)
            if accepted is None:
                break
            state.apply(accepted)
            applied.append(accepted)
            waiting.remove(accepted)
        steps = list(applied)
        state.undo_all(applied, 0)
        return None if waiting else steps

    def never(self, state: PoolState, n: int, present: Bools) -> bool:
        """Return True if it is proved that no drain empties node n from this state on.

        The proof is a shortage of resources on the nodes that rules about single pods and nodes admit.

        Args:
            present: Nodes that may take pods, bool[N].
        """
        pods = _pods(state, n)
        there = present.copy()
        there[n] = False
        masks = {g: there & ~state.lasting(g) for g in pods}
        return self._solve(state, n, pods, masks)[0] == cp_model.INFEASIBLE

    def confined(self, state: PoolState, n: int, surge: int) -> bool:
        """Return True if it is proved that node n is never empty.

        The pods that are confined to the nodes eligible for one of its pods do not fit there without n. Of
        every other pair, the old or the new node exists, and ``surge`` further nodes do.
        """
        pool, cluster, fit = state.pool, state.problem.cluster, state.fit
        empty, problem = room_with_slots(cluster), state.problem
        empty[:, :-1] = np.maximum(problem.room + problem.reserve, empty[:, :-1])  # more with pods whose resize is pending
        demand = demand_with_slots(cluster)
        movable = np.flatnonzero(state.problem.movable & state.counts.any(axis=1))
        empty = np.maximum(empty, state.counts[movable].T @ demand[movable])  # pods stay on a node that has less than their requests
        usable = {h: ~(state.lasting(h) | fit.never(h)) for h in movable.tolist()}
        # Pods on nodes that would accept them, or on n; other pods stay elsewhere.
        total = np.zeros(cluster.n_classes, dtype=np.int64)
        for h, mask in usable.items():
            total[h] = state.counts[h, mask].sum() + (0 if mask[n] else state.counts[h, n])
        for mask in {usable[g].tobytes(): usable[g] for g in _pods(state, n)}.values():
            inside = [h for h in movable.tolist() if not (usable[h] & ~mask).any()]
            room = np.where(mask[:, None], np.maximum(empty, 0), 0)
            old, new = np.array(list(pool.new)), np.array(list(pool.new.values()))
            pairs = np.stack([room[old], room[new]])
            pairs[0, old == n] = 0
            own = pairs[1, old == n][0]
            best = pairs.max(axis=0)
            best[old == n] = 0
            more = np.sort(np.concatenate([pairs.min(axis=0)[old != n], own[None]]), axis=0)[::-1][:surge].sum(axis=0)
            residual = room.sum(axis=0) - room[old].sum(axis=0) - room[new].sum(axis=0)
            wanted = (demand[inside] * total[inside, None]).sum(axis=0)
            if (wanted > best.sum(axis=0) + residual + more).any():
                return True
            bins = [*best[old != n][best[old != n].any(axis=1)], *room[pool.start() & pool.end() & mask]]
            if not surge and self._overfull(demand[inside], total[inside], bins):
                return True
        return False

    def _overfull(self, demand: Ints, pods: Ints, bins: list[Ints]) -> bool:
        """Return True if it is proved that pods of some classes do not fit into bins.

        Args:
            demand: Demand of a pod of each class with its slot, int64[K, R + 1].
            pods: Pods of each class, int64[K].
            bins: Room of each bin, int64[R + 1].
        """
        if not bins or len(demand) * len(bins) > MAX_OVERFULL_PAIRS or self._cpsat.done():
            return False
        model = cp_model.CpModel()
        x = [[model.new_int_var(0, int(k), "") for _ in bins] for k in pods]
        for row, k in zip(x, pods.tolist(), strict=True):
            model.add(cp_model.LinearExpr.sum(row) == k)
        for b, room in enumerate(bins):
            for r in range(demand.shape[1]):
                _row(model, [row[b] for row in x], demand[:, r].tolist(), int(room[r]))
        answer = self._cpsat.run(model, min(MODEL_SECONDS, self._context.deadline.remaining()), None, tight=False)
        return answer.status == cp_model.INFEASIBLE

    def _solve(
        self, state: PoolState, n: int, pods: dict[int, int], masks: dict[int, Bools]
    ) -> tuple[cp_model.CpSolverStatus, list[tuple[int, int]] | None]:
        """Find nodes for pods together. Only resources, slots and ``masks`` are respected.

        Args:
            pods: Number of pods by class.
            masks: Nodes that each class may use, bool[N].

        Returns:
            The status of CP-SAT, and (class, node) of each pod; None without a solution. UNKNOWN also if the model is too large.
        """
        cluster, room = state.problem.cluster, {g: np.where(masks[g], state.fit.room(g), 0) for g in pods}
        if any(int(np.minimum(room[g], k).sum()) < k for g, k in pods.items()):
            return cp_model.INFEASIBLE, None
        if sum(int(np.count_nonzero(each)) for each in room.values()) > MAX_MODEL_PAIRS or self._cpsat.done():
            return cp_model.UNKNOWN, None
        model = cp_model.CpModel()
        x = {(g, b): model.new_int_var(0, min(k, int(room[g][b])), "") for g, k in pods.items() for b in np.flatnonzero(room[g]).tolist()}
        by_node: dict[int, list[int]] = {}
        for g, b in x:
            by_node.setdefault(b, []).append(g)
        for g, k in pods.items():
            model.add(cp_model.LinearExpr.sum([x[g, b] for b in np.flatnonzero(room[g]).tolist()]) == k)
        for b, here in by_node.items():
            variables = [x[g, b] for g in here]
            model.add(cp_model.LinearExpr.sum(variables) <= int(state.fit.slots[b]))
            for r in range(len(cluster.resources)):
                _row(model, variables, [int(cluster.demand[g, r]) for g in here], int(state.fit.free[b, r]))
        answer = self._cpsat.run(model, min(MODEL_SECONDS, self._context.deadline.remaining()), None, tight=False)
        if answer.solution is None:
            return answer.status, None
        solution = answer.solution
        return answer.status, [cell for cell, variable in x.items() for _ in range(solution[variable.index])]


def _row(model: cp_model.CpModel, variables: Sequence[cp_model.IntVar], demand: Sequence[int], free: int) -> None:
    unit = gcd(*demand)
    asking = [(variable, need // unit) for variable, need in zip(variables, demand, strict=True) if need]
    if asking:
        model.add(cp_model.LinearExpr.weighted_sum([v for v, _ in asking], [d for _, d in asking]) <= max(0, free) // unit)


def _pods(state: PoolState, n: int) -> dict[int, int]:
    """Return the movable classes with pods on a node, each with their number."""
    here = np.flatnonzero((state.counts[:, n] > 0) & state.problem.movable)
    return {g: int(state.counts[g, n]) for g in here.tolist()}
